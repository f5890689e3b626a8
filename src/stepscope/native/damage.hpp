// Finds where a list of events goes on behind an event that is damaged beyond repair, as the reader of whole texts
// (json_repair.py) does, where that is certain: in plain text, without anything in it that the reader would repair.
#pragma once

#include <cstddef>
#include <cstring>

#include "json.hpp"

namespace stepscope {

class Damage {
public:
    // The element that begins at `at` is no JSON. Returns the start of the next event, or nullptr: Python must decide,
    // or the text that ends at `end` does not tell. `before` is the first byte of the text that may be looked at.
    static const char* behind(const char* before, const char* at, const char* end) {
        Json json;
        json.lenient_until = end;
        if (*at != '{' || json.value(at) != nullptr || !is_broken(json, end) || !is_plain(*json.fault_at) ||
            may_be_mended(before, at, json.fault_at)) {
            return nullptr;
        }
        const char* start = next_start(at, end);
        return start != nullptr && is_event(start, end) ? start : nullptr;
    }

private:
    static constexpr std::ptrdiff_t kLongestEscape = 6;  // characters, of which Python's reader names the first

    static bool is_space(char c) {
        return c == ' ' || c == '\n' || c == '\r' || c == '\t';
    }

    // ASCII, and no control character, some of which Python takes for white space.
    static bool is_plain(char c) {
        return static_cast<signed char>(c) >= ' ';
    }

    // Numbers and words, within which the fault may be, while Python's reader names their first character.
    static bool is_of_token(char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '+' || c == '-' ||
               c == '/' || c == '_';
    }

    // Whether an escape, a comma before a bracket, or a word such as None may be at fault.
    static bool may_be_mended(const char* before, const char* at, const char* fault_at) {
        const char* token = fault_at;
        while (token > at && is_of_token(token[-1])) {
            --token;
        }
        for (const char* c = token; c <= fault_at; ++c) {
            if (*c == 'N' || *c == 'n' || *c == 'i' || *c == 'u') {
                return true;
            }
        }
        const char* first = token - before > kLongestEscape ? token - kLongestEscape : before;
        if (std::memchr(first, '\\', static_cast<std::size_t>(fault_at + 1 - first)) != nullptr) {
            return true;
        }
        const char* last = fault_at;
        while (last > at && is_space(last[-1])) {
            --last;
        }
        const bool is_comma = *fault_at == ',' || (last > at && last[-1] == ',');
        const char next = *fault_at == ',' ? *skip_space(fault_at + 1) : *fault_at;
        return is_comma && (next == '}' || next == ']');
    }

    // Where the first text begins, behind a comma, that looks like an event; nullptr where the list may end before, or
    // where anything is before that needs a second look.
    static const char* next_start(const char* at, const char* end) {
        char previous = 0;  // that is no space
        for (const char* c = at; c < end; ++c) {
            if (is_space(*c)) {
                continue;
            }
            if (!is_plain(*c) || *c == '\\' || (*c == ']' && previous == '}') || is_list_name(c, end)) {
                return nullptr;
            }
            if (*c == '{' && previous == ',' && has_event_key(c)) {
                return c;
            }
            previous = *c;
        }
        return nullptr;
    }

    static bool is_list_name(const char* at, const char* end) {
        static constexpr char kName[] = "traceEvents";
        constexpr std::ptrdiff_t size = sizeof kName - 1;
        return *at == 't' && end - at >= size && std::memcmp(at, kName, static_cast<std::size_t>(size)) == 0;
    }

    static bool has_event_key(const char* at) {
        static constexpr const char* kKeys[] = {"\"ph\"",  "\"name\"", "\"cat\"", "\"ts\"", "\"dur\"",
                                                "\"pid\"", "\"tid\"",  "\"id\"",  "\"bp\"", "\"s\"", "\"args\""};
        const char* key = skip_space(at + 1);
        for (const char* one : kKeys) {
            const std::size_t size = std::strlen(one);
            if (std::strncmp(key, one, size) == 0) {
                return *skip_space(key + size) == ':';
            }
        }
        return false;
    }

    // Whether what begins at `at` is an event, or broken: something that Python would not take for a part of one.
    static bool is_event(const char* at, const char* end) {
        Json json;
        json.lenient_until = end;
        bool has_phase = false;
        const char* key = skip_space(at + 1);
        for (;;) {
            const char* value = json.key(key);
            if (value == nullptr) {
                return is_broken(json, end);
            }
            has_phase = has_phase || (json.string_end - key == 4 && std::memcmp(key, "\"ph\"", 4) == 0);
            const char* behind = json.value(value, 1);
            if (behind == nullptr) {
                return is_broken(json, end);
            }
            behind = skip_space(behind);
            if (*behind != ',') {
                json.fail(behind);
                return *behind == '}' && behind < end ? has_phase : is_broken(json, end);
            }
            key = skip_space(behind + 1);
        }
    }

    static bool is_broken(const Json& json, const char* end) {
        return json.fault == Fault::syntax && json.fault_at < end;
    }
};

}  // namespace stepscope
