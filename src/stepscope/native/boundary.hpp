// Where to cut the text of a trace into pieces that can be read at the same time.
#pragma once

#include <cstddef>
#include <cstring>

namespace stepscope {

inline bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// The last place in text[begin..end) at which an event seems to start: `}` `,` `{` and `first_key`, a key in quotes
// (any key if empty), with white space between them. It may lie within a string or a nested list, so whoever cuts there
// has to see whether the piece before ends there. Returns `end` if there is none.
inline std::size_t last_boundary(const char* text, std::size_t begin, std::size_t end, const char* first_key,
                                 std::size_t key_size) {
    for (std::size_t brace = end; brace-- > begin;) {
        if (text[brace] != '{') {
            continue;
        }
        std::size_t after = brace + 1;
        while (after < end && is_space(text[after])) {
            ++after;
        }
        if (end - after < key_size || after == end || text[after] != '"' ||
            std::memcmp(text + after, first_key, key_size) != 0) {
            continue;
        }
        std::size_t before = brace;
        while (before > begin && is_space(text[before - 1])) {
            --before;
        }
        if (before == begin || text[before - 1] != ',') {
            continue;
        }
        --before;
        while (before > begin && is_space(text[before - 1])) {
            --before;
        }
        if (before > begin && text[before - 1] == '}') {
            return brace;
        }
    }
    return end;
}

}  // namespace stepscope
