/* The module native_hooks: the fields that the Python classes inherit, and the types of the other files. */

#include "calls.h"
#include "collector.h"
#include "frameless.h"
#include "hooks.h"
#include "looker.h"
#include "mapping.h"

enum { VERSION = 6 }; /* FIELDS_VERSION in fields.py */

static PyTypeObject *hook_type, *looker_type, *watch_type;

COLLECTED(use, Use, count, 1, )
COLLECTED(clock, Clock, boundary, 11, )

#define NUMBER(STRUCT, NAME) {#NAME, T_LONGLONG, offsetof(STRUCT, NAME), 0, NULL}
#define TRUTH(STRUCT, NAME) {#NAME, T_BOOL, offsetof(STRUCT, NAME), 0, NULL}
#define OBJECT(STRUCT, NAME) {#NAME, T_OBJECT_EX, offsetof(STRUCT, NAME), 0, NULL}
#define END {NULL, 0, 0, 0, NULL}

static PyMemberDef state_members[] = {
    NUMBER(State, phase), NUMBER(State, step), NUMBER(State, gc_ns), NUMBER(State, thread), TRUTH(State, traced), END,
};

static PyMemberDef use_members[] = {
    OBJECT(Use, count),   NUMBER(Use, wait),   NUMBER(Use, away),    NUMBER(Use, samples),
    NUMBER(Use, fetches), NUMBER(Use, flags),  NUMBER(Use, step),    TRUTH(Use, train),
    TRUTH(Use, counted),  TRUTH(Use, any_grad), TRUTH(Use, open),    TRUTH(Use, grad),
    END,
};

static PyMemberDef clock_members[] = {
    OBJECT(Clock, boundary),   OBJECT(Clock, consumed), OBJECT(Clock, edge),     OBJECT(Clock, emit),
    OBJECT(Clock, grad_enabled), OBJECT(Clock, ident),  OBJECT(Clock, last),     OBJECT(Clock, now),
    OBJECT(Clock, state),      OBJECT(Clock, touched),  OBJECT(Clock, training), NUMBER(Clock, thread),
    NUMBER(Clock, start),      NUMBER(Clock, mark),     NUMBER(Clock, forward),  NUMBER(Clock, backward),
    NUMBER(Clock, optimizer),  NUMBER(Clock, micro),    NUMBER(Clock, flags),    NUMBER(Clock, expected),
    NUMBER(Clock, inner_forward), NUMBER(Clock, gc_mark), NUMBER(Clock, depth),  NUMBER(Clock, leader),
    NUMBER(Clock, unobserved), TRUTH(Clock, busy),      TRUTH(Clock, closures),  TRUTH(Clock, foreign),
    TRUTH(Clock, voting),      END,
};

static PyType_Slot state_slots[] = {{Py_tp_members, state_members}, {0, NULL}};
static PyType_Slot use_slots[] = {GC_SLOTS(use), {Py_tp_members, use_members}, {0, NULL}};
static PyType_Slot clock_slots[] = {GC_SLOTS(clock), {Py_tp_members, clock_members}, {0, NULL}};

#define INHERITED (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE)

static PyType_Spec state_spec = {"stepscope.collect.native_hooks.State", sizeof(State), 0, INHERITED, state_slots};
static PyType_Spec use_spec = {
    "stepscope.collect.native_hooks.Use", sizeof(Use), 0, INHERITED | Py_TPFLAGS_HAVE_GC, use_slots,
};
static PyType_Spec clock_spec = {
    "stepscope.collect.native_hooks.Clock", sizeof(Clock), 0, INHERITED | Py_TPFLAGS_HAVE_GC, clock_slots,
};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **type)
{
    PyObject *made = PyType_FromSpec(spec);
    if (!made)
        return -1;
    *type = (PyTypeObject *)made;
    Py_INCREF(made); /* one reference is the module's, one ours */
    return PyModule_AddObject(module, name, made);
}

static int fill(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "VERSION", VERSION) < 0)
        return -1;
    name_shape = PyUnicode_InternFromString("shape");
    name_use = PyUnicode_InternFromString("_stepscope_use");
    name_call = PyUnicode_InternFromString("_stepscope_call");
    if (!name_shape || !name_use || !name_call || add_type(module, "State", &state_spec, &state_type) < 0 ||
        add_type(module, "Use", &use_spec, &use_type) < 0 || add_type(module, "Clock", &clock_spec, &clock_type) < 0)
        return -1;
    if (add_type(module, "FirstAxis", &first_axis_spec, &first_axis_type) < 0)
        return -1;
    if (add_type(module, "Writer", &writer_spec, &writer_type) < 0)
        return -1;
    if (add_type(module, "Watch", &watch_spec, &watch_type) < 0)
        return -1;
    if (add_type(module, "Looker", &looker_spec, &looker_type) < 0)
        return -1;
    find_young(use_type);
    return add_type(module, "Hook", &hook_spec, &hook_type);
}

static PyMethodDef functions[] = {
    {"allow_all_collections", allow_all_collections, METH_NOARGS, "In a forked child: collections begin as ever."},
    {"allow_collections", allow_collections, METH_NOARGS, "The end of what defer_collections began."},
    {"defer_collections", defer_collections, METH_NOARGS, "No collection begins until allow_collections; false: it cannot"},
    {"map_shared", map_shared, METH_VARARGS, "map_shared(descriptor, size): the file's memory, for good"},
    {"unwatch", unwatch, METH_NOARGS, "In a forked child: the calls of this thread are watched no more."},
    {"without_frame", without_frame, METH_VARARGS, "without_frame(function, call): calls of function are calls of call"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native_hooks", "The hot path of the step clock.", -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native_hooks(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module && fill(module) < 0)
        Py_CLEAR(module);
    return module;
}
