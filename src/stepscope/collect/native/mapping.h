/* The memory of a file that stays when every descriptor of it is closed: mmap.mmap keeps one open, whose number the job
 * may close and get again for a file of its own, which mmap.mmap would close in the end. */

#ifndef STEPSCOPE_COLLECT_MAPPING_H
#define STEPSCOPE_COLLECT_MAPPING_H

#include "fields.h"
#include <sys/mman.h>

enum { WRITABLE = 0x200 }; /* PyBUF_WRITE */

/* It may be longer than the file. It is never let go of: another thread may be writing to it. */
static PyObject *map_shared(PyObject *module, PyObject *args)
{
    int descriptor;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "in:map_shared", &descriptor, &size))
        return NULL;
    void *space = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (space == MAP_FAILED)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyMemoryView_FromMemory(space, size, WRITABLE);
}

#endif
