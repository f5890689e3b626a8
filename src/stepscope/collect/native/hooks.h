/* The hooks: each calls the original and tells the clock; what is not ordinary goes to the Python hook, `unusual`. */

#ifndef STEPSCOPE_COLLECT_HOOKS_H
#define STEPSCOPE_COLLECT_HOOKS_H

#include "clock.h"

typedef struct {
    PyObject *type, *value, *traceback;
} Raised;

static PyObject *call_unusual(Hook *hook, PyObject *args, PyObject *kwargs)
{
    return PyObject_Call(hook->unusual, args, kwargs);
}

/* The hook's last word: the original's `result`, or what it raised, unless our own method's `answer` is an error. */
static PyObject *passed_on(PyObject *result, Raised raised, PyObject *answer)
{
    if (answer) {
        Py_DECREF(answer);
        PyErr_Restore(raised.type, raised.value, raised.traceback);
        return result;
    }
    Py_XDECREF(result);
    Py_XDECREF(raised.type);
    Py_XDECREF(raised.value);
    Py_XDECREF(raised.traceback);
    return NULL;
}

static PyObject *not_fetched(Clock *clock, PyObject *iterator, long long begin)
{
    Raised raised;
    PyErr_Fetch(&raised.type, &raised.value, &raised.traceback);
    PyErr_NormalizeException(&raised.type, &raised.value, &raised.traceback);
    if (raised.traceback)
        PyException_SetTraceback(raised.value, raised.traceback);
    PyObject *answer = PyObject_CallMethod((PyObject *)clock, "not_fetched", "OLO", iterator, begin, raised.value);
    return passed_on(NULL, raised, answer);
}

static PyObject *fetched(Hook *hook, PyObject *iterator, Use *use, long long begin, PyObject *batch)
{
    Raised none = {NULL, NULL, NULL};
    if (hook->clock->thread == 0) /* a child, forked in there, begins anew */
        return passed_on(
            batch, none, PyObject_CallMethod((PyObject *)hook->clock, "fetched", "OLO", iterator, begin, batch));
    if (clock_fetched(hook, use, begin, batch) < 0)
        Py_CLEAR(batch);
    return batch;
}

static PyObject *fetch(Hook *hook, PyObject *iterator, Use *use)
{
    long long begin;
    if (clock_begins_fetch(hook, use, &begin) < 0)
        return NULL;
    PyObject *batch = PyObject_CallFunctionObjArgs(hook->original, iterator, NULL);
    return batch ? fetched(hook, iterator, use, begin, batch) : not_fetched(hook->clock, iterator, begin);
}

static PyObject *hook_next(PyObject *self, PyObject *iterator)
{
    Hook *hook = (Hook *)self;
    PyObject *use = clock_is_ordinary(hook) ? PyObject_GetAttr(iterator, name_use) : NULL, *batch = NULL;
    if (is_use(use)) {
        batch = fetch(hook, iterator, (Use *)use);
    } else if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception)) { /* not for a KeyboardInterrupt */
        PyErr_Clear();
        batch = PyObject_CallFunctionObjArgs(hook->unusual, iterator, NULL);
    }
    Py_XDECREF(use);
    return batch;
}

static PyObject *hook_backward(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Hook *hook = (Hook *)self;
    long long begin;
    if (!clock_is_ordinary(hook) || !clock_knows_the_batch(hook->clock))
        return call_unusual(hook, args, kwargs);
    if (clock_enters_backward(hook, &begin) < 0)
        return NULL;
    PyObject *result = PyObject_Call(hook->original, args, kwargs);
    if (result && hook->clock->leader && hook->clock->edge == Py_None) {
        if (clock_leaves_backward(hook, begin) < 0)
            Py_CLEAR(result);
        return result;
    }
    Raised raised;
    PyErr_Fetch(&raised.type, &raised.value, &raised.traceback);
    return passed_on(result, raised, PyObject_CallMethod((PyObject *)hook->clock, "leave_backward", "L", begin));
}

static PyObject *hook_step(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Hook *hook = (Hook *)self;
    long long begin;
    PyObject *optimizer = PyTuple_GetItem(args, 0);
    if (!optimizer || !clock_is_ordinary(hook)) {
        PyErr_Clear();
        return call_unusual(hook, args, kwargs);
    }
    if (clock_enters_step(hook, &begin) < 0)
        return NULL;
    PyObject *result = PyObject_Call(hook->original, args, kwargs);
    if (result && clock_ends_step(hook->clock, optimizer)) {
        if (clock_leaves_step(hook, begin) < 0)
            Py_CLEAR(result);
        return result;
    }
    Raised raised;
    PyErr_Fetch(&raised.type, &raised.value, &raised.traceback);
    PyObject *stepped = result ? optimizer : Py_None;
    PyObject *answer = PyObject_CallMethod((PyObject *)hook->clock, "leave_step", "OL", stepped, begin);
    return passed_on(result, raised, answer);
}

/* -- the type ----------------------------------------------------------------------------------------------------- */

static int is_that_of(const char *module_name, const char *name, PyObject *function)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = module ? PyObject_GetAttrString(module, name) : NULL;
    int same = found ? found == function : -1;
    Py_XDECREF(module);
    Py_XDECREF(found);
    return same;
}

static PyObject *hook_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Clock *clock;
    PyObject *original, *unusual;
    if (!PyArg_ParseTuple(args, "O!OO:Hook", clock_type, &clock, &original, &unusual))
        return NULL;
    if (!clock->state || !PyObject_TypeCheck(clock->state, state_type) || !clock->now || !clock->ident ||
        !clock->grad_enabled)
        return PyErr_Format(PyExc_TypeError, "a clock without a state");
    int own_time = is_that_of("time", "monotonic_ns", clock->now);
    int own_thread = own_time < 0 ? -1 : is_that_of("_thread", "get_ident", clock->ident);
    Hook *self = own_thread < 0 ? NULL : (Hook *)PyType_GenericNew(type, NULL, NULL);
    if (!self)
        return NULL;
    self->real = own_time && own_thread;
    self->original = original;
    self->unusual = unusual;
    self->clock = clock;
    self->state = (State *)clock->state;
    Py_INCREF(original);
    Py_INCREF(unusual);
    Py_INCREF(clock);
    Py_INCREF(clock->state);
    return (PyObject *)self;
}

COLLECTED(hook, Hook, original, 4, )

/* By value a hook is what it calls: a class that is sent to another process, or stored, works there without us. */
static PyObject *hook_reduce(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *original = ((Hook *)self)->original;
    PyObject *types = PyImport_ImportModule("types");
    PyObject *plain = types ? PyObject_GetAttrString(types, "SimpleNamespace") : NULL;
    Py_XDECREF(types);
    if (!plain)
        return NULL;
    return Py_BuildValue("N(){s:O,s:O,s:O}", plain, "next", original, "backward", original, "step", original);
}

static PyMethodDef hook_methods[] = {
    {"next", hook_next, METH_O, "original(iterator), the __next__ of a loader's iterator"},
    {"backward", (PyCFunction)(void (*)(void))hook_backward, METH_VARARGS | METH_KEYWORDS, "original, a backward"},
    {"step", (PyCFunction)(void (*)(void))hook_step, METH_VARARGS | METH_KEYWORDS, "original, an optimizer's step"},
    {"__reduce__", hook_reduce, METH_NOARGS, "for pickle: an object whose methods are the original"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot hook_slots[] = {
    GC_SLOTS(hook),
    {Py_tp_new, hook_new},
    {Py_tp_methods, hook_methods},
    {Py_tp_doc, "Hook(clock, original, unusual): calls original and tells the clock; leaves the rest to unusual"},
    {0, NULL},
};

static PyType_Spec hook_spec = {
    "stepscope.collect.native_hooks.Hook", sizeof(Hook), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, hook_slots,
};

#endif
