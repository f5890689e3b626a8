// What an event may hold, and the rows of one piece of a trace as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace stepscope {

enum class Kind : std::uint8_t { number, time, text };

// Members of an event that every trace has; the members of `args` follow. Slots are the same in every table.
enum Slot : int { kPhase, kCategory, kName, kPid, kThread, kStart, kLength, kId, kFirstArgument };

enum Table : int { kHost, kDevice, kMemory, kInstants, kFlows, kMetadata, kUnread, kTables };

constexpr int kMaxSlots = 64;  // bits of the mask of slots that an event has
constexpr std::int64_t kAbsent = std::numeric_limits<std::int64_t>::min();

struct SlotSpec {
    std::string key;
    Kind kind = Kind::text;
    int dictionary = -1;  // of texts
};

// A column holds the value of `slot`, else that of `other` (-1: none).
struct ColumnSpec {
    int slot = 0;
    int other = -1;
};

struct Layout {
    std::vector<SlotSpec> slots;
    std::vector<ColumnSpec> tables[kTables];
    std::vector<std::string> device_categories;  // in lower case
    int dictionaries = 0;

    bool is_text(const ColumnSpec& column) const {
        return slots[static_cast<std::size_t>(column.slot)].kind == Kind::text;
    }
    int dictionary(const ColumnSpec& column) const {
        return slots[static_cast<std::size_t>(column.slot)].dictionary;
    }
};

// Values of one column. Absent values at its end are not stored, so that a column nobody uses costs nothing.
struct Cells {
    std::vector<std::int64_t> numbers;
    std::vector<std::uint32_t> codes;

    void add_number(std::size_t row, std::int64_t value) {
        numbers.resize(row, kAbsent);
        numbers.push_back(value);
    }
    void add_code(std::size_t row, std::uint32_t code) {
        codes.resize(row, 0);
        codes.push_back(code);
    }
    void clear() {
        numbers.clear();
        codes.clear();
    }
};

struct Rows {
    std::vector<std::uint32_t> positions;  // among the elements of the piece
    std::vector<Cells> columns;

    void clear() {
        positions.clear();
        for (Cells& cells : columns) {
            cells.clear();
        }
    }
};

}  // namespace stepscope
