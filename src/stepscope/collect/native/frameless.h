/* Python functions whose calls make no frame: tracebacks, warnings, debuggers and coverage see none of ours.
 *
 * To torch.compile, inspect and pickle such a function is the Python function that it is. Python 3.11 calls functions
 * from bytecode without a look at how they want to be called: there the Python code runs, to the same effect. */

#ifndef STEPSCOPE_COLLECT_FRAMELESS_H
#define STEPSCOPE_COLLECT_FRAMELESS_H

#include "hooks.h"
#include <dlfcn.h>

typedef PyObject *(*Vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

enum { OFFSET_IN_TYPE = 56 }; /* of tp_vectorcall_offset, Python 3.9 to 3.11 on 64 bits; later ones have a function */

static PyObject *name_call; /* "_stepscope_call" */

static PyObject *keywords(PyObject *const *values, PyObject *names)
{
    PyObject *found = PyDict_New();
    for (Py_ssize_t index = 0; found && index < PyTuple_Size(names); index++)
        if (PyDict_SetItem(found, PyTuple_GetItem(names, index), values[index]) < 0)
            Py_CLEAR(found);
    return found;
}

static PyObject *call_without_frame(PyObject *function, PyObject *const *given, size_t number, PyObject *names)
{
    Py_ssize_t positional = (Py_ssize_t)(number << 1 >> 1); /* the highest bit is a flag for others */
    PyObject *call = PyObject_GetAttr(function, name_call), *result = NULL;
    PyObject *args = call ? PyTuple_New(positional) : NULL;
    PyObject *kwargs = args && names ? keywords(given + positional, names) : NULL;
    for (Py_ssize_t index = 0; args && index < positional; index++) {
        Py_INCREF(given[index]);
        PyTuple_SetItem(args, index, given[index]);
    }
    if (args && (kwargs || !names))
        result = PyObject_Call(call, args, kwargs);
    Py_XDECREF(call);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

static int set_vectorcall(PyObject *function)
{
    void (*set)(PyObject *, Vectorcall) = (void (*)(PyObject *, Vectorcall))dlsym(RTLD_DEFAULT, "PyFunction_SetVectorcall");
    unsigned version = (unsigned)strtoul(Py_GetVersion(), NULL, 10) << 8;
    version |= (unsigned)strtoul(strchr(Py_GetVersion(), '.') + 1, NULL, 10);
    if (set) {
        set(function, call_without_frame);
        return 1;
    }
    if (version < 0x0309 || version > 0x030b || sizeof(void *) != 8)
        return 0;
    Py_ssize_t offset;
    memcpy(&offset, (char *)Py_TYPE(function) + OFFSET_IN_TYPE, sizeof offset);
    Vectorcall call = call_without_frame;
    memcpy((char *)function + offset, &call, sizeof call);
    return 1;
}

static PyObject *without_frame(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *function, *call;
    if (!PyArg_ParseTuple(args, "OO:without_frame", &function, &call))
        return NULL;
    PyObject *types = PyImport_ImportModule("types");
    PyObject *kind = types ? PyObject_GetAttrString(types, "FunctionType") : NULL;
    Py_XDECREF(types);
    if (!kind)
        return NULL;
    int is_function = (PyObject *)Py_TYPE(function) == kind;
    Py_DECREF(kind);
    if (!is_function)
        return PyErr_Format(PyExc_TypeError, "not a Python function");
    if (PyObject_SetAttr(function, name_call, call) < 0)
        return NULL;
    return PyBool_FromLong(set_vectorcall(function));
}

#endif
