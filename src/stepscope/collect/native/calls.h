/* Times of the calls of one thread, seen from outside while a fetch is recorded.
 *
 * Nothing that is called is touched. The table holds addresses of code objects and of functions written in C; they are
 * compared, never looked into, so what they are of may go at any time. `ask`, `answer` and `label` are Python functions
 * of calls.py, called for the few calls whose arguments or results are wanted.
 *
 * There are two ways. By frames: the interpreter has one function that runs a frame (PEP 523), and ours stands in its
 * place while any thread watches. It sees calls of Python functions only, and bytecode runs as fast as ever. By events:
 * a profile function sees functions of C, too, but with one, Python up to 3.11 runs all bytecode by a slower way. It is
 * set without an object: sys.getprofile() says None, as without us. Whether it is still ours is known by the event of
 * the call of `stop` itself: one who has set another, or none, in between keeps that.
 */

#ifndef STEPSCOPE_COLLECT_CALLS_H
#define STEPSCOPE_COLLECT_CALLS_H

#include "fields.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Every Python from 3.9 on has these; the limited API of 3.9 does not. */
typedef int (*Profile)(PyObject *, PyFrameObject *, int, PyObject *);
typedef PyObject *(*Evaluate)(PyThreadState *, void *, int);
static void (*set_profile)(Profile, PyObject *);
static PyCodeObject *(*code_of)(PyFrameObject *);
static Evaluate evaluate;
static Evaluate (*evaluate_by)(PyInterpreterState *);
static void (*set_evaluate)(PyInterpreterState *, Evaluate);
static int by_frames; /* watches that go by frames, in all threads */

/* Where a frame that runs has its code, its function and its arguments, in pointers; `known`: up to which version. */
static struct {
    int known, is_object, code, function, arguments;
} layout;

enum { EVENT_CALL = 0, EVENT_RETURN = 3, EVENT_C_CALL = 4, EVENT_C_EXCEPTION = 5, EVENT_C_RETURN = 6 };
enum { TABLE = 512, MOST_TARGETS = 256, DEEPEST_CALL = 64, MOST_SPANS = 4096 }; /* MOST_SPANS: PENDING_LIMIT in batch_recorder.py */
enum { TIMED, ENTERS, LEAVES };                                             /* kinds of targets */
enum { HAS_MORE = 4 };                                                      /* CO_VARARGS */

/* `asks`: so many calls are told to `ask` before they begin; `shortest`: a span that took less is left out. */
typedef struct {
    void *key;
    long long name, asks, shortest;
    int kind, stage;
} Target;

/* A call that has not returned; `frame` is that of a function of Python, else the function.
 * `before` is what `ask` wants to have again, or the arguments of a function that enters a label. */
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
    int stopping, depth, spans, targets, frames;
    Target table[TABLE];
    Open open[DEEPEST_CALL];
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

static int keep_call(Watch *self, Open *open, long long end, long long cpu)
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

/* The first two arguments of a frame that is about to run: a tuple, NULL with an error. */
static PyObject *arguments_of(void *frame)
{
    PyObject **held = (PyObject **)frame, *code = held[layout.code];
    PyObject *named = PyObject_GetAttrString(code, "co_argcount");
    PyObject *only = named ? PyObject_GetAttrString(code, "co_kwonlyargcount") : NULL;
    PyObject *flags = only ? PyObject_GetAttrString(code, "co_flags") : NULL;
    PyObject *found = flags ? PyList_New(0) : NULL;
    long count = found ? PyLong_AsLong(named) : 0;
    for (long index = 0; found && index < (count < 2 ? count : 2); index++)
        if (held[layout.arguments + index] && PyList_Append(found, held[layout.arguments + index]) < 0)
            Py_CLEAR(found);
    if (found && count < 2 && PyLong_AsLong(flags) & HAS_MORE) {
        PyObject *more = held[layout.arguments + count + PyLong_AsLong(only)];
        if (more && PyList_SetSlice(found, count, count, more) < 0)
            Py_CLEAR(found);
    }
    PyObject *arguments = found ? PyList_AsTuple(found) : NULL;
    Py_XDECREF(found);
    Py_XDECREF(flags);
    Py_XDECREF(only);
    Py_XDECREF(named);
    return arguments;
}

/* Have `ask` say name, number and what is kept until the return; a name of 0: this call is none of those. A frame that
 * is no object is described by its code, its function and its arguments. */
static int asked(Watch *self, Open *open, PyObject *frame, void *inner)
{
    PyObject *answer = NULL, *before = NULL, *arguments = inner ? arguments_of(inner) : NULL;
    if (!inner)
        answer = PyObject_CallFunction(self->ask, "iLO", open->target->stage, open->name, frame);
    else if (arguments)
        answer = PyObject_CallFunction(self->ask, "iLOOO", open->target->stage, open->name, Py_None,
                                       ((PyObject **)inner)[layout.function], arguments);
    Py_XDECREF(arguments);
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

/* A label is entered or left, by a frame that is an object, or with these arguments by the caller of one that is not. */
static int labeled(Watch *self, PyObject *frame, PyObject *arguments, PyObject *entered)
{
    if (frame)
        return calls_told(PyObject_CallFunctionObjArgs(self->label, entered, frame, NULL));
    PyObject *caller = (PyObject *)PyEval_GetFrame();
    return caller && arguments
               ? calls_told(PyObject_CallFunctionObjArgs(self->label, entered, caller, arguments, NULL))
               : calls_told(NULL);
}

/* The call of a target begins: is its return to be told? -1 for an error. */
static int begins(Watch *self, Target *target, PyObject *frame, void *inner, void *key)
{
    PyObject *label = inner && target->kind != TIMED ? arguments_of(inner) : NULL;
    if (target->kind == LEAVES) {
        int failed = labeled(self, frame, label, Py_False);
        Py_XDECREF(label);
        return failed;
    }
    if (self->depth == DEEPEST_CALL) {
        Py_XDECREF(label);
        return 0;
    }
    Open *open = &self->open[self->depth];
    *open = (Open){target, key, label, target->name, -1, 0, 0};
    if (target->kind == TIMED && target->asks > 0) {
        target->asks--;
        if (asked(self, open, frame, inner) < 0)
            return -1;
        if (!open->name)
            return 0;
    }
    self->depth++;
    open->start = calls_now(CLOCK_MONOTONIC);
    open->cpu = calls_now(CLOCK_THREAD_CPUTIME_ID);
    return 1;
}

static int returns(Watch *self, PyObject *frame, PyObject *result)
{
    Open open = self->open[--self->depth];
    int failed = 0;
    if (open.target->kind == ENTERS) {
        if (result)
            failed = labeled(self, frame, open.before, Py_True);
    } else {
        long long end = calls_now(CLOCK_MONOTONIC), cpu = calls_now(CLOCK_THREAD_CPUTIME_ID);
        int begun_only = result && (PyObject *)Py_TYPE(result) == self->generator; /* it has done nothing yet */
        if (end - open.start >= open.target->shortest && !begun_only)
            failed = keep_call(self, &open, end, cpu);
        if (open.before && result && !failed)
            failed = calls_told(PyObject_CallFunction(self->answer, "LOO", open.name, open.before, result));
    }
    Py_XDECREF(open.before);
    return failed;
}

/* A call ends: those inside it, whose ends nobody told, are let go of. */
static int ended(Watch *self, PyObject *frame, void *key, PyObject *result)
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
        return self->depth ? ended(self, (PyObject *)frame, frame, arg) : 0;
    if (what == EVENT_C_RETURN || what == EVENT_C_EXCEPTION)
        return self->depth ? ended(self, (PyObject *)frame, arg, NULL) : 0;
    void *key = arg, *code = NULL;
    if (what == EVENT_CALL) {
        code = key = code_of(frame);
        Py_DECREF((PyObject *)code); /* the frame has it */
    } else {
        self->stopping = arg == self->stop;
    }
    Target *target = place_of(self, key);
    if (!target->key)
        return 0;
    return begins(self, target, (PyObject *)frame, NULL, code ? (void *)frame : key) < 0 ? -1 : 0;
}

/* A frame runs to its end. */
static PyObject *run_watched(Watch *self, Target *target, PyThreadState *thread, void *inner)
{
    PyObject *frame = layout.is_object ? (PyObject *)inner : NULL;
    Py_INCREF((PyObject *)self);
    int begun = begins(self, target, frame, frame ? NULL : inner, inner);
    PyObject *result = evaluate(thread, inner, begun < 0); /* with an error set, it raises that */
    if (begun > 0 && watching == self && self->depth && self->open[self->depth - 1].frame == inner) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (returns(self, frame, result) < 0) { /* an interrupt, which goes before what the call has raised */
            Py_CLEAR(result);
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        } else {
            PyErr_Restore(type, value, traceback);
        }
    }
    Py_DECREF((PyObject *)self);
    return result;
}

static PyObject *watch_frame(PyThreadState *thread, void *inner, int throws)
{
    Watch *self = watching;
    if (!self || !self->frames)
        return evaluate(thread, inner, throws);
    self->events++;
    void *code;
    if (layout.is_object) {
        code = code_of((PyFrameObject *)inner);
        Py_DECREF((PyObject *)code); /* the frame has it */
    } else {
        code = ((void **)inner)[layout.code];
    }
    Target *target = place_of(self, code);
    if (throws || !target->key)
        return evaluate(thread, inner, throws);
    return run_watched(self, target, thread, inner);
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

/* Frames are watched where nobody else has a function for them: torch.compile puts its own there now and then. */
static int watch_frames(void)
{
    PyInterpreterState *state = PyInterpreterState_Get();
    Evaluate now = layout.known ? evaluate_by(state) : NULL;
    if (!now || (now != evaluate && now != watch_frame))
        return 0;
    if (now == evaluate)
        set_evaluate(state, watch_frame);
    by_frames++;
    return 1;
}

static void unwatch_frames(int watches)
{
    PyInterpreterState *state = PyInterpreterState_Get();
    by_frames = watches;
    if (!by_frames && layout.known && evaluate_by(state) == watch_frame)
        set_evaluate(state, evaluate);
}

static PyObject *watch_start(PyObject *watch, PyObject *args)
{
    Watch *self = (Watch *)watch;
    PyObject *stop;
    int frames, events;
    if (!PyArg_ParseTuple(args, "Opp:start", &stop, &frames, &events))
        return NULL;
    if (watching || self->stop)
        Py_RETURN_FALSE;
    if (!self->called && !(self->called = PyMem_Malloc(MOST_SPANS * sizeof(Called))))
        return PyErr_NoMemory();
    self->frames = frames && watch_frames();
    if (!self->frames && (!events || !set_profile || !code_of))
        Py_RETURN_FALSE;
    self->stop = stop;
    self->stopping = self->depth = self->spans = 0;
    self->events = 0;
    Py_INCREF(watch);
    watching = self;
    if (!self->frames)
        set_profile(watch_event, NULL);
    Py_RETURN_TRUE;
}

static PyObject *watch_stop(PyObject *watch, PyObject *Py_UNUSED(ignored))
{
    Watch *self = (Watch *)watch;
    if (watching != self)
        return PyList_New(0);
    if (self->frames)
        unwatch_frames(by_frames - 1);
    else if (self->stopping)
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
    watching = NULL; /* its reference is the parent's; the next event takes a profile function away */
    unwatch_frames(0);
    Py_RETURN_NONE;
}

static void look_up(void)
{
    *(void **)&set_profile = dlsym(RTLD_DEFAULT, "PyEval_SetProfile");
    *(void **)&code_of = dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
    *(void **)&evaluate = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    *(void **)&evaluate_by = dlsym(RTLD_DEFAULT, "_PyInterpreterState_GetEvalFrameFunc");
    *(void **)&set_evaluate = dlsym(RTLD_DEFAULT, "_PyInterpreterState_SetEvalFrameFunc");
    int minor = atoi(Py_GetVersion() + 2); /* "3.…": a Python 4 is none of these */
    layout.known = code_of && evaluate && evaluate_by && set_evaluate && minor >= 9 && minor <= 13;
    layout.is_object = minor <= 10;
    layout.code = minor == 11 ? 4 : 0;
    layout.function = minor == 11 ? 0 : 2;
    layout.arguments = 9;
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *held[5];
    look_up();
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
    {"start", watch_start, METH_VARARGS, "start(stop, frames, events): watch this thread until `stop` is called"},
    {"stop", watch_stop, METH_NOARGS, "The spans since `start`: stage, start, end, CPU time, number, name, 0"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef watch_members[] = {
    {"events", T_LONGLONG, offsetof(Watch, events), READONLY, "since the last `start`"},
    {"frames", T_INT, offsetof(Watch, frames), READONLY, "does it go by frames?"},
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
