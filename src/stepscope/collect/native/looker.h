/* Looker: samples the lines of a thread beside it. What it does between two calls from Python it does without the
 * interpreter lock; it makes no frame object, holds no reference and never has the sampled thread wait. */

#ifndef STEPSCOPE_COLLECT_LOOKER_H
#define STEPSCOPE_COLLECT_LOOKER_H

#include "collector.h"
#include "known.h"
#include "prompt.h"
#include "same_core.h"
#include <pythread.h>
#include <time.h>

enum { MOST_SAMPLES = 256, MOST_PASSED = 32 }; /* kept; told apart where one look comes late for several */

/* SAMPLE in lines.py */
typedef struct {
    int64_t time, step, weight;
    uint32_t stack;
    uint16_t phase, flags;
} Sample;

typedef struct {
    PyObject_HEAD
    PyObject *state, *within, *kind; /* `kind` keeps the type of code objects alive */
    long long slot_ns, late_ns, slot, due, step, unread;
    uint64_t chance;
    Reader *reader;
    Core core;
    Known known;
    PyThread_type_lock wake; /* held until it is to stop */
    int stopping, count, passed, full;
    pid_t process;
    int64_t moments[MOST_PASSED];
    Sample samples[MOST_SAMPLES];
} Looker;

static long long monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* -- without the interpreter lock --------------------------------------------------------------------------------- */

/* A moment in the slot that has begun: it depends on nothing that the job does. */
static void draw(Looker *self)
{
    self->chance ^= self->chance << 13, self->chance ^= self->chance >> 7, self->chance ^= self->chance << 17;
    self->due = self->slot + (long long)((double)self->slot_ns * (double)(self->chance >> 11) / 9007199254740992.0);
}

/* Take note of the samples that fell due by `now`, and draw the next moment; how much time do they stand for? */
static long long pass(Looker *self, long long now)
{
    long long weight = 0;
    for (self->passed = 0; self->due <= now; self->passed++) {
        if (self->passed < MOST_PASSED)
            self->moments[self->passed] = self->due;
        weight += self->slot_ns;
        self->slot += self->slot_ns;
        draw(self);
    }
    return weight;
}

/* One look for all samples that have fallen due. No single call has held it up since which steps went by. */
static void keep_sample(Looker *self, Sample sample, long long steps)
{
    if (steps > 1 && sample.weight > self->late_ns) {
        sample.weight = self->late_ns;
    } else if (self->passed <= MOST_PASSED && self->count + self->passed <= MOST_SAMPLES) {
        sample.weight = self->slot_ns;
        for (int index = 0; index < self->passed; index++) {
            sample.time = self->moments[index];
            self->samples[self->count++] = sample;
        }
        return;
    }
    self->samples[self->count++] = sample;
}

static void look(Looker *self, uintptr_t anchor)
{
    const State *state = (const State *)self->state;
    long long now = monotonic_ns(), step = __atomic_load_n(&state->step, __ATOMIC_RELAXED), steps = step - self->step;
    long long ident = __atomic_load_n(&state->thread, __ATOMIC_RELAXED), weight = pass(self, now);
    uint16_t phase = (uint16_t)__atomic_load_n(&state->phase, __ATOMIC_RELAXED);
    self->step = step;
    if (!weight || ident <= 0)
        return;
    int stack = -1;
    if (read_stack(self->reader, anchor, ident))
        stack = number_of_stack(&self->known, self->reader, (uintptr_t)self->within);
    self->full = self->known.code_count >= MOST_CODES || self->known.stack_count >= MOST_STACKS;
    if (stack < 0) {
        self->unread += weight;
        return;
    }
    Sample sample = {now, step, weight, (uint32_t)stack, phase, 0};
    keep_sample(self, sample, steps);
}

static void watch(Looker *self, uintptr_t anchor, long long until)
{
    while (!__atomic_load_n(&self->stopping, __ATOMIC_ACQUIRE) && self->count < MOST_SAMPLES && !self->full) {
        long long now = monotonic_ns(), next = self->due < until ? self->due : until;
        if (now >= until)
            return;
        if (next > now && PyThread_acquire_lock_timed(self->wake, (next - now) / 1000 + 1, 0) == PY_LOCK_ACQUIRED) {
            PyThread_release_lock(self->wake);
            return;
        }
        if (!__atomic_load_n(&self->stopping, __ATOMIC_ACQUIRE) && monotonic_ns() >= self->due)
            look(self, anchor);
    }
}

/* -- methods ------------------------------------------------------------------------------------------------------ */

static PyObject *looker_watch(PyObject *object, PyObject *most)
{
    Looker *self = (Looker *)object;
    long long until = PyLong_AsLongLong(most);
    if (until == -1 && PyErr_Occurred())
        return NULL;
    uintptr_t anchor = (uintptr_t)PyThreadState_Get();
    until += monotonic_ns();
    int deferred = deferring > 0;
    if (deferred)
        allow();
    Py_BEGIN_ALLOW_THREADS
    core_follow(&self->core);
    watch(self, anchor, until);
    core_leave(&self->core);
    Py_END_ALLOW_THREADS
    if (deferred) /* before Python 3.12 looks whether one is due, which this thread would begin */
        defer();
    if (self->due <= monotonic_ns() && self->count < MOST_SAMPLES) /* a call that held the lock held this one up too */
        look(self, anchor);
    return PyBool_FromLong(!__atomic_load_n(&self->stopping, __ATOMIC_ACQUIRE));
}

static PyObject *looker_stop(PyObject *object, PyObject *unused)
{
    Looker *self = (Looker *)object;
    (void)unused;
    if (!__atomic_exchange_n(&self->stopping, 1, __ATOMIC_ACQ_REL))
        PyThread_release_lock(self->wake);
    Py_RETURN_NONE;
}

static PyObject *text_of(const Copied *copied, int which)
{
    const char *text = (const char *)copied->text[which];
    Py_ssize_t size = (Py_ssize_t)copied->size[which];
    int little = -1;
    if (copied->width[which] == 1)
        return PyUnicode_DecodeLatin1(text, size, NULL);
    if (copied->width[which] == 2)
        return PyUnicode_DecodeUTF16(text, size, "surrogatepass", &little);
    return PyUnicode_DecodeUTF32(text, size, "surrogatepass", &little);
}

static PyObject *bytes_of(const Copied *copied, int which)
{
    return PyBytes_FromStringAndSize((const char *)copied->text[which], (Py_ssize_t)copied->size[which]);
}

static PyObject *described(const Copied *copied)
{
    PyObject *parts[] = {
        text_of(copied, FILE_NAME), text_of(copied, NAME), text_of(copied, QUALNAME),
        PyLong_FromLong(copied->first_line), bytes_of(copied, LINES), bytes_of(copied, BYTECODE),
    };
    PyObject *whole = PyTuple_New(6);
    for (int index = 0; index < 6; index++) {
        if (whole && parts[index])
            PyTuple_SetItem(whole, index, parts[index]);
        else {
            Py_CLEAR(whole);
            Py_XDECREF(parts[index]);
        }
    }
    return whole;
}

static PyObject *fresh_codes(Known *known)
{
    PyObject *codes = PyList_New(0);
    for (uint32_t index = known->told_codes; codes && index < known->code_count; index++) {
        PyObject *code = described(&known->copies[index]);
        if (!code || PyList_Append(codes, code) < 0)
            Py_CLEAR(codes);
        Py_XDECREF(code);
        free_copied(&known->copies[index]);
    }
    known->told_codes = known->code_count;
    return codes;
}

static PyObject *pairs_of(const Known *known, const Stack *stack)
{
    PyObject *pairs = PyTuple_New(2 * (Py_ssize_t)stack->length);
    for (uint32_t index = 0; pairs && index < 2 * stack->length; index++) {
        PyObject *number = PyLong_FromLong(known->pairs[2 * (size_t)stack->start + index]);
        if (!number)
            Py_CLEAR(pairs);
        else
            PyTuple_SetItem(pairs, (Py_ssize_t)index, number);
    }
    return pairs;
}

static PyObject *fresh_stacks(Known *known)
{
    PyObject *stacks = PyList_New(0);
    for (uint32_t index = known->told_stacks; stacks && index < known->stack_count; index++) {
        PyObject *pairs = pairs_of(known, &known->stacks[index]);
        if (!pairs || PyList_Append(stacks, pairs) < 0)
            Py_CLEAR(stacks);
        Py_XDECREF(pairs);
    }
    known->told_stacks = known->stack_count;
    return stacks;
}

static PyObject *looker_fresh(PyObject *object, PyObject *unused)
{
    Known *known = &((Looker *)object)->known;
    (void)unused;
    if (known->told_codes == known->code_count && known->told_stacks == known->stack_count)
        Py_RETURN_NONE;
    unsigned int first = known->told_stacks;
    PyObject *codes = fresh_codes(known), *stacks = codes ? fresh_stacks(known) : NULL;
    if (!stacks) {
        Py_XDECREF(codes);
        return NULL;
    }
    return Py_BuildValue("NIN", codes, first, stacks);
}

static PyObject *looker_name(PyObject *object, PyObject *args)
{
    Known *known = &((Looker *)object)->known;
    int number, id;
    if (!PyArg_ParseTuple(args, "ii:name", &number, &id))
        return NULL;
    if (number < 0 || (uint32_t)number >= known->stack_count)
        return PyErr_Format(PyExc_IndexError, "no stack %d", number);
    known->stacks[number].id = id;
    Py_RETURN_NONE;
}

static PyObject *looker_take(PyObject *object, PyObject *unused)
{
    Looker *self = (Looker *)object;
    int kept = 0;
    (void)unused;
    for (int index = 0; index < self->count; index++) {
        Sample sample = self->samples[index];
        int32_t id = self->known.stacks[sample.stack].id;
        if (id >= 0) {
            sample.stack = (uint32_t)id;
            self->samples[kept++] = sample;
        }
    }
    self->count = 0;
    return PyBytes_FromStringAndSize((const char *)self->samples, kept * (Py_ssize_t)sizeof(Sample));
}

static PyObject *looker_forget(PyObject *object, PyObject *unused)
{
    Looker *self = (Looker *)object;
    (void)unused;
    known_clear(&self->known);
    self->count = self->full = 0;
    Py_RETURN_NONE;
}

/* For comparison with what Python says: address and offset, …, innermost first. */
static PyObject *looker_spots(PyObject *object, PyObject *ident)
{
    Looker *self = (Looker *)object;
    long long thread = PyLong_AsLongLong(ident);
    if (thread == -1 && PyErr_Occurred())
        return NULL;
    if (!read_stack(self->reader, (uintptr_t)PyThreadState_Get(), thread) ||
        number_of_stack(&self->known, self->reader, 0) < 0)
        return PyTuple_New(0);
    PyObject *spots = PyTuple_New(2 * (Py_ssize_t)self->reader->depth);
    for (int index = 0; spots && index < self->reader->depth; index++) {
        PyObject *code = PyLong_FromVoidPtr((void *)self->reader->spots[index].code);
        PyObject *offset = PyLong_FromLong(self->reader->spots[index].offset);
        PyTuple_SetItem(spots, 2 * (Py_ssize_t)index, code);
        PyTuple_SetItem(spots, 2 * (Py_ssize_t)index + 1, offset);
        if (!code || !offset)
            Py_CLEAR(spots);
    }
    return spots;
}

/* -- the type ----------------------------------------------------------------------------------------------------- */

static int looker_make(Looker *self, PyObject *code, int minor)
{
    self->reader = calloc(1, sizeof *self->reader);
    self->wake = PyThread_allocate_lock();
    if (!self->reader || !self->wake || known_make(&self->known) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    self->reader->layout = layout_of(minor);
    if (!self->reader->layout) {
        PyErr_SetString(PyExc_NotImplementedError, "stacks of this Python are not known");
        return -1;
    }
    self->reader->frame_bytes = frame_bytes_of(self->reader->layout);
    self->reader->code_type = (uintptr_t)Py_TYPE(code);
    PyThread_acquire_lock(self->wake, 1);
    core_begin(&self->core);
    self->slot = monotonic_ns();
    self->chance = mixed((uint64_t)self->slot, (uintptr_t)self) | 1;
    draw(self);
    return 0;
}

static PyObject *looker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *state, *code, *within;
    long long slot_ns, late_ns;
    int minor;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!OOLLi:Looker", state_type, &state, &code, &within, &slot_ns, &late_ns, &minor))
        return NULL;
    Looker *self = (Looker *)PyType_GenericNew(type, NULL, NULL);
    if (!self)
        return NULL;
    self->process = getpid();
    self->slot_ns = slot_ns > 0 ? slot_ns : 1;
    self->late_ns = late_ns;
    self->state = state, Py_INCREF(state);
    self->kind = (PyObject *)Py_TYPE(code), Py_INCREF(self->kind);
    if (within != Py_None)
        self->within = within, Py_INCREF(within);
    if (looker_make(self, code, minor) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* In a forked child the thread that watched may have been anywhere: what it had in hand stays as it is. */
static void looker_end(Looker *self)
{
    if (self->process != getpid())
        return;
    known_free(&self->known);
    free(self->reader);
    if (self->wake) {
        if (self->reader && !self->stopping)
            PyThread_release_lock(self->wake);
        PyThread_free_lock(self->wake);
    }
}

COLLECTED(looker, Looker, state, 3, looker_end((Looker *)self))

static PyMethodDef looker_methods[] = {
    {"watch", looker_watch, METH_O, "sample, for at most so many ns; false: it was told to stop"},
    {"prompt", looker_prompt, METH_NOARGS, "have the calling thread, which is to watch, wake on time"},
    {"stop", looker_stop, METH_NOARGS, "end watch, from any thread"},
    {"fresh", looker_fresh, METH_NOARGS, "(codes, number of the first stack, stacks) that are new since the last call, or None"},
    {"name", looker_name, METH_VARARGS, "(stack, id): write it with this id; a negative one: not at all"},
    {"take", looker_take, METH_NOARGS, "the samples since the last call, of stacks that are written"},
    {"forget", looker_forget, METH_NOARGS, "forget all codes and stacks: they are told anew"},
    {"spots", looker_spots, METH_O, "address of code, offset, … of a thread that waits, innermost first"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef looker_members[] = {
    {"slot_ns", T_LONGLONG, offsetof(Looker, slot_ns), 0, NULL},
    {"unread_ns", T_LONGLONG, offsetof(Looker, unread), READONLY, NULL},
    {"full", T_INT, offsetof(Looker, full), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot looker_slots[] = {
    GC_SLOTS(looker),
    {Py_tp_new, looker_new},
    {Py_tp_methods, looker_methods},
    {Py_tp_members, looker_members},
    {Py_tp_doc, "Looker(state, code, within, slot_ns, late_ns, minor): samples the lines of the thread of `state`"},
    {0, NULL},
};

static PyType_Spec looker_spec = {
    "stepscope.collect.native_hooks.Looker", sizeof(Looker), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, looker_slots,
};

#endif
