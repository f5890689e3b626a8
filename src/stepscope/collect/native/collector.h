/* No collection of the job's garbage begins in a thread of ours: a `__del__` of the job would run there.
 *
 * Python begins a collection in the thread whose new object is one too many. While a thread of ours runs Python code,
 * the count of new objects is below zero, by AWAY; then it is what it was. What the job sees of the collector stays as
 * it is: enabled or not, its thresholds, gc.collect(). Where the count is not found, collections begin as in any program
 * with a second thread. */

#ifndef STEPSCOPE_COLLECT_COLLECTOR_H
#define STEPSCOPE_COLLECT_COLLECTOR_H

#include "memory.h"

/* More objects than a thread of ours makes in one go. */
enum { AWAY = 1 << 17 };

/* The first generation's threshold and count are followed by those of the next two, two words apart: 3.9 to 3.14. */
enum { SEARCHED = 1 << 16, CHUNK = 1 << 12, GENERATION = 2 * WORD + 8, GENERATIONS = 3, BETWEEN = 8, TRIES = 3 };

static int32_t *young_count; /* NULL: not found */
static int deferring;        /* threads of ours that are at it */
static int32_t count_before; /* they were */

static int three_numbers(PyObject *collector, const char *method, int32_t *numbers)
{
    PyObject *told = PyObject_CallMethod(collector, method, NULL);
    int read = told && PyArg_ParseTuple(told, "iii", &numbers[0], &numbers[1], &numbers[2]);
    Py_XDECREF(told);
    return read ? 0 : -1;
}

/* Does a generation's threshold lie at `at`? Asking made a few objects itself. */
static int is_young(const uint8_t *at, const int32_t *thresholds, const int32_t *counts)
{
    for (int index = 0; index < GENERATIONS; index++) {
        int32_t more = number_at(at, index * GENERATION + 4) - counts[index];
        if (number_at(at, index * GENERATION) != thresholds[index] || more < 0 || more > (index ? 0 : BETWEEN))
            return 0;
    }
    return 1;
}

static int32_t *search_young(const int32_t *thresholds, const int32_t *counts)
{
    static uint8_t memory[SEARCHED];
    uintptr_t begin = (uintptr_t)PyInterpreterState_Get();
    int32_t *found = NULL;
    int size = 0;
    while (size < SEARCHED && copy(memory + size, begin + (uintptr_t)size, CHUNK) == 0)
        size += CHUNK;
    for (int offset = 0; offset + GENERATIONS * GENERATION <= size; offset += WORD) {
        if (!is_young(memory + offset, thresholds, counts))
            continue;
        if (found)
            return NULL;
        found = (int32_t *)(begin + (uintptr_t)offset + 4);
    }
    return found;
}

/* One more object of `type` must count as one more. */
static int counts_objects(const int32_t *count, PyTypeObject *type)
{
    int32_t before = *count;
    PyObject *object = PyType_GenericNew(type, NULL, NULL);
    int counted = object && *count == before + 1;
    Py_XDECREF(object);
    return counted && *count == before;
}

static void find_young(PyTypeObject *type)
{
    PyObject *collector = PyImport_ImportModule("gc");
    for (int attempt = 0; collector && !young_count && attempt < TRIES; attempt++) {
        int32_t thresholds[GENERATIONS], counts[GENERATIONS], *found = NULL;
        if (three_numbers(collector, "get_threshold", thresholds) == 0 &&
            three_numbers(collector, "get_count", counts) == 0)
            found = search_young(thresholds, counts);
        if (found && counts_objects(found, type))
            young_count = found;
    }
    Py_XDECREF(collector);
    PyErr_Clear();
}

static void defer(void)
{
    if (young_count && deferring++ == 0) {
        count_before = *young_count;
        *young_count = -AWAY;
    }
}

/* A collection that the job called for meanwhile has set the count to zero. */
static void allow(void)
{
    if (young_count && deferring > 0 && --deferring == 0 && *young_count < -AWAY / 2)
        *young_count = count_before;
}

static PyObject *defer_collections(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    defer();
    return PyBool_FromLong(young_count != NULL);
}

static PyObject *allow_collections(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    allow();
    Py_RETURN_NONE;
}

/* In a forked child, which has none of these threads. */
static PyObject *allow_all_collections(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    deferring = deferring > 0;
    allow();
    Py_RETURN_NONE;
}

#endif
