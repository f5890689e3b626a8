/* Appends records to the file of mapped.py, whose blocks are reserved, through a mapping of its own. */

#ifndef STEPSCOPE_COLLECT_RECORDS_H
#define STEPSCOPE_COLLECT_RECORDS_H

#include "fields.h"
#include <string.h>
#include <sys/mman.h>

enum { COUNT_OFFSET = 40 }; /* COUNT_OFFSET in mapped.py */

typedef struct {
    PyObject_HEAD
    PyObject *grow;
    char *space; /* NULL once closed */
    Py_ssize_t size, end, record_size;
    int64_t count;
    int descriptor;
} Writer;

static void unmap(Writer *self)
{
    if (self->space)
        munmap(self->space, (size_t)self->size);
    self->space = NULL;
}

COLLECTED(writer, Writer, grow, 1, unmap((Writer *)self))

static int map(Writer *self, Py_ssize_t size)
{
    void *space = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, self->descriptor, 0);
    if (space == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    unmap(self);
    self->space = space;
    self->size = size;
    return 0;
}

static int closed(void)
{
    PyErr_SetString(PyExc_ValueError, "write to a closed record file");
    return -1;
}

static int grow(Writer *self)
{
    PyObject *file = PyObject_CallObject(self->grow, NULL);
    Py_ssize_t size = file ? PyObject_Size(file) : -1;
    Py_XDECREF(file);
    if (size < 0)
        return -1;
    if (!self->space || size < self->end + self->record_size)
        return closed(); /* meanwhile, by another thread: its descriptor may be anything now */
    return map(self, size);
}

static int writer_put(PyObject *writer, const void *record, Py_ssize_t size)
{
    Writer *self = (Writer *)writer;
    if (size != self->record_size) {
        PyErr_Format(PyExc_ValueError, "a record of %zd bytes in a file of records of %zd", size, self->record_size);
        return -1;
    }
    if (!self->space)
        return closed();
    if (self->end + size > self->size && grow(self) < 0)
        return -1;
    memcpy(self->space + self->end, record, (size_t)size);
    self->end += size;
    self->count++;
    __atomic_store_n((int64_t *)(self->space + COUNT_OFFSET), self->count, __ATOMIC_RELEASE);
    return 0;
}

static PyObject *writer_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    const char *record;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#:Writer", &record, &size) || writer_put(self, record, size) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *writer_close(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    unmap((Writer *)self);
    Py_RETURN_NONE;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *grow_file;
    int descriptor;
    Py_ssize_t size, header_size, record_size;
    if (!PyArg_ParseTuple(args, "Oinnn:Writer", &grow_file, &descriptor, &size, &header_size, &record_size))
        return NULL;
    if (header_size < COUNT_OFFSET + 8 || record_size <= 0 || size < header_size)
        return PyErr_Format(PyExc_ValueError, "no room for a header and a record");
    Writer *self = (Writer *)PyType_GenericNew(type, NULL, NULL);
    if (!self)
        return NULL;
    Py_INCREF(grow_file);
    self->grow = grow_file;
    self->descriptor = descriptor;
    self->end = header_size;
    self->record_size = record_size;
    if (map(self, size) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyMethodDef writer_methods[] = {
    {"close", writer_close, METH_NOARGS, "Let go of the file's memory; a second call does nothing."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    GC_SLOTS(writer),
    {Py_tp_new, writer_new},
    {Py_tp_call, writer_call},
    {Py_tp_methods, writer_methods},
    {Py_tp_doc, "Writer(grow, descriptor, size, header_size, record_size): a function that appends one record"},
    {0, NULL},
};

static PyType_Spec writer_spec = {
    "stepscope.collect.native_hooks.Writer", sizeof(Writer), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, writer_slots,
};

#endif
