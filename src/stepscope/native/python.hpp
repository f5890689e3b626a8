// What the Python face is made of: owned references, buffers, and C++ values in Python objects, in the limited API.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

namespace stepscope {

// An owned reference.
struct Drop {
    void operator()(PyObject* object) const {
        Py_DecRef(object);
    }
};
using Owned = std::unique_ptr<PyObject, Drop>;

// Other threads run while this lives.
class WithoutLock {
public:
    WithoutLock() : saved_(PyEval_SaveThread()) {}
    ~WithoutLock() {
        PyEval_RestoreThread(saved_);
    }
    WithoutLock(const WithoutLock&) = delete;
    WithoutLock& operator=(const WithoutLock&) = delete;

private:
    PyThreadState* saved_;
};

// A view of the bytes of a Python object; check it before use, an error is set where it failed.
class View {
public:
    View(PyObject* object, int flags) : is_held_(PyObject_GetBuffer(object, &buffer_, flags) == 0) {}
    ~View() {
        if (is_held_) {
            PyBuffer_Release(&buffer_);
        }
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;

    explicit operator bool() const {
        return is_held_;
    }
    char* data() const {
        return static_cast<char*>(buffer_.buf);
    }
    std::size_t size() const {
        return static_cast<std::size_t>(buffer_.len);
    }

private:
    Py_buffer buffer_{};
    bool is_held_;
};

// The arrays of int64 that a function is called with; check it before use, an error is set where it failed.
class Arrays {
public:
    // Those from number `filled` on are written to.
    Arrays(PyObject* args, Py_ssize_t count, Py_ssize_t filled) {
        is_held_ = PyTuple_Size(args) == count;
        if (!is_held_) {
            PyErr_Format(PyExc_TypeError, "%zd arrays expected", count);
        }
        for (Py_ssize_t i = 0; is_held_ && i < count; ++i) {
            const int flags = i < filled ? PyBUF_SIMPLE : PyBUF_WRITABLE;
            views_.push_back(std::make_unique<View>(PyTuple_GetItem(args, i), flags));
            is_held_ = static_cast<bool>(*views_.back());
        }
    }

    explicit operator bool() const {
        return is_held_;
    }
    std::int64_t* at(std::size_t i) const {
        return reinterpret_cast<std::int64_t*>(views_[i]->data());
    }
    std::size_t size(std::size_t i) const {
        return views_[i]->size() / sizeof(std::int64_t);
    }
    // Whether those from number `begin` to `end` have as many bytes as the first of them.
    bool are_alike(std::size_t begin, std::size_t end) const {
        return std::all_of(views_.begin() + static_cast<std::ptrdiff_t>(begin),
                           views_.begin() + static_cast<std::ptrdiff_t>(end),
                           [&](const auto& view) { return view->size() == views_[begin]->size(); });
    }

private:
    std::vector<std::unique_ptr<View>> views_;
    bool is_held_;
};

// Runs `work` and turns C++ exceptions into Python's; null or -1 then, as `failed` says.
template <typename Work, typename Result>
Result guarded(Work work, Result failed) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    }
    return failed;
}

template <typename T>
struct Held {
    PyObject_HEAD T* value;
};

template <typename T>
T& held(PyObject* self) {
    return *reinterpret_cast<Held<T>*>(self)->value;
}

template <typename T>
void drop(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete reinterpret_cast<Held<T>*>(self)->value;
    PyObject_Free(self);
    Py_DecRef(reinterpret_cast<PyObject*>(type));
}

// A new object of `type` that owns `value`.
template <typename T>
PyObject* hold(PyObject* type, std::unique_ptr<T> value) {
    auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type), Py_tp_alloc));
    PyObject* self = allocate(reinterpret_cast<PyTypeObject*>(type), 0);
    if (self != nullptr) {
        reinterpret_cast<Held<T>*>(self)->value = value.release();
    }
    return self;
}

template <typename Function>
PyCFunction method(Function function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

inline PyObject* number(std::size_t value) {
    return PyLong_FromSize_t(value);
}

}  // namespace stepscope
