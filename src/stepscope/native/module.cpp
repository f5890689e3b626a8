// The Python face of the scanner, in the limited API: one build serves every Python from 3.11 on.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "boundary.hpp"
#include "loops.hpp"
#include "types.hpp"

namespace {

using namespace stepscope;

struct Types {
    PyObject* scanner = nullptr;
    PyObject* column = nullptr;
};
Types types;  // of the one module; its types live as long as the process

// ---- Columns -------------------------------------------------------------------------------------------------------

struct ColumnsOfLayout {
    explicit ColumnsOfLayout(std::shared_ptr<const Layout> known) : layout(std::move(known)), columns(*layout) {}

    std::shared_ptr<const Layout> layout;
    Columns columns;
};

Columns& columns_of(PyObject* self) {
    return held<ColumnsOfLayout>(self).columns;
}

// Calls `add` with each item of a sequence; false with an error set.
template <typename Add>
bool each(PyObject* sequence, Add add) {
    const Py_ssize_t size = PySequence_Size(sequence);
    for (Py_ssize_t i = 0; i < size; ++i) {
        const Owned item(PySequence_GetItem(sequence, i));
        if (item == nullptr || !add(item.get())) {
            return false;
        }
    }
    return size >= 0;
}

bool add_slot(Layout& layout, PyObject* item) {
    const char* key = nullptr;
    int kind = 0;
    int dictionary = 0;
    if (PyArg_ParseTuple(item, "sii", &key, &kind, &dictionary) == 0) {
        return false;
    }
    layout.slots.push_back({key, static_cast<Kind>(kind), dictionary});
    layout.dictionaries = std::max(layout.dictionaries, dictionary + 1);
    return true;
}

bool add_column(std::vector<ColumnSpec>& table, PyObject* item) {
    ColumnSpec column;
    if (PyArg_ParseTuple(item, "ii", &column.slot, &column.other) == 0) {
        return false;
    }
    table.push_back(column);
    return true;
}

bool is_whole(const Layout& layout, std::size_t tables) {
    const auto slots = static_cast<int>(layout.slots.size());
    bool whole = tables == kTables && slots >= kFirstArgument && slots <= kMaxSlots;
    for (const auto& slot : layout.slots) {
        whole = whole && slot.key.size() + 2 < kPadding && static_cast<int>(slot.kind) <= 2 &&
                (slot.kind != Kind::text || slot.dictionary >= 0);
    }
    for (const auto& table : layout.tables) {
        for (const auto& column : table) {
            whole = whole && column.slot >= 0 && column.slot < slots && column.other >= -1 && column.other < slots;
        }
    }
    return whole;
}

PyObject* columns_new(PyTypeObject* type, PyObject* args, PyObject* /* keywords */) {
    PyObject* slots = nullptr;
    PyObject* tables = nullptr;
    PyObject* categories = nullptr;
    if (PyArg_ParseTuple(args, "OOO", &slots, &tables, &categories) == 0) {
        return nullptr;
    }
    return guarded(
        [&]() -> PyObject* {
            auto layout = std::make_shared<Layout>();
            std::size_t table = 0;
            const auto add_table = [&](PyObject* columns) {
                auto& found = layout->tables[std::min<std::size_t>(table++, kTables - 1)];
                return each(columns, [&](PyObject* item) { return add_column(found, item); });
            };
            const auto add_category = [&](PyObject* item) {
                const View text(item, PyBUF_SIMPLE);
                if (text) {
                    layout->device_categories.emplace_back(text.data(), text.size());
                }
                return static_cast<bool>(text);
            };
            if (!each(slots, [&](PyObject* item) { return add_slot(*layout, item); }) || !each(tables, add_table) ||
                !each(categories, add_category)) {
                return nullptr;
            }
            if (!is_whole(*layout, table)) {
                throw std::invalid_argument("no layout");
            }
            return hold(reinterpret_cast<PyObject*>(type), std::make_unique<ColumnsOfLayout>(layout));
        },
        static_cast<PyObject*>(nullptr));
}

PyObject* columns_scanner(PyObject* self, PyObject* /* none */) {
    return guarded(
        [&] { return hold(types.scanner, std::make_unique<ScannerOfLayout>(held<ColumnsOfLayout>(self).layout)); },
        static_cast<PyObject*>(nullptr));
}

PyObject* columns_append(PyObject* self, PyObject* scanner) {
    if (Py_TYPE(scanner) != reinterpret_cast<PyTypeObject*>(types.scanner) ||
        held<ScannerOfLayout>(scanner).layout != held<ColumnsOfLayout>(self).layout) {
        PyErr_SetString(PyExc_TypeError, "not a scanner of these columns");
        return nullptr;
    }
    return guarded(
        [&] {
            {
                const WithoutLock unlocked;
                columns_of(self).append(scanner_of(scanner));
            }
            Py_IncRef(Py_None);
            return Py_None;
        },
        static_cast<PyObject*>(nullptr));
}

PyObject* columns_advance(PyObject* self, PyObject* args) {
    Py_ssize_t elements = 0;
    if (PyArg_ParseTuple(args, "n", &elements) == 0) {
        return nullptr;
    }
    columns_of(self).advance(static_cast<std::size_t>(elements));
    Py_IncRef(Py_None);
    return Py_None;
}

PyObject* columns_rows(PyObject* self, PyObject* args) {
    int table = 0;
    if (PyArg_ParseTuple(args, "i", &table) == 0) {
        return nullptr;
    }
    if (table < 0 || table >= kTables) {
        PyErr_SetString(PyExc_IndexError, "no such table");
        return nullptr;
    }
    return number(columns_of(self).rows(table));
}

PyObject* columns_take(PyObject* self, PyObject* args) {
    int table = 0;
    int column = 0;
    if (PyArg_ParseTuple(args, "ii", &table, &column) == 0) {
        return nullptr;
    }
    const auto& layout = *held<ColumnsOfLayout>(self).layout;
    if (table < 0 || table >= kTables || column < 0 || static_cast<std::size_t>(column) > layout.tables[table].size()) {
        PyErr_SetString(PyExc_IndexError, "no such column");
        return nullptr;
    }
    return guarded(
        [&]() -> PyObject* {
            auto found = columns_of(self).take(table, static_cast<std::size_t>(column));
            if (found == nullptr) {
                Py_IncRef(Py_None);
                return Py_None;
            }
            return hold(types.column, std::make_unique<SharedColumn>(std::move(found)));
        },
        static_cast<PyObject*>(nullptr));
}

PyObject* columns_texts(PyObject* self, PyObject* args) {
    int dictionary = 0;
    if (PyArg_ParseTuple(args, "i", &dictionary) == 0) {
        return nullptr;
    }
    if (dictionary < 0 || dictionary >= held<ColumnsOfLayout>(self).layout->dictionaries) {
        PyErr_SetString(PyExc_IndexError, "no such dictionary");
        return nullptr;
    }
    const Dictionary& texts = columns_of(self).texts(dictionary);
    Owned list(PyList_New(static_cast<Py_ssize_t>(texts.size())));
    for (std::size_t i = 0; list != nullptr && i < texts.size(); ++i) {
        const Text text = texts.at(static_cast<std::uint32_t>(i));
        PyObject* item = PyBytes_FromStringAndSize(text.begin, static_cast<Py_ssize_t>(text.size));
        if (item == nullptr) {
            return nullptr;
        }
        PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), item);
    }
    return list.release();
}

PyObject* columns_count(PyObject* self, void* /* closure */) {
    return number(columns_of(self).count());
}

PyMethodDef columns_methods[] = {
    {"scanner", columns_scanner, METH_NOARGS, "A new scanner of this layout."},
    {"append", columns_append, METH_O, "Adds what a scanner has read, behind all that was added before."},
    {"advance", columns_advance, METH_VARARGS, "Leaves room for elements that were read elsewhere."},
    {"rows", columns_rows, METH_VARARGS, "How many rows a table has."},
    {"take", columns_take, METH_VARARGS, "A column, which is gone then; None if no row has a value."},
    {"texts", columns_texts, METH_VARARGS, "The JSON texts of a dictionary by number."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef columns_values[] = {
    {"count", columns_count, nullptr, "Elements added so far.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot columns_slots[] = {
    {Py_tp_doc, const_cast<char*>("All rows of a trace.")},
    {Py_tp_new, reinterpret_cast<void*>(columns_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop<ColumnsOfLayout>)},
    {Py_tp_methods, columns_methods},
    {Py_tp_getset, columns_values},
    {0, nullptr},
};
PyType_Spec columns_spec = {"stepscope.native._scanner.Columns", sizeof(Held<ColumnsOfLayout>), 0, Py_TPFLAGS_DEFAULT,
                            columns_slots};

// ---- functions -----------------------------------------------------------------------------------------------------

PyObject* find_boundary(PyObject* /* module */, PyObject* args) {
    PyObject* object = nullptr;
    Py_ssize_t begin = 0;
    Py_ssize_t end = 0;
    const char* key = nullptr;
    Py_ssize_t key_size = 0;
    if (PyArg_ParseTuple(args, "Onny#", &object, &begin, &end, &key, &key_size) == 0) {
        return nullptr;
    }
    const View text(object, PyBUF_SIMPLE);
    if (!text) {
        return nullptr;
    }
    if (begin < 0 || end < begin || static_cast<std::size_t>(end) > text.size()) {
        PyErr_SetString(PyExc_ValueError, "no such range");
        return nullptr;
    }
    return number(last_boundary(text.data(), static_cast<std::size_t>(begin), static_cast<std::size_t>(end), key,
                                static_cast<std::size_t>(key_size)));
}

PyMethodDef functions[] = {
    {"last_boundary", find_boundary, METH_VARARGS,
     "Where the last event in buffer[begin:end] seems to start, else end."},
    {"nest", nest, METH_VARARGS, "Fills parent, depth and self time from order, track, start and end."},
    {"walk", walk, METH_VARARGS, "Walks critical paths back from where they end."},
    {"simulate", simulate, METH_VARARGS, "Simulates data loaders, and fills in the ends of steps and means."},
    {"union", unite, METH_VARARGS, "The union of spans; None if they are a set."},
    {"subtract", subtract, METH_VARARGS, "The time in one set and not in another."},
    {"intersect", intersect, METH_VARARGS, "The time in both sets."},
    {"overlap_each", overlap_each, METH_VARARGS, "Fills in the time that each window shares with a set."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_scanner", "The scanner of trace JSON.", -1, functions, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__scanner() {
    Owned module(PyModule_Create(&module_definition));
    if (module == nullptr) {
        return nullptr;
    }
    types.column = PyType_FromSpec(&column_spec);
    types.scanner = PyType_FromSpec(&scanner_spec);
    const Owned columns_type(PyType_FromSpec(&columns_spec));
    if (types.column == nullptr || types.scanner == nullptr || columns_type == nullptr ||
        PyModule_AddObjectRef(module.get(), "Column", types.column) < 0 ||
        PyModule_AddObjectRef(module.get(), "Scanner", types.scanner) < 0 ||
        PyModule_AddObjectRef(module.get(), "Columns", columns_type.get()) < 0 ||
        PyModule_AddIntConstant(module.get(), "PADDING", static_cast<long>(kPadding)) < 0) {
        return nullptr;
    }
    return module.release();
}
