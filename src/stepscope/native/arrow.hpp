// Columns in Arrow's C data interface (https://arrow.apache.org/docs/format/CDataInterface.html), by reference.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <memory>

#include "columns.hpp"

namespace stepscope {

// The two structures, as the interface lays them down.
struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    std::int64_t flags;
    std::int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};

struct ArrowArray {
    std::int64_t length;
    std::int64_t null_count;
    std::int64_t offset;
    std::int64_t n_buffers;
    std::int64_t n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};

constexpr std::int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE

// Keeps a column alive while an array of it is used.
struct ColumnInUse {
    std::shared_ptr<Column> column;
    const void* buffers[2];
};

template <typename Structure>
void release_capsule(PyObject* capsule, const char* name) {
    auto* structure = static_cast<Structure*>(PyCapsule_GetPointer(capsule, name));
    if (structure != nullptr && structure->release != nullptr) {
        structure->release(structure);
    }
    delete structure;
}

inline ArrowSchema* new_schema(const Column& column) {
    auto* schema = new ArrowSchema{};
    schema->format = column.is_text ? "I" : "l";  // uint32, int64
    schema->name = "";
    schema->flags = kNullable;
    schema->release = [](ArrowSchema* done) {
        done->release = nullptr;
    };
    return schema;
}

inline ArrowArray* new_array(std::shared_ptr<Column> column) {
    auto use = std::make_unique<ColumnInUse>();
    use->column = std::move(column);
    use->buffers[0] = use->column->absent != 0 ? use->column->validity.data() : nullptr;
    use->buffers[1] = use->column->data();
    auto* array = new ArrowArray{};
    array->length = static_cast<std::int64_t>(use->column->size());
    array->null_count = use->column->absent;
    array->n_buffers = 2;
    array->buffers = use->buffers;
    array->release = [](ArrowArray* done) {
        delete static_cast<ColumnInUse*>(done->private_data);
        done->release = nullptr;
    };
    array->private_data = use.release();
    return array;
}

// The pair of capsules that `__arrow_c_array__` returns; null with an error set.
inline PyObject* arrow_capsules(const std::shared_ptr<Column>& column) {
    PyObject* schema = PyCapsule_New(new_schema(*column), "arrow_schema",
                                     [](PyObject* capsule) { release_capsule<ArrowSchema>(capsule, "arrow_schema"); });
    PyObject* array = PyCapsule_New(new_array(column), "arrow_array",
                                    [](PyObject* capsule) { release_capsule<ArrowArray>(capsule, "arrow_array"); });
    return schema != nullptr && array != nullptr ? Py_BuildValue("(NN)", schema, array) : nullptr;
}

}  // namespace stepscope
