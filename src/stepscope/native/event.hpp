// Reads one event: the members that are wanted go to slots, the rest is only checked. Events are written alike, so each
// member is first taken for the one that came at this place the last time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "decimal.hpp"
#include "dictionary.hpp"
#include "json.hpp"
#include "rows.hpp"

namespace stepscope {

class EventReader {
public:
    explicit EventReader(const Layout& layout) : layout_(layout) {
        for (auto& keys : keys_) {
            keys.emplace_back();  // stands before the first key
        }
        for (std::size_t slot = 0; slot < layout.slots.size(); ++slot) {
            add_key(slot < kFirstArgument ? kEvent : kArguments, '"' + layout.slots[slot].key + '"').slot =
                static_cast<int>(slot);
        }
        add_key(kEvent, "\"args\"").slot = kArgumentsSlot;
    }

    // The place behind the event at `at`, or nullptr as `Json` has it, in a text that ends at `end`.
    const char* read(const char* at, const char* end) {
        end_ = end;
        seen_ = present_ = 0;
        has_arguments_ = false;
        const char* behind = members(at, kEvent);
        json.odd = json.odd || seen_ + has_arguments_ == 0;
        return behind;
    }

    bool names(int slot) const {
        return (seen_ >> slot & 1) != 0;
    }  // perhaps with null
    bool has(int slot) const {
        return (present_ >> slot & 1) != 0;
    }  // a value
    Text text(int slot) const {
        return texts_[slot];
    }
    std::int64_t number(int slot) const {
        return numbers_[slot];
    }

    // Forgets values of the text that was read until now.
    void forget() {
        for (auto& keys : keys_) {
            for (Key& key : keys) {
                key.last = {};
            }
        }
    }

    Json json;

private:
    enum Level : int { kEvent, kArguments, kLevels };

    static constexpr int kSkipped = -1;
    static constexpr int kArgumentsSlot = -2;
    static constexpr std::size_t kMostKeys = 1000;                    // keys beyond these are read, but not remembered
    static constexpr std::int64_t kFarthest = 3'900'000'000'000'000;  // us; later times are cut, which Python does

    // What came between the value of a key and that of the next key the last time, and that key.
    struct Lead {
        char text[64] = {};
        std::size_t size = 0;
        std::uint32_t key = 0;
    };

    struct Key {
        int slot = kSkipped;
        Lead lead;
        Text last;  // the value it had the last time, in this text
    };

    const char* members(const char* at, Level level) {
        std::uint32_t number = 0;
        for (bool is_first = true;; is_first = false) {
            const Lead& lead = keys_[level][number].lead;
            if (lead.size != 0 && same_bytes(at, lead.text, lead.size)) {
                number = lead.key;
                at = skip_space(at + lead.size);
            } else {
                const char* begin = at;
                at = skip_space(at + is_first);
                if (*at == '}') {
                    return at + 1;
                }
                if (!is_first && *at != ',') {
                    return json.fail(at);
                }
                number = key_after(number, begin, is_first ? at : skip_space(at + 1), level);
                at = value_at_;
            }
            if (at == nullptr) {
                return nullptr;
            }
            at = level == kEvent && keys_[level][number].slot == kArgumentsSlot ? arguments(at)
                                                                                : member(keys_[level][number], at);
            if (at == nullptr) {
                return nullptr;
            }
        }
    }

    const char* arguments(const char* at) {
        json.odd = json.odd || has_arguments_;
        has_arguments_ = true;
        if (*at == '{') {
            return members(at, kArguments);
        }
        const char* behind = json.value(at);
        json.odd = json.odd || *at != 'n';  // null
        return behind;
    }

    // Reads the key at `at` and goes to its value, `value_at_`. What stands between `begin`, where the value of the
    // key `previous` ended, and there will be looked for behind that key again. 0: a key that is not remembered.
    std::uint32_t key_after(std::uint32_t previous, const char* begin, const char* at, Level level) {
        value_at_ = json.key(at);
        if (value_at_ == nullptr) {
            return 0;
        }
        const Text text{at, static_cast<std::size_t>(json.string_end - at)};
        std::uint32_t number = names_[level].known(text);
        if (number == 0 && keys_[level].size() < kMostKeys && !json.escaped && !json.wide && text.size < kPadding) {
            add_key(level, std::string(text.begin, text.size));
            number = static_cast<std::uint32_t>(keys_[level].size() - 1);
        }
        const auto size = static_cast<std::size_t>(value_at_ - begin);
        Lead& lead = keys_[level][previous].lead;
        lead.size = number != 0 && size <= sizeof lead.text - 16 ? size : 0;
        lead.key = number;
        std::memcpy(lead.text, begin, lead.size);
        return number;
    }

    Key& add_key(Level level, std::string quoted) {
        const std::size_t size = quoted.size();
        quoted.resize(size + kPadding);
        names_[level].number({quoted.data(), size});
        keys_[level].emplace_back();
        return keys_[level].back();
    }

    const char* member(Key& key, const char* at) {
        if (key.slot == kSkipped) {
            return remembered(key, at);
        }
        const std::uint64_t bit = std::uint64_t{1} << key.slot;
        json.odd = json.odd || (seen_ & bit) != 0;  // of equal keys the last holds: Python knows
        seen_ |= bit;
        switch (layout_.slots[static_cast<std::size_t>(key.slot)].kind) {
            case Kind::number:
                return whole_number(key.slot, at);
            case Kind::time:
                return time(key.slot, at);
            default:
                return text(key, at);
        }
    }

    const char* text(Key& key, const char* at) {
        const char* behind = remembered(key, at);
        if (behind != nullptr && *at != 'n') {  // null
            texts_[key.slot] = {at, static_cast<std::size_t>(behind - at)};
            set(key.slot);
        }
        return behind;
    }

    // The end of a value. One that equals the last value of its key is not read again.
    const char* remembered(Key& key, const char* at) {
        const Text last = key.last;
        const auto left = static_cast<std::size_t>(end_ - at);
        if (last.size != 0 && last.size <= left && same_bytes(at, last.begin, last.size) && ends_after(at, last.size)) {
            return at + last.size;
        }
        const bool odd = json.odd;
        const bool wide = json.wide;
        json.odd = json.wide = false;
        const char* behind = json.value(at);
        const bool plain = behind != nullptr && !json.odd && !json.wide;
        key.last = plain && behind < end_ ? Text{at, static_cast<std::size_t>(behind - at)} : Text{};
        json.odd = json.odd || odd;
        json.wide = json.wide || wide;
        return behind;
    }

    // Strings and lists end where they end; a number may go on.
    static bool ends_after(const char* at, std::size_t size) {
        const char next = at[size];
        return *at == '"' || *at == '[' || *at == '{' ||
               !(is_digit(next) || next == '.' || next == 'e' || next == 'E' || next == '+' || next == '-');
    }

    void set(int slot) {
        present_ |= std::uint64_t{1} << slot;
    }

    const char* whole_number(int slot, const char* at) {
        Decimal number(at);
        if (number.whole_digits > kMostDigits || !number.ends_whole()) {
            return unusual(at);
        }
        numbers_[slot] = number.negative ? -number.whole : number.whole;
        set(slot);
        return number.behind();
    }

    // Decimal microseconds to nanoseconds, rounded half to even.
    const char* time(int slot, const char* at) {
        Decimal number(at);
        if (number.whole_digits > kMostDigits - 2 || number.whole >= kFarthest || !number.read_fraction()) {
            return unusual(at);
        }
        const std::int64_t ns = number.whole * 1000 + number.thousandths;
        numbers_[slot] = number.negative ? -ns : ns;
        set(slot);
        return number.behind();
    }

    // A value that is no simple number: null is no value, anything else needs Python.
    const char* unusual(const char* at) {
        json.odd = json.odd || *at != 'n';
        return json.value(at);
    }

    const Layout& layout_;
    Dictionary names_[kLevels];
    std::vector<Key> keys_[kLevels];
    Text texts_[kMaxSlots];
    std::int64_t numbers_[kMaxSlots] = {};
    std::uint64_t seen_ = 0;     // slots that the event names
    std::uint64_t present_ = 0;  // slots that have a value
    bool has_arguments_ = false;
    const char* end_ = nullptr;
    const char* value_at_ = nullptr;
};

}  // namespace stepscope
