/* How many samples a batch holds, along the two commonest ways that samples.py finds. */

#ifndef STEPSCOPE_COLLECT_SAMPLES_H
#define STEPSCOPE_COLLECT_SAMPLES_H

#include "fields.h"

#define UNKNOWN (-(1LL << 50)) /* UNKNOWN in samples.py */

typedef struct {
    PyObject_HEAD
    PyObject *key; /* NULL: the batch is the tensor itself */
    PyObject *plain;
    lenfunc length; /* of objects whose type is `plain`; NULL where it is not known */
} FirstAxis;

COLLECTED(first_axis, FirstAxis, key, 2, )

/* What torch._C.TensorBase.__len__ calls: torch.Tensor.shape makes an object and a number for every axis. */
static lenfunc length_of_base(PyObject *plain)
{
    if (!PyType_Check(plain))
        return NULL;
    PyTypeObject *base = (PyTypeObject *)PyType_GetSlot((PyTypeObject *)plain, Py_tp_base);
    lenfunc length = base ? (lenfunc)PyType_GetSlot(base, Py_mp_length) : NULL;
    PyErr_Clear(); /* Python 3.9 does not tell the slots of a class written in C */
    return length;
}

static PyObject *first_axis_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *plain, *key = NULL;
    if (!PyArg_ParseTuple(args, "O|O:FirstAxis", &plain, &key))
        return NULL;
    FirstAxis *self = (FirstAxis *)PyType_GenericNew(type, NULL, NULL);
    if (self) {
        Py_XINCREF(key);
        self->key = key;
        Py_INCREF(plain);
        self->plain = plain;
        self->length = length_of_base(plain);
    }
    return (PyObject *)self;
}

static Py_ssize_t first_of_shape(PyObject *tensor)
{
    PyObject *shape = PyObject_GetAttr(tensor, name_shape);
    PyObject *length = shape ? PySequence_GetItem(shape, 0) : NULL;
    Py_ssize_t samples = length ? PyNumber_AsSsize_t(length, PyExc_OverflowError) : -1;
    Py_XDECREF(length);
    Py_XDECREF(shape);
    return samples;
}

static Py_ssize_t length_of(FirstAxis *self, PyObject *tensor)
{
    if (self->length && (PyObject *)Py_TYPE(tensor) == self->plain) {
        Py_ssize_t length = self->length(tensor);
        if (length) /* 0: no samples, or no axis; an error is one as well */
            return length;
    }
    return first_of_shape(tensor);
}

static Py_ssize_t length_in(FirstAxis *self, PyObject *batch)
{
    if (!self->key)
        return length_of(self, batch);
    PyObject *tensor = PyObject_GetItem(batch, self->key);
    Py_ssize_t samples = tensor ? length_of(self, tensor) : -1;
    Py_XDECREF(tensor);
    return samples;
}

static long long first_axis(PyObject *self, PyObject *batch)
{
    Py_ssize_t samples = length_in((FirstAxis *)self, batch);
    if (samples == -1 && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        return UNKNOWN;
    }
    return samples;
}

static PyObject *first_axis_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *batch;
    if (!PyArg_ParseTuple(args, "O:FirstAxis", &batch))
        return NULL;
    long long samples = first_axis(self, batch);
    return samples == -1 && PyErr_Occurred() ? NULL : PyLong_FromLongLong(samples);
}

static long long samples_in(PyObject *count, PyObject *batch)
{
    if (count && Py_TYPE(count) == first_axis_type)
        return first_axis(count, batch);
    PyObject *answer = count ? PyObject_CallFunctionObjArgs(count, batch, NULL) : PyLong_FromLongLong(UNKNOWN);
    long long samples = answer ? PyLong_AsLongLong(answer) : -1;
    Py_XDECREF(answer);
    return samples;
}

static PyType_Slot first_axis_slots[] = {
    GC_SLOTS(first_axis),
    {Py_tp_new, first_axis_new},
    {Py_tp_call, first_axis_call},
    {Py_tp_doc, "FirstAxis(plain[, key]): a function batch -> batch[key].shape[0], or batch.shape[0]"},
    {0, NULL},
};

static PyType_Spec first_axis_spec = {
    "stepscope.collect.native_hooks.FirstAxis", sizeof(FirstAxis), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    first_axis_slots,
};

#endif
