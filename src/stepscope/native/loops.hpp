// The Python face of the loops over arrays of int64, and of float64, that Python hands over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "intervals.hpp"
#include "loading.hpp"
#include "nesting.hpp"
#include "path_walk.hpp"
#include "python.hpp"

namespace stepscope {

inline PyObject* of_different_lengths() {
    PyErr_SetString(PyExc_ValueError, "arrays of different lengths");
    return nullptr;
}

inline PyObject* nest(PyObject* /* module */, PyObject* args) {
    const Arrays arrays(args, 7, 4);
    if (!arrays) {
        return nullptr;
    }
    if (!arrays.are_alike(0, 7)) {
        return of_different_lengths();
    }
    const Nesting nesting{arrays.at(0), arrays.at(1), arrays.at(2), arrays.at(3),
                          arrays.at(4), arrays.at(5), arrays.at(6)};
    return guarded(
        [&] {
            {
                const WithoutLock unlocked;
                nesting.fill(arrays.size(0));
            }
            Py_IncRef(Py_None);
            return Py_None;
        },
        static_cast<PyObject*>(nullptr));
}

// The numbers of all hops, one row of the five after the other, as bytes.
inline PyObject* as_columns(const std::vector<Hop>& hops) {
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(hops.size() * sizeof(Hop)));
    if (bytes == nullptr) {
        return nullptr;
    }
    char* to = PyBytes_AsString(bytes);
    for (std::size_t row = 0; row < sizeof(Hop) / sizeof(std::int64_t); ++row) {
        for (const Hop& hop : hops) {
            std::memcpy(to, reinterpret_cast<const char*>(&hop) + row * sizeof(std::int64_t), sizeof(std::int64_t));
            to += sizeof(std::int64_t);
        }
    }
    return bytes;
}

inline PyObject* walk(PyObject* /* module */, PyObject* args) {
    const Arrays arrays(args, 10, 10);
    if (!arrays) {
        return nullptr;
    }
    if (!arrays.are_alike(1, 4) || !arrays.are_alike(4, 7) || !arrays.are_alike(7, 10) || arrays.size(0) == 0) {
        return of_different_lengths();
    }
    const PathWalk walk{arrays.size(0) - 1, arrays.size(1), arrays.size(4), arrays.at(0), arrays.at(1),
                        arrays.at(2),       arrays.at(3),   arrays.at(4),   arrays.at(5), arrays.at(6)};
    const std::size_t paths = arrays.size(7);
    return guarded(
        [&] {
            std::vector<Hop> hops;
            {
                const WithoutLock unlocked;
                if (!walk.is_whole() || !walk.exist(arrays.at(7), paths)) {
                    throw std::invalid_argument("no such place");
                }
                for (std::size_t path = 0; path < paths; ++path) {
                    walk.walk(static_cast<std::int64_t>(path), arrays.at(7)[path], arrays.at(8)[path],
                              arrays.at(9)[path], hops);
                }
            }
            return as_columns(hops);
        },
        static_cast<PyObject*>(nullptr));
}

// Numbers of Python's float64.
template <typename T>
T* floats(const Arrays& arrays, std::size_t i) {
    return reinterpret_cast<T*>(arrays.at(i));
}

inline PyObject* simulate(PyObject* /* module */, PyObject* args) {
    const Arrays arrays(args, 4, 2);
    if (!arrays) {
        return nullptr;
    }
    constexpr std::size_t kNumbers = sizeof(LoaderCase) / sizeof(double);
    const std::size_t cases = arrays.size(0) / kNumbers;
    const std::size_t batches = cases == 0 ? 0 : arrays.size(2) / cases;
    if (arrays.size(0) != cases * kNumbers || arrays.size(1) != 2 * cases * batches ||
        arrays.size(2) != cases * batches || arrays.size(3) != cases * sizeof(LoaderMeans) / sizeof(double)) {
        return of_different_lengths();
    }
    return guarded(
        [&] {
            {
                const WithoutLock unlocked;
                for (std::size_t i = 0; i < cases; ++i) {
                    const LoaderCase& loader = floats<LoaderCase>(arrays, 0)[i];
                    if (!loader.is_possible()) {
                        throw std::invalid_argument("no such loader");
                    }
                    Loading loading(loader, floats<BatchCost>(arrays, 1) + i * batches, batches);
                    floats<LoaderMeans>(arrays, 3)[i] = loading.run(floats<double>(arrays, 2) + i * batches);
                }
            }
            Py_IncRef(Py_None);
            return Py_None;
        },
        static_cast<PyObject*>(nullptr));
}

// ---- Sets of time --------------------------------------------------------------------------------------------------

inline SpanView spans_of(const Arrays& arrays, std::size_t i) {
    const auto* begin = reinterpret_cast<const Span*>(arrays.at(i));
    return SpanView(begin, begin + arrays.size(i) / 2);
}

inline PyObject* bytes_of(const std::vector<Span>& spans) {
    return PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(spans.data()),
                                         static_cast<Py_ssize_t>(spans.size() * sizeof(Span)));
}

inline PyObject* unite(PyObject* /* module */, PyObject* args) {
    const Arrays arrays(args, 1, 1);
    if (!arrays) {
        return nullptr;
    }
    return guarded(
        [&] {
            std::vector<Span> found;
            bool is_set = false;
            {
                const WithoutLock unlocked;
                is_set = spans_of(arrays, 0).is_set();
                if (!is_set) {
                    found = united(spans_of(arrays, 0));
                }
            }
            if (is_set) {
                Py_IncRef(Py_None);
                return Py_None;
            }
            return bytes_of(found);
        },
        static_cast<PyObject*>(nullptr));
}

// What `combine` makes of two sets.
template <typename Combine>
PyObject* combined(PyObject* args, Combine combine) {
    const Arrays arrays(args, 2, 2);
    if (!arrays) {
        return nullptr;
    }
    return guarded(
        [&] {
            std::vector<Span> found;
            {
                const WithoutLock unlocked;
                found = combine(spans_of(arrays, 0), spans_of(arrays, 1));
            }
            return bytes_of(found);
        },
        static_cast<PyObject*>(nullptr));
}

inline PyObject* subtract(PyObject* /* module */, PyObject* args) {
    return combined(args, subtracted);
}

inline PyObject* intersect(PyObject* /* module */, PyObject* args) {
    return combined(args, intersected);
}

inline PyObject* overlap_each(PyObject* /* module */, PyObject* args) {
    const Arrays arrays(args, 3, 2);
    if (!arrays) {
        return nullptr;
    }
    if (arrays.size(0) != 2 * arrays.size(2)) {
        return of_different_lengths();
    }
    return guarded(
        [&] {
            {
                const WithoutLock unlocked;
                Covered covered(spans_of(arrays, 1));
                std::int64_t* shared = arrays.at(2);
                for (const Span& window : spans_of(arrays, 0)) {
                    const std::int64_t before = covered.until(window.start);
                    *shared++ = std::max(covered.until(window.end) - before, std::int64_t{0});
                }
            }
            Py_IncRef(Py_None);
            return Py_None;
        },
        static_cast<PyObject*>(nullptr));
}

}  // namespace stepscope
