/* The ordinary events of a step: each function does what the method of StepClock that it is named for does. */

#ifndef STEPSCOPE_COLLECT_CLOCK_H
#define STEPSCOPE_COLLECT_CLOCK_H

#include "records.h"
#include "samples.h"
#include <pthread.h>
#include <time.h>

enum { OTHER, DATA_WAIT, FORWARD, BACKWARD, OPTIMIZER };                        /* PHASE_… in state.py */
enum { EVALUATION = 4, NO_DATA_WAIT = 32, FOREIGN_LOADER = 64, CLOSURE = 256 }; /* FLAG_… in run_format/records.py */

static int clock_now(Hook *hook, long long *time)
{
#ifdef __linux__
    if (hook->real) {
        struct timespec moment;
        clock_gettime(CLOCK_MONOTONIC, &moment);
        *time = moment.tv_sec * 1000000000LL + moment.tv_nsec;
        return 0;
    }
#endif
    PyObject *answer = PyObject_CallObject(hook->clock->now, NULL);
    *time = answer ? PyLong_AsLongLong(answer) : -1;
    Py_XDECREF(answer);
    return *time == -1 && PyErr_Occurred() ? -1 : 0;
}

static int in_training_thread(Hook *hook)
{
#ifdef __linux__
    if (hook->real)
        return hook->clock->thread == (long long)pthread_self(); /* what PyThread_get_thread_ident calls */
#endif
    PyObject *answer = PyObject_CallObject(hook->clock->ident, NULL);
    long long thread = answer ? PyLong_AsLongLong(answer) : -1;
    Py_XDECREF(answer);
    PyErr_Clear(); /* the Python hook asks again */
    return thread > 0 && hook->clock->thread == thread;
}

/* Not inside another event, in the training thread, and with nothing that waits to be cut. */
static int clock_is_ordinary(Hook *hook)
{
    return !hook->clock->busy && hook->clock->edge == Py_None && in_training_thread(hook);
}

static int is_list(PyObject *thing)
{
    return thing && PyList_CheckExact(thing);
}

static int is_use(PyObject *thing)
{
    static PyTypeObject *known; /* LoaderUse, once seen: one look at the object instead of several at its class */
    if (!thing)
        return 0;
    if (Py_TYPE(thing) == known)
        return 1;
    if (!PyObject_TypeCheck(thing, use_type))
        return 0;
    known = Py_TYPE(thing);
    Py_INCREF(known);
    return 1;
}

/* An error of ours ends the recording; one that is no Exception goes on to the user. */
static int fail(Clock *clock, const char *what)
{
    PyObject *type, *error, *traceback;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *answer = PyObject_CallMethod((PyObject *)clock, "fail", "sO", what, error);
    Py_XDECREF(answer);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return answer ? 0 : -1;
}

static void begin_first(Clock *clock, long long begin)
{
    if (clock->start < 0)
        clock->start = clock->mark = begin;
}

static void set_last(Clock *clock, PyObject *use)
{
    PyObject *before = clock->last;
    Py_INCREF(use);
    clock->last = use;
    Py_XDECREF(before);
}

/* The last batch goes into a backward. */
static void consume(Clock *clock)
{
    PyObject *before = clock->consumed;
    clock->consumed = clock->last;
    Py_INCREF(Py_None);
    clock->last = Py_None;
    Py_XDECREF(before);
}

static int trains(Clock *clock, Use *use)
{
    return use->train || (is_list(clock->training) && PyList_Size(clock->training) == 0);
}

/* -- loader ------------------------------------------------------------------------------------------------------- */

static int clock_begins_fetch(Hook *hook, Use *use, long long *begin)
{
    hook->clock->busy = 1;
    hook->state->phase = trains(hook->clock, use) ? DATA_WAIT : OTHER;
    if (clock_now(hook, begin) < 0)
        return -1;
    begin_first(hook->clock, *begin);
    return 0;
}

static int touch(Clock *clock, State *state, Use *use)
{
    use->step = state->step;
    use->wait = use->away = use->samples = use->fetches = use->flags = 0;
    return PyList_Append(clock->touched, (PyObject *)use);
}

static int with_gradients(Clock *clock)
{
    PyObject *answer = PyObject_CallObject(clock->grad_enabled, NULL);
    int enabled = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return enabled;
}

static int account_batch(Hook *hook, Use *use, long long waited, PyObject *batch)
{
    if (use->step != hook->state->step && touch(hook->clock, hook->state, use) < 0)
        return -1;
    int gradients = with_gradients(hook->clock);
    if (gradients < 0)
        return -1;
    if (gradients || use->any_grad) {
        use->wait += waited;
        use->fetches++;
        long long samples = samples_in(use->count, batch);
        if (samples == -1 && PyErr_Occurred())
            return -1;
        use->samples += samples;
        use->grad = 1;
        hook->state->phase = trains(hook->clock, use) ? FORWARD : OTHER;
    } else {
        use->away += waited;
        use->grad = 0;
        hook->state->phase = OTHER;
    }
    use->open = 1;
    return 0;
}

static int clock_fetched(Hook *hook, Use *use, long long begin, PyObject *batch)
{
    long long end;
    if (clock_now(hook, &end) < 0)
        return -1;
    hook->clock->busy = 0;
    if (account_batch(hook, use, end - begin, batch) < 0)
        return fail(hook->clock, "data wait");
    set_last(hook->clock, (PyObject *)use);
    hook->clock->mark = end;
    return 0;
}

/* -- backward ----------------------------------------------------------------------------------------------------- */

/* Does the last batch come from a loader that is known to train (or was there none)? Else the loaders are voted on. */
static int clock_knows_the_batch(Clock *clock)
{
    return clock->last == Py_None || (is_use(clock->last) && ((Use *)clock->last)->train);
}

static int clock_enters_backward(Hook *hook, long long *begin)
{
    Clock *clock = hook->clock;
    if (clock_now(hook, begin) < 0)
        return -1;
    clock->busy = 1;
    if (clock->last != Py_None)
        consume(clock);
    else if (clock->micro)
        clock->inner_forward = clock->micro + 1;
    begin_first(clock, *begin);
    clock->forward += *begin - clock->mark;
    hook->state->phase = BACKWARD;
    return 0;
}

static int clock_leaves_backward(Hook *hook, long long begin)
{
    Clock *clock = hook->clock;
    long long end;
    if (clock_now(hook, &end) < 0)
        return -1;
    clock->busy = 0;
    clock->backward += end - begin;
    clock->mark = end;
    clock->micro++;
    if (clock->depth) {
        clock->flags |= CLOSURE;
        clock->closures = 1;
        hook->state->phase = OPTIMIZER;
    } else {
        hook->state->phase = clock->micro < clock->expected ? FORWARD : OTHER;
    }
    return 0;
}

/* -- optimizer and the end of a step ------------------------------------------------------------------------------ */

static int clock_enters_step(Hook *hook, long long *begin)
{
    if (clock_now(hook, begin) < 0)
        return -1;
    hook->clock->depth++;
    begin_first(hook->clock, *begin);
    if (!(hook->clock->closures && hook->state->phase == FORWARD))
        hook->state->phase = OPTIMIZER;
    return 0;
}

/* Does the outermost step of `optimizer`, which returns, end a step of the training with nothing else to do? */
static int clock_ends_step(Clock *clock, PyObject *optimizer)
{
    return clock->depth == 1 && clock->leader == (long long)(intptr_t)optimizer && clock->boundary == Py_None &&
           !clock->voting && clock->emit && is_list(clock->touched) && is_list(clock->training);
}

/* The loaders of the step, summed up into its record; was one that trains among them? */
static int waits(PyObject *touched, Record *record)
{
    int trained = 0;
    Py_ssize_t number = PyList_Size(touched);
    for (Py_ssize_t index = 0; index < number; index++) {
        PyObject *item = PyList_GetItem(touched, index);
        Use *use = (Use *)item;
        if (!is_use(item))
            continue;
        if (use->train) {
            trained = 1;
            record->data_wait += use->wait;
            record->evaluation_wait += use->away;
            record->samples += use->counted ? use->samples : 0;
            record->flags |= (uint32_t)use->flags | (use->away ? EVALUATION : 0);
        } else {
            record->evaluation_wait += use->wait + use->away;
            record->flags |= EVALUATION;
        }
    }
    return trained;
}

static int any_open(PyObject *training)
{
    Py_ssize_t number = PyList_Size(training);
    for (Py_ssize_t index = 0; index < number; index++) {
        PyObject *item = PyList_GetItem(training, index);
        if (is_use(item) && ((Use *)item)->open)
            return 1;
    }
    return 0;
}

static int emit(PyObject *emit, const Record *record)
{
    if (Py_TYPE(emit) == writer_type)
        return writer_put(emit, record, sizeof *record);
    PyObject *answer = PyObject_CallFunction(emit, "y#", (const char *)record, (Py_ssize_t)sizeof *record);
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

static int close_step(Clock *clock, State *state, long long end)
{
    long long gc_ns = state->gc_ns;
    Record record = {0};
    record.step = state->step, record.start = clock->start, record.end = end;
    record.forward = clock->forward, record.backward = clock->backward, record.optimizer = clock->optimizer;
    record.gc = gc_ns - clock->gc_mark, record.micro_batches = (int32_t)clock->micro;
    record.flags = (uint32_t)clock->flags;
    int observed = waits(clock->touched, &record) || any_open(clock->training);
    if (!observed) {
        clock->unobserved++;
        record.data_wait = -1;
        record.flags |= NO_DATA_WAIT | (clock->foreign ? FOREIGN_LOADER : 0);
    }
    if (!observed || record.samples < 0)
        record.samples = -1;
    if (emit(clock->emit, &record) < 0)
        return -1;
    clock->expected = clock->inner_forward;
    clock->inner_forward = 0;
    clock->forward = clock->backward = clock->optimizer = clock->micro = clock->flags = 0;
    clock->gc_mark = gc_ns;
    if (PyList_SetSlice(clock->touched, 0, PyList_Size(clock->touched), NULL) < 0)
        return -1;
    state->step++;
    state->phase = PyList_Size(clock->training) ? OTHER : FORWARD;
    clock->start = clock->mark = end;
    return 0;
}

static int clock_leaves_step(Hook *hook, long long begin)
{
    Clock *clock = hook->clock;
    long long end;
    if (clock_now(hook, &end) < 0)
        return -1;
    clock->depth = 0;
    clock->optimizer += end - (begin > clock->mark ? begin : clock->mark);
    clock->mark = end;
    hook->state->phase = OTHER;
    return close_step(clock, hook->state, end) < 0 ? fail(clock, "optimizer") : 0;
}

#endif
