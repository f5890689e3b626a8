// All rows of a trace, piece by piece in the order of the file, and their columns as Arrow arrays without a copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "rows.hpp"
#include "scanner.hpp"

namespace stepscope {

// An array that grows by realloc, which moves the pages of a large one instead of copying them.
template <typename T>
class Growing {
public:
    Growing() = default;
    Growing(const Growing&) = delete;
    Growing& operator=(const Growing&) = delete;
    Growing(Growing&& other) noexcept {
        swap(other);
    }
    Growing& operator=(Growing&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Growing() {
        std::free(data_);
    }

    // Room for `count` more values, which the caller fills.
    T* extend(std::size_t count) {
        if (size_ + count > capacity_) {
            const std::size_t wanted = std::max(size_ + count, capacity_ + capacity_ / 2);
            void* moved = std::realloc(data_, wanted * sizeof(T));
            if (moved == nullptr) {
                throw std::bad_alloc();
            }
            data_ = static_cast<T*>(moved);
            capacity_ = wanted;
        }
        size_ += count;
        return data_ + size_ - count;
    }

    void fill_to(std::size_t size, T value) {
        if (size > size_) {
            const std::size_t count = size - size_;
            std::fill_n(extend(count), count, value);
        }
    }

    T* data() {
        return data_;
    }
    std::size_t size() const {
        return size_;
    }

private:
    void swap(Growing& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

// One finished column: numbers (Int64) with absent ones marked in a bitmap, or codes (UInt32).
struct Column {
    Growing<std::int64_t> numbers;
    Growing<std::uint32_t> codes;
    Growing<std::uint8_t> validity;  // Arrow's bitmap; empty if no value is absent
    std::int64_t absent = 0;
    bool is_text = false;

    std::size_t size() const {
        return is_text ? codes.size() : numbers.size();
    }
    void* data() {
        return is_text ? static_cast<void*>(codes.data()) : static_cast<void*>(numbers.data());
    }
    std::size_t item_size() const {
        return is_text ? sizeof(std::uint32_t) : sizeof(std::int64_t);
    }

    void mark_absent() {
        const std::size_t rows = numbers.size();
        const std::int64_t* values = numbers.data();
        validity.fill_to((rows + 7) / 8, 0);
        std::uint8_t* bits = validity.data();
        std::size_t present = 0;
        for (std::size_t row = 0; row < rows; ++row) {
            const unsigned is_present = values[row] != kAbsent;
            present += is_present;
            bits[row / 8] = static_cast<std::uint8_t>(bits[row / 8] | is_present << row % 8);
        }
        absent = static_cast<std::int64_t>(rows - present);
        if (absent == 0) {
            validity = Growing<std::uint8_t>();
        }
    }
};

class Columns {
public:
    explicit Columns(const Layout& layout) : layout_(layout), texts_(static_cast<std::size_t>(layout.dictionaries)) {
        for (int table = 0; table < kTables; ++table) {
            tables_[table].columns.resize(layout.tables[table].size());
        }
    }

    // Adds what `scanner` has read; its positions follow those of all pieces before.
    void append(const Scanner& scanner) {
        for (int table = 0; table < kTables; ++table) {
            append(table, scanner);
        }
        count_ += scanner.count();
    }

    // Lets positions go on behind elements that Python has read.
    void advance(std::size_t elements) {
        count_ += elements;
    }

    std::size_t count() const {
        return count_;
    }
    std::size_t rows(int table) const {
        return tables_[table].rows;
    }
    const Dictionary& texts(int number) const {
        return texts_[static_cast<std::size_t>(number)];
    }

    // Hands a column over; the last one of a table is its positions. Null: no row has a value.
    std::shared_ptr<Column> take(int table, std::size_t number) {
        Whole& whole = tables_[table];
        auto column = std::make_shared<Column>();
        if (number == whole.columns.size()) {
            column->numbers = std::move(whole.positions);
            return column;
        }
        Stored& stored = whole.columns[number];
        column->is_text = layout_.is_text(layout_.tables[table][number]);
        if (column->is_text) {
            if (stored.codes.size() == 0) {
                return nullptr;
            }
            stored.codes.fill_to(whole.rows, 0);
            column->codes = std::move(stored.codes);
        } else {
            if (stored.numbers.size() == 0) {
                return nullptr;
            }
            stored.numbers.fill_to(whole.rows, kAbsent);
            column->numbers = std::move(stored.numbers);
            column->mark_absent();
        }
        return column;
    }

private:
    struct Stored {
        Growing<std::int64_t> numbers;
        Growing<std::uint32_t> codes;
    };
    struct Whole {
        std::size_t rows = 0;
        Growing<std::int64_t> positions;
        std::vector<Stored> columns;
    };

    void append(int table, const Scanner& scanner) {
        const Rows& rows = scanner.rows(table);
        Whole& whole = tables_[table];
        std::int64_t* positions = whole.positions.extend(rows.positions.size());
        for (const std::uint32_t position : rows.positions) {
            *positions++ = static_cast<std::int64_t>(count_ + position);
        }
        for (std::size_t i = 0; i < rows.columns.size(); ++i) {
            const Cells& cells = rows.columns[i];
            Stored& stored = whole.columns[i];
            if (!cells.numbers.empty()) {
                stored.numbers.fill_to(whole.rows, kAbsent);
                std::copy(cells.numbers.begin(), cells.numbers.end(), stored.numbers.extend(cells.numbers.size()));
            }
            if (!cells.codes.empty()) {
                stored.codes.fill_to(whole.rows, 0);
                append_codes(cells.codes, scanner, layout_.dictionary(layout_.tables[table][i]), stored.codes);
            }
        }
        whole.rows += rows.positions.size();
    }

    void append_codes(const std::vector<std::uint32_t>& codes, const Scanner& scanner, int dictionary,
                      Growing<std::uint32_t>& stored) {
        const std::vector<std::uint32_t>& numbers = numbers_of(scanner, dictionary);
        std::uint32_t* place = stored.extend(codes.size());
        for (const std::uint32_t code : codes) {
            *place++ = numbers[code];
        }
    }

    // For each text of a scanner's dictionary, its number in the dictionary of the whole trace.
    const std::vector<std::uint32_t>& numbers_of(const Scanner& scanner, int dictionary) {
        Dictionary& texts = texts_[static_cast<std::size_t>(dictionary)];
        const Dictionary& known = scanner.dictionary(dictionary);
        std::vector<std::uint32_t>& numbers = numbers_[{scanner.id(), dictionary}];
        if (numbers.empty()) {
            numbers.push_back(0);
        }
        for (std::size_t number = numbers.size(); number < known.size(); ++number) {
            numbers.push_back(texts.number(known.at(static_cast<std::uint32_t>(number))));
        }
        return numbers;
    }

    const Layout& layout_;
    std::vector<Dictionary> texts_;
    std::map<std::pair<std::uint64_t, int>, std::vector<std::uint32_t>> numbers_;
    Whole tables_[kTables];
    std::size_t count_ = 0;
};

}  // namespace stepscope
