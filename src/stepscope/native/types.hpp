// The Python types of a column and of a scanner.
#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include "arrow.hpp"
#include "columns.hpp"
#include "python.hpp"
#include "scanner.hpp"

namespace stepscope {

// ---- Column --------------------------------------------------------------------------------------------------------

using SharedColumn = std::shared_ptr<Column>;

inline int column_buffer(PyObject* self, Py_buffer* view, int flags) {
    Column& column = *held<SharedColumn>(self);
    const auto bytes = static_cast<Py_ssize_t>(column.size() * column.item_size());
    static char nothing = 0;
    return PyBuffer_FillInfo(view, self, bytes == 0 ? &nothing : column.data(), bytes, 0, flags);
}

inline PyObject* column_arrow(PyObject* self, PyObject* /* args */, PyObject* /* keywords */) {
    return guarded([&] { return arrow_capsules(held<SharedColumn>(self)); }, static_cast<PyObject*>(nullptr));
}

inline PyMethodDef column_methods[] = {
    {"__arrow_c_array__", method(column_arrow), METH_VARARGS | METH_KEYWORDS,
     "The column in Arrow's C data interface."},
    {nullptr, nullptr, 0, nullptr},
};
inline PyType_Slot column_slots[] = {
    {Py_tp_doc, const_cast<char*>("A finished column; its buffer holds the values.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop<SharedColumn>)},
    {Py_tp_methods, column_methods},
    {Py_bf_getbuffer, reinterpret_cast<void*>(column_buffer)},
    {0, nullptr},
};
inline PyType_Spec column_spec = {"stepscope.native._scanner.Column", sizeof(Held<SharedColumn>), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, column_slots};

// ---- Scanner -------------------------------------------------------------------------------------------------------

// A scanner, and the layout it refers to.
struct ScannerOfLayout {
    explicit ScannerOfLayout(std::shared_ptr<const Layout> known) : layout(std::move(known)), scanner(*layout) {}

    std::shared_ptr<const Layout> layout;
    Scanner scanner;
};

inline Scanner& scanner_of(PyObject* self) {
    return held<ScannerOfLayout>(self).scanner;
}

inline PyObject* scanner_scan(PyObject* self, PyObject* args) {
    PyObject* object = nullptr;
    Py_ssize_t begin = 0;
    Py_ssize_t end = 0;
    int next = 0;
    if (PyArg_ParseTuple(args, "Onni", &object, &begin, &end, &next) == 0) {
        return nullptr;
    }
    const View text(object, PyBUF_WRITABLE);
    if (!text) {
        return nullptr;
    }
    if (begin < 0 || end < begin || static_cast<std::size_t>(end) + kPadding > text.size() || next < 0 || next > 2) {
        PyErr_SetString(PyExc_ValueError, "no such range, no room behind it, or no such state");
        return nullptr;
    }
    return guarded(
        [&] {
            {
                const WithoutLock unlocked;
                std::memset(text.data() + end, 0, kPadding);
                scanner_of(self).scan(text.data(), static_cast<std::size_t>(begin), static_cast<std::size_t>(end),
                                      static_cast<State>(next));
            }
            Py_IncRef(Py_None);
            return Py_None;
        },
        static_cast<PyObject*>(nullptr));
}

inline PyObject* scanner_odd(PyObject* self, PyObject* /* none */) {
    const auto& odd = scanner_of(self).odd();
    Owned list(PyList_New(static_cast<Py_ssize_t>(odd.size())));
    for (std::size_t i = 0; list != nullptr && i < odd.size(); ++i) {
        PyObject* item = Py_BuildValue("(nnn)", static_cast<Py_ssize_t>(odd[i].position),
                                       static_cast<Py_ssize_t>(odd[i].begin), static_cast<Py_ssize_t>(odd[i].end));
        if (item == nullptr) {
            return nullptr;
        }
        PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), item);
    }
    return list.release();
}

inline PyObject* scanner_gap(PyObject* self, PyObject* /* none */) {
    const Gap& gap = scanner_of(self).first_gap();
    return Py_BuildValue("(nni)", static_cast<Py_ssize_t>(gap.begin), static_cast<Py_ssize_t>(gap.end),
                         static_cast<int>(gap.state));
}

inline PyObject* scanner_count(PyObject* self, void* /* closure */) {
    return number(scanner_of(self).count());
}
inline PyObject* scanner_resume(PyObject* self, void* /* closure */) {
    return number(scanner_of(self).resume());
}
inline PyObject* scanner_fault(PyObject* self, void* /* closure */) {
    return number(scanner_of(self).fault_at());
}
inline PyObject* scanner_after(PyObject* self, void* /* closure */) {
    return number(scanner_of(self).after_previous());
}
inline PyObject* scanner_state(PyObject* self, void* /* closure */) {
    return PyLong_FromLong(static_cast<int>(scanner_of(self).state()));
}
inline PyObject* scanner_state_after(PyObject* self, void* /* closure */) {
    return PyLong_FromLong(static_cast<int>(scanner_of(self).state_after_previous()));
}
inline PyObject* scanner_left_out(PyObject* self, void* /* closure */) {
    return number(scanner_of(self).left_out());
}
inline PyObject* scanner_stop(PyObject* self, void* /* closure */) {
    return PyLong_FromLong(static_cast<int>(scanner_of(self).stop()));
}

inline PyMethodDef scanner_methods[] = {
    {"scan", scanner_scan, METH_VARARGS, "Reads buffer[begin:end]; 64 bytes behind it are overwritten."},
    {"odd", scanner_odd, METH_NOARGS, "Elements for Python: position among those read, begin, end."},
    {"first_gap", scanner_gap, METH_NOARGS, "The first event that was left out: begin, end, what stood next."},
    {nullptr, nullptr, 0, nullptr},
};
inline PyGetSetDef scanner_values[] = {
    {"count", scanner_count, nullptr, "Elements read.", nullptr},
    {"state", scanner_state, nullptr, "What stands next: 0 the first element, 1 an element, 2 a comma.", nullptr},
    {"stop", scanner_stop, nullptr, "Why it stopped: 0 the end, 1 the list's end, 2 broken, 3 a second list.", nullptr},
    {"resume", scanner_resume, nullptr, "Where what was not read begins.", nullptr},
    {"after_previous", scanner_after, nullptr, "Where the last element that was read ends.", nullptr},
    {"state_after_previous", scanner_state_after, nullptr, "What stands next there.", nullptr},
    {"left_out", scanner_left_out, nullptr, "Damaged events left out.", nullptr},
    {"fault_at", scanner_fault, nullptr, "The byte that could not be.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
inline PyType_Slot scanner_slots[] = {
    {Py_tp_doc, const_cast<char*>("Reads pieces of a trace, one at a time.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop<ScannerOfLayout>)},
    {Py_tp_methods, scanner_methods},
    {Py_tp_getset, scanner_values},
    {0, nullptr},
};
inline PyType_Spec scanner_spec = {"stepscope.native._scanner.Scanner", sizeof(Held<ScannerOfLayout>), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, scanner_slots};

}  // namespace stepscope
