// Reads the events of one piece of a trace into columns. What is irregular is left to Python, as a range of bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "damage.hpp"
#include "dictionary.hpp"
#include "event.hpp"
#include "json.hpp"
#include "rows.hpp"

namespace stepscope {

// What stands next in the list: its first element or its end, an element, or a comma or its end.
enum class State : int { first, element, after };

// `exhausted`: the piece ends, perhaps within an element. `broken`: what follows is not JSON, or Python must decide.
enum class Stop : int { exhausted, list_end, broken, second_list };

// An element that is valid but irregular: its position in the piece and its bytes.
struct Odd {
    std::size_t position = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
};

// A damaged event that was left out: the bytes from the element before to the next one, and what stood next there.
struct Gap {
    std::size_t begin = 0;
    std::size_t end = 0;
    State state = State::first;
};

class Scanner {
public:
    explicit Scanner(const Layout& layout)
        : layout_(layout), event_(layout), dictionaries_(static_cast<std::size_t>(layout.dictionaries)) {
        for (int table = 0; table < kTables; ++table) {
            rows_[table].columns.resize(layout.tables[table].size());
        }
    }

    // Reads from text[begin] to text[end], behind which kPadding bytes are zero, and forgets what was read before.
    void scan(const char* text, std::size_t begin, std::size_t end, State state) {
        forget();
        text_ = text;
        end_ = text + end;
        state_ = state;
        resume_ = after_previous_ = text + begin;
        state_before_ = state;
        while (step()) {
        }
    }

    std::uint64_t id() const {
        return id_;
    }  // of no other scanner in this process
    const Rows& rows(int table) const {
        return rows_[table];
    }
    const Dictionary& dictionary(int number) const {
        return dictionaries_[static_cast<std::size_t>(number)];
    }
    const std::vector<Odd>& odd() const {
        return odd_;
    }
    std::size_t count() const {
        return count_;
    }
    State state() const {
        return state_;
    }
    Stop stop() const {
        return stop_;
    }
    std::size_t resume() const {
        return static_cast<std::size_t>(resume_ - text_);
    }
    std::size_t after_previous() const {
        return static_cast<std::size_t>(after_previous_ - text_);
    }
    State state_after_previous() const {
        return state_before_;
    }
    std::size_t fault_at() const {
        return static_cast<std::size_t>(fault_at_ - text_);
    }
    std::size_t left_out() const {
        return left_out_;
    }
    const Gap& first_gap() const {
        return first_gap_;
    }

private:
    enum class Route : std::uint8_t { unknown, range, instant, flow, metadata, python, unread };
    enum class Side : std::uint8_t { unknown, host, device, python };

    static constexpr std::size_t kRecent = 16;  // texts of a slot whose numbers are at hand

    struct Recent {
        Text text;
        std::uint32_t code = 0;
    };

    // ---- the list -----------------------------------------------------------------------------------------------

    // Reads one element, or the comma or bracket behind it; false: stopped.
    bool step() {
        const char* at = skip_space(resume_);
        if (at >= end_) {
            resume_ = end_;
            return stopped(Stop::exhausted, at);
        }
        if (*at == ']' && state_ != State::element) {
            resume_ = at;
            return stopped(Stop::list_end, at);
        }
        if (state_ == State::after) {
            if (*at != ',') {
                return stopped(Stop::broken, at);
            }
            state_ = State::element;
            resume_ = at + 1;
            return true;
        }
        resume_ = at;
        return element(at);
    }

    bool element(const char* at) {
        Json& json = event_.json;
        json.begin_event();
        const bool is_event = *at == '{';
        const char* behind = is_event ? event_.read(at, end_) : json.value(at);
        if (behind == nullptr) {
            const bool cut = json.fault_at >= end_ && json.fault == Fault::syntax;
            if (!cut && json.fault == Fault::syntax && leave_out(at)) {
                return true;
            }
            const Stop why = json.fault == Fault::second_list ? Stop::second_list : Stop::broken;
            return stopped(cut ? Stop::exhausted : why, json.fault_at);
        }
        if (behind >= end_ && !is_event && behind[-1] != ']' && behind[-1] != '"') {
            return stopped(Stop::exhausted, behind);  // a number or word that may go on
        }
        if (!is_event && Json::is_list_key(at, behind)) {
            return stopped(Stop::second_list, at);  // perhaps a key, in a list that was never closed
        }
        if (json.wide && !is_utf8(at, behind)) {
            json.odd = true;
        }
        if (!is_event || json.odd || !store()) {
            odd_.push_back({count_, offset(at), offset(behind)});
        }
        ++count_;
        state_ = state_before_ = State::after;
        resume_ = after_previous_ = behind;
        return true;
    }

    // Goes on behind a damaged event; false: Python must.
    bool leave_out(const char* at) {
        const char* next = Damage::behind(after_previous_, at, end_);
        if (next == nullptr) {
            return false;
        }
        if (left_out_++ == 0) {
            first_gap_ = {offset(after_previous_), offset(next), state_before_};
        }
        state_ = state_before_ = State::element;
        resume_ = after_previous_ = next;
        return true;
    }

    bool stopped(Stop why, const char* fault_at) {
        stop_ = why;
        fault_at_ = fault_at;
        return false;
    }

    std::size_t offset(const char* at) const {
        return static_cast<std::size_t>(at - text_);
    }

    void forget() {
        for (Rows& rows : rows_) {
            rows.clear();
        }
        odd_.clear();
        left_out_ = 0;
        count_ = 0;
        event_.forget();
        for (auto& recent : recent_) {
            std::fill(std::begin(recent), std::end(recent), Recent());
        }
    }

    // ---- which table --------------------------------------------------------------------------------------------

    // Adds the event to its table; false: it needs Python.
    bool store() {
        if (!event_.has(kPhase)) {
            return append(kUnread);
        }
        const std::uint32_t phase = code_of(kPhase);
        switch (remembered_route(phase)) {
            case Route::range:
                return event_.has(kStart) && event_.has(kLength) && store_range();
            case Route::instant:
                return event_.has(kStart) && store_instant();
            case Route::flow:
                return event_.has(kStart) && (event_.has(kCategory) || !event_.names(kCategory)) && append(kFlows);
            case Route::metadata:
                return append(kMetadata);
            case Route::unread:
                return append(kUnread);
            default:
                return false;
        }
    }

    bool store_range() {
        if (!event_.has(kCategory)) {
            return append(kHost);
        }
        const std::uint32_t category = code_of(kCategory);
        if (category >= sides_.size()) {
            sides_.resize(category + 1, Side::unknown);
        }
        Side& side = sides_[category];
        if (side == Side::unknown) {
            side = side_of(event_.text(kCategory));
        }
        return side != Side::python && append(side == Side::device ? kDevice : kHost);
    }

    bool store_instant() {
        const Text name = event_.has(kName) ? event_.text(kName) : Text{"", 0};
        if (is(name, "\"[memory]\"")) {
            return append(kMemory);
        }
        return !contains(name, '\\') && append(kInstants);
    }

    Route remembered_route(std::uint32_t phase) {
        if (phase >= routes_.size()) {
            routes_.resize(phase + 1, Route::unknown);
        }
        if (routes_[phase] == Route::unknown) {
            routes_[phase] = route_of(event_.text(kPhase));
        }
        return routes_[phase];
    }

    static Route route_of(Text phase) {
        if (is(phase, "\"X\"")) {
            return Route::range;
        }
        if (is(phase, "\"i\"") || is(phase, "\"I\"")) {
            return Route::instant;
        }
        if (is(phase, "\"s\"") || is(phase, "\"f\"")) {
            return Route::flow;
        }
        if (is(phase, "\"M\"")) {
            return Route::metadata;
        }
        const bool read_by_python = is(phase, "\"C\"") || contains(phase, '\\');
        return read_by_python ? Route::python : Route::unread;
    }

    Side side_of(Text category) const {
        std::string lower(category.begin, category.size);
        for (char& c : lower) {
            if (c == '\\' || static_cast<signed char>(c) < 0) {
                return Side::python;
            }
            c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        }
        const auto& known = layout_.device_categories;
        const bool device =
            std::any_of(known.begin(), known.end(), [&](const std::string& one) { return lower == '"' + one + '"'; });
        return device ? Side::device : Side::host;
    }

    static bool is(Text text, const char* expected) {
        return text.size == std::strlen(expected) && std::memcmp(text.begin, expected, text.size) == 0;
    }
    static bool contains(Text text, char c) {
        return text.size != 0 && std::memchr(text.begin, c, text.size) != nullptr;
    }

    bool append(Table table) {
        Rows& rows = rows_[table];
        const std::vector<ColumnSpec>& columns = layout_.tables[table];
        const std::size_t row = rows.positions.size();
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const ColumnSpec& column = columns[i];
            const int slot = event_.has(column.slot) ? column.slot : column.other;
            if (slot < 0 || !event_.has(slot)) {
                continue;
            }
            if (layout_.is_text(column)) {
                rows.columns[i].add_code(row, code_of(slot));
            } else {
                rows.columns[i].add_number(row, event_.number(slot));
            }
        }
        rows.positions.push_back(static_cast<std::uint32_t>(count_));
        return true;
    }

    // The number of a text in its dictionary. The texts of a slot are few at a time, so some are found without hashing.
    std::uint32_t code_of(int slot) {
        const Text text = event_.text(slot);
        const std::size_t marks = text.size + static_cast<unsigned char>(text.begin[text.size / 2]);
        Recent& recent =
            recent_[slot][(marks + static_cast<unsigned char>(text.begin[text.size - text.size / 4 - 1])) % kRecent];
        if (recent.text.size == 0 || !(recent.text == text)) {
            const int dictionary = layout_.slots[static_cast<std::size_t>(slot)].dictionary;
            recent = {text, dictionaries_[static_cast<std::size_t>(dictionary)].number(text)};
        }
        return recent.code;
    }

    static std::uint64_t next_id() {
        static std::atomic<std::uint64_t> last{0};
        return ++last;
    }

    const Layout& layout_;
    const std::uint64_t id_ = next_id();
    EventReader event_;
    std::vector<Dictionary> dictionaries_;
    Rows rows_[kTables];
    std::vector<Route> routes_;  // by the number of a phase
    std::vector<Side> sides_;    // by the number of a category

    Recent recent_[kMaxSlots][kRecent];
    std::vector<Odd> odd_;
    std::size_t left_out_ = 0;
    Gap first_gap_;
    std::size_t count_ = 0;
    State state_ = State::first;
    State state_before_ = State::first;  // at after_previous_
    Stop stop_ = Stop::exhausted;
    const char* text_ = nullptr;
    const char* end_ = nullptr;
    const char* resume_ = nullptr;
    const char* after_previous_ = nullptr;
    const char* fault_at_ = nullptr;
};

}  // namespace stepscope
