/* Times of the calls of one thread, seen from outside: by a profile function that is set while a fetch is recorded.
 *
 * Nothing that is called is touched. The table holds addresses of code objects and of functions written in C; they are
 * compared, never looked into, so what they are of may go at any time. `ask`, `answer` and `label` are Python functions
 * of calls.py, called for the few calls whose arguments or results are wanted; no event comes from inside them.
 *
 * The profile function is set without an object: sys.getprofile() says None, as without us. Whether it is still ours is
 * known by the event of the call of `stop` itself: one who has set another, or none, in between keeps that.
 */

#ifndef STEPSCOPE_COLLECT_CALLS_H
#define STEPSCOPE_COLLECT_CALLS_H

#include "fields.h"
#include <dlfcn.h>
#include <string.h>
#include <time.h>

/* Every Python from 3.9 on has these two; the limited API of 3.9 does not. */
typedef int (*Profile)(PyObject *, PyFrameObject *, int, PyObject *);
static void (*set_profile)(Profile, PyObject *);
static PyCodeObject *(*code_of)(PyFrameObject *);

enum { EVENT_CALL = 0, EVENT_RETURN = 3, EVENT_C_CALL = 4, EVENT_C_EXCEPTION = 5, EVENT_C_RETURN = 6 };
enum { TABLE = 512, MOST_TARGETS = 256, DEEPEST = 64, MOST_SPANS = 4096 }; /* MOST_SPANS: PENDING_LIMIT in lane.py */
enum { TIMED, ENTERS, LEAVES };                                             /* kinds of targets */

/* `asks`: so many calls are told to `ask` before they begin; `shortest`: a span that took less is left out. */
typedef struct {
    void *key;
    long long name, asks, shortest;
    int kind, stage;
} Target;

/* A call that has not returned; `frame` is that of a function of Python, else the function. */
typedef struct {
    Target *target;
    void *frame;
    PyObject *before;
    long long name, number, start, cpu;
} Open;

typedef struct {
    long long start, end, cpu, number, name;
    int stage;
} Called;

typedef struct {
    PyObject_HEAD
    PyObject *ask, *answer, *label, *full, *generator;
    void *stop; /* the function that ends it, while it watches */
    long long events;
    int stopping, depth, spans, targets;
    Target table[TABLE];
    Open open[DEEPEST];
    Called *called;
} Watch;

static _Thread_local Watch *watching;

static long long calls_now(clockid_t clock)
{
    struct timespec moment;
    clock_gettime(clock, &moment);
    return moment.tv_sec * 1000000000LL + moment.tv_nsec;
}

static Target *place_of(Watch *self, const void *key)
{
    uint64_t place = ((uint64_t)(uintptr_t)key >> 4) * 0x9E3779B97F4A7C15ULL >> 32;
    Target *target = &self->table[place % TABLE];
    while (target->key && target->key != key) /* the table is never more than half full */
        target = target == &self->table[TABLE - 1] ? self->table : target + 1;
    return target;
}

/* What a function of calls.py has answered. One that fails is as one that says nothing; an interrupt is the job's. */
static int calls_told(PyObject *answer)
{
    if (!answer && !PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    if (!answer)
        PyErr_Clear();
    Py_XDECREF(answer);
    return 0;
}

static PyObject *spans_of(Watch *self)
{
    PyObject *rows = PyList_New(0);
    for (int index = 0; rows && index < self->spans; index++) {
        Called *one = &self->called[index];
        PyObject *row = Py_BuildValue("(iLLLLLi)", one->stage, one->start, one->end, one->cpu, one->number, one->name, 0);
        if (!row || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    self->spans = 0;
    return rows;
}

static int keep(Watch *self, Open *open, long long end, long long cpu)
{
    if (self->spans == MOST_SPANS) {
        PyObject *rows = spans_of(self);
        PyObject *answer = rows ? PyObject_CallFunctionObjArgs(self->full, rows, NULL) : NULL;
        Py_XDECREF(rows);
        if (calls_told(answer) < 0)
            return -1;
    }
    self->called[self->spans++] = (Called){
        open->start, end, cpu - open->cpu, open->number, open->name, open->target->stage,
    };
    return 0;
}

/* Have `ask` say name, number and what is kept until the return; a name of 0: this call is none of those. */
static int asked(Watch *self, Open *open, PyFrameObject *frame)
{
    PyObject *answer = PyObject_CallFunction(self->ask, "OiL", (PyObject *)frame, open->target->stage, open->name);
    PyObject *before = NULL;
    if (answer && PyArg_ParseTuple(answer, "LLO", &open->name, &open->number, &before) && before != Py_None) {
        Py_INCREF(before);
        open->before = before;
    } else if (!answer || !before) {
        open->name = 0;
        Py_CLEAR(answer);
        return calls_told(NULL);
    }
    return calls_told(answer);
}

static int begins(Watch *self, Target *target, PyFrameObject *frame, void *key)
{
    if (target->kind == LEAVES)
        return calls_told(PyObject_CallFunctionObjArgs(self->label, (PyObject *)frame, Py_False, NULL));
    if (self->depth == DEEPEST)
        return 0;
    Open *open = &self->open[self->depth];
    *open = (Open){target, key, NULL, target->name, -1, 0, 0};
    if (target->asks > 0) {
        target->asks--;
        if (asked(self, open, frame) < 0)
            return -1;
        if (!open->name)
            return 0;
    }
    self->depth++;
    open->start = calls_now(CLOCK_MONOTONIC);
    open->cpu = calls_now(CLOCK_THREAD_CPUTIME_ID);
    return 0;
}

static int returns(Watch *self, PyFrameObject *frame, PyObject *result)
{
    Open open = self->open[--self->depth];
    int failed = 0;
    if (open.target->kind == ENTERS) {
        if (result)
            failed = calls_told(PyObject_CallFunctionObjArgs(self->label, (PyObject *)frame, Py_True, NULL));
    } else {
        long long end = calls_now(CLOCK_MONOTONIC), cpu = calls_now(CLOCK_THREAD_CPUTIME_ID);
        int begun_only = result && (PyObject *)Py_TYPE(result) == self->generator; /* it has done nothing yet */
        if (end - open.start >= open.target->shortest && !begun_only)
            failed = keep(self, &open, end, cpu);
        if (open.before && result && !failed)
            failed = calls_told(PyObject_CallFunction(self->answer, "LOO", open.name, open.before, result));
    }
    Py_XDECREF(open.before);
    return failed;
}

/* A call ends: those inside it, whose ends nobody told, are let go of. */
static int ended(Watch *self, PyFrameObject *frame, void *key, PyObject *result)
{
    int at = self->depth - 1;
    while (at >= 0 && self->open[at].frame != key)
        at--;
    if (at < 0)
        return 0;
    while (self->depth > at + 1)
        Py_CLEAR(self->open[--self->depth].before);
    return returns(self, frame, result);
}

static int watch_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg)
{
    Watch *self = watching;
    if (!self) { /* in a forked child, or set again by who had kept it */
        set_profile(NULL, NULL);
        return 0;
    }
    self->events++;
    if (what == EVENT_RETURN)
        return self->depth ? ended(self, frame, frame, arg) : 0;
    if (what == EVENT_C_RETURN || what == EVENT_C_EXCEPTION)
        return self->depth ? ended(self, frame, arg, NULL) : 0;
    void *key = arg, *code = NULL;
    if (what == EVENT_CALL) {
        code = key = code_of(frame);
        Py_DECREF((PyObject *)code); /* the frame has it */
    } else {
        self->stopping = arg == self->stop;
    }
    Target *target = place_of(self, key);
    return target->key ? begins(self, target, frame, code ? (void *)frame : key) : 0;
}

/* -- the type ----------------------------------------------------------------------------------------------------- */

static PyObject *watch_add(PyObject *watch, PyObject *args)
{
    Watch *self = (Watch *)watch;
    PyObject *key;
    Target target;
    if (!PyArg_ParseTuple(args, "OiiLLL:add", &key, &target.kind, &target.stage, &target.name, &target.asks,
                          &target.shortest))
        return NULL;
    target.key = key;
    Target *place = place_of(self, key);
    if (!place->key && self->targets++ >= MOST_TARGETS)
        return PyErr_Format(PyExc_OverflowError, "more than %d calls to watch", MOST_TARGETS);
    *place = target;
    Py_RETURN_NONE;
}

static PyObject *watch_clear(PyObject *watch, PyObject *Py_UNUSED(ignored))
{
    Watch *self = (Watch *)watch;
    if (watching == self)
        return PyErr_Format(PyExc_RuntimeError, "its calls are being watched");
    memset(self->table, 0, sizeof self->table);
    self->targets = 0;
    Py_RETURN_NONE;
}

static PyObject *watch_start(PyObject *watch, PyObject *stop)
{
    Watch *self = (Watch *)watch;
    if (watching || self->stop || !set_profile || !code_of)
        Py_RETURN_FALSE;
    if (!self->called && !(self->called = PyMem_Malloc(MOST_SPANS * sizeof(Called))))
        return PyErr_NoMemory();
    self->stop = stop;
    self->stopping = self->depth = self->spans = 0;
    self->events = 0;
    Py_INCREF(watch);
    watching = self;
    set_profile(watch_event, NULL);
    Py_RETURN_TRUE;
}

static PyObject *watch_stop(PyObject *watch, PyObject *Py_UNUSED(ignored))
{
    Watch *self = (Watch *)watch;
    if (watching != self)
        return PyList_New(0);
    if (self->stopping)
        set_profile(NULL, NULL);
    watching = NULL;
    self->stop = NULL;
    while (self->depth)
        Py_CLEAR(self->open[--self->depth].before);
    PyObject *rows = spans_of(self);
    Py_DECREF(watch);
    return rows;
}

static PyObject *unwatch(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    watching = NULL; /* its reference is the parent's; the next event takes the profile function away */
    Py_RETURN_NONE;
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *held[5];
    *(void **)&set_profile = dlsym(RTLD_DEFAULT, "PyEval_SetProfile");
    *(void **)&code_of = dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
    if (!PyArg_ParseTuple(args, "OOOOO:Watch", &held[0], &held[1], &held[2], &held[3], &held[4]))
        return NULL;
    Watch *self = (Watch *)PyType_GenericNew(type, NULL, NULL);
    for (int index = 0; self && index < 5; index++) {
        Py_INCREF(held[index]);
        (&self->ask)[index] = held[index];
    }
    return (PyObject *)self;
}

COLLECTED(watch, Watch, ask, 5, PyMem_Free(((Watch *)self)->called))

static PyMethodDef watch_methods[] = {
    {"add", watch_add, METH_VARARGS, "add(code or function of C, kind, stage, name, asks, shortest)"},
    {"clear", watch_clear, METH_NOARGS, "Watch for no call any more."},
    {"start", watch_start, METH_O, "start(stop): watch this thread until `stop`, its own, is called; could it begin?"},
    {"stop", watch_stop, METH_NOARGS, "The spans since `start`: stage, start, end, CPU time, number, name, 0"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef watch_members[] = {
    {"events", T_LONGLONG, offsetof(Watch, events), READONLY, "since the last `start`"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot watch_slots[] = {
    GC_SLOTS(watch),
    {Py_tp_new, watch_new},
    {Py_tp_methods, watch_methods},
    {Py_tp_members, watch_members},
    {Py_tp_doc, "Watch(ask, answer, label, full, generator): times calls of a thread from outside"},
    {0, NULL},
};

static PyType_Spec watch_spec = {
    "stepscope.collect.native_hooks.Watch", sizeof(Watch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, watch_slots,
};

#endif
