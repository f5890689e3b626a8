/* Appends records to the file of mapped.py, whose blocks are reserved, through a mapping of its own. */

#ifndef STEPSCOPE_COLLECT_RECORDS_H
#define STEPSCOPE_COLLECT_RECORDS_H

#include "fields.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COUNT_OFFSET = 40 }; /* COUNT_OFFSET in mapped.py */

typedef struct {
    PyObject_HEAD
    PyObject *grow; /* returns a descriptor of the file, which is closed here */
    char *space;    /* NULL once closed */
    Py_ssize_t size, end, record_size;
    int64_t count;
} Writer;

static void unmap(Writer *self)
{
    if (self->space)
        munmap(self->space, (size_t)self->size);
    self->space = NULL;
}

COLLECTED(writer, Writer, grow, 1, unmap((Writer *)self))

static int map(Writer *self, int descriptor)
{
    struct stat status;
    void *space = MAP_FAILED;
    if (fstat(descriptor, &status) == 0)
        space = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    int error = errno;
    close(descriptor);
    if (space == MAP_FAILED) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    unmap(self);
    self->space = space;
    self->size = (Py_ssize_t)status.st_size;
    return 0;
}

static int closed(void)
{
    PyErr_SetString(PyExc_ValueError, "write to a closed record file");
    return -1;
}

static int grow(Writer *self)
{
    PyObject *answer = PyObject_CallObject(self->grow, NULL);
    long descriptor = answer ? PyLong_AsLong(answer) : -1;
    Py_XDECREF(answer);
    if (descriptor < 0)
        return PyErr_Occurred() ? -1 : closed();
    return map(self, (int)descriptor);
}

/* Can the kernel write the eight bytes at `place`? A store there would kill the job where somebody has cut the file, or
 * where its disk gives an error; a system call that is to put its answer there (here: which signals are blocked) only
 * fails. The header lies before, so that it is there whenever the record is. */
static int is_there(char *place)
{
#ifdef SYS_rt_sigprocmask
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, place, (size_t)8) == 0 || errno != EFAULT;
#else
    return place != NULL;
#endif
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
    if (!self->space || self->end + size > self->size)
        return closed(); /* meanwhile, by another thread */
    if (!is_there(self->space + self->end + size - 8)) {
        PyErr_SetString(PyExc_OSError, "the file was cut short, or its disk is full");
        return -1;
    }
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

static PyObject *writer_close(PyObject *writer, PyObject *Py_UNUSED(ignored))
{
    Writer *self = (Writer *)writer;
    if (!self->space)
        Py_RETURN_NONE;
    unmap(self);
    return PyLong_FromLongLong(self->count);
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *grow_file;
    Py_ssize_t header_size, record_size;
    if (!PyArg_ParseTuple(args, "Onn:Writer", &grow_file, &header_size, &record_size))
        return NULL;
    if (header_size < COUNT_OFFSET + 8 || record_size < 8)
        return PyErr_Format(PyExc_ValueError, "no room for a header and a record");
    Writer *self = (Writer *)PyType_GenericNew(type, NULL, NULL);
    if (!self)
        return NULL;
    Py_INCREF(grow_file);
    self->grow = grow_file;
    self->end = header_size;
    self->record_size = record_size;
    if (grow(self) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyMethodDef writer_methods[] = {
    {"close", writer_close, METH_NOARGS, "Let go of the file's memory; returns the number of records, once."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    GC_SLOTS(writer),
    {Py_tp_new, writer_new},
    {Py_tp_call, writer_call},
    {Py_tp_methods, writer_methods},
    {Py_tp_doc, "Writer(grow, header_size, record_size): appends a record to the file that grow() opens"},
    {0, NULL},
};

static PyType_Spec writer_spec = {
    "stepscope.collect.native_hooks.Writer", sizeof(Writer), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, writer_slots,
};

#endif
