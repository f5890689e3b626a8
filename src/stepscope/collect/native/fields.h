/* The hot path of the step clock in C: what hooks.py, clock.py, training_loader.py, samples.py and mmap_file.py do in a step without
 * surprises, without bytecode, which a training step finds cold in the processor's caches each time.
 *
 * The Python code stays the whole truth. The fields of State, StepClock and LoaderUse lie in structs that the Python
 * classes inherit, so both work on the same numbers; a Hook looks whether the moment is an ordinary one and else calls
 * the Python hook or the clock's Python method. To change what is done, change the Python code first.
 *
 * Limited API of Python 3.9: one file for every later version. Nothing here releases the interpreter lock.
 */

#ifndef STEPSCOPE_COLLECT_FIELDS_H
#define STEPSCOPE_COLLECT_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little endian"
#endif

typedef struct {
    PyObject_HEAD
    long long phase, step, gc_ns, thread;
    char traced;
} State;

typedef struct {
    PyObject_HEAD
    PyObject *count;
    long long wait, away, samples, fetches, flags, step;
    char train, counted, any_grad, open, grad;
} Use;

typedef struct {
    PyObject_HEAD
    PyObject *boundary, *consumed, *edge, *emit, *grad_enabled, *ident, *last, *now, *state, *touched, *training;
    long long thread, start, mark, forward, backward, optimizer, micro, flags, expected, inner_forward, gc_mark;
    long long depth, leader, unobserved;
    char busy, closures, foreign, voting;
} Clock;

/* A hook's view of its clock. `real`: the clock reads CLOCK_MONOTONIC and asks the system for the thread. */
typedef struct {
    PyObject_HEAD
    PyObject *original, *unusual;
    Clock *clock;
    State *state;
    char real;
} Hook;

/* RECORD in pieces.py */
typedef struct {
    int64_t step, start, end, data_wait, forward, backward, optimizer, evaluation_wait, gc, samples;
    int32_t micro_batches;
    uint32_t flags;
} Record;

static PyTypeObject *state_type, *use_type, *clock_type, *writer_type, *first_axis_type;
static PyObject *name_shape, *name_use; /* "shape", "_stepscope_use" */

/* The end of every tp_dealloc here. */
static void release(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_memory(self);
    Py_DECREF(type);
}

static int visit_all(PyObject **held, int number, visitproc visit, void *arg)
{
    for (int index = 0; index < number; index++)
        Py_VISIT(held[index]);
    return 0;
}

static void let_go(PyObject **held, int number)
{
    for (int index = 0; index < number; index++)
        Py_CLEAR(held[index]);
}

/* Objects with HELD references side by side from FIRST on; BEFORE is done before they are let go of.
 *
 * None of them has a tp_clear: what is still called while the collector takes its cycle apart must work. Every cycle
 * through one of them goes through a dictionary, a class or a closure, which the collector can clear. */
#define COLLECTED(NAME, STRUCT, FIRST, HELD, BEFORE)                                                                   \
    static int NAME##_traverse(PyObject *self, visitproc visit, void *arg)                                             \
    {                                                                                                                  \
        Py_VISIT(Py_TYPE(self));                                                                                       \
        return visit_all((PyObject **)&((STRUCT *)self)->FIRST, HELD, visit, arg);                                     \
    }                                                                                                                  \
    static void NAME##_dealloc(PyObject *self)                                                                         \
    {                                                                                                                  \
        PyObject_GC_UnTrack(self);                                                                                     \
        BEFORE;                                                                                                        \
        let_go((PyObject **)&((STRUCT *)self)->FIRST, HELD);                                                           \
        release(self);                                                                                                 \
    }

#define GC_SLOTS(NAME) {Py_tp_dealloc, NAME##_dealloc}, {Py_tp_traverse, NAME##_traverse}

#endif
