// Strict JSON over a padded buffer: finds where values end, and refuses whatever Python's json would refuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define STEPSCOPE_SSE2 1
#endif

#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace stepscope {

// Bytes that must be readable, and are zero, behind the text: they end every loop, and let 16 bytes be read at once.
constexpr std::size_t kPadding = 64;

// Deeper values are handed to Python, whose own limit decides what can be read.
constexpr int kMaxDepth = 64;

// Longer numbers are handed to Python, which refuses some.
constexpr std::ptrdiff_t kLongestNumber = 300;

inline bool is_digit(char c) {
    return static_cast<unsigned char>(c - '0') < 10;
}

inline const char* skip_space(const char* at) {
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') {
        ++at;
    }
    return at;
}

inline int first_bit(unsigned mask) {
#if defined(_MSC_VER)
    unsigned long index;
    _BitScanForward(&index, mask);
    return static_cast<int>(index);
#else
    return __builtin_ctz(mask);
#endif
}

// The first byte from `at` on that a string may not simply contain: a quote, a backslash, a control or non-ASCII byte.
inline const char* plain_end(const char* at) {
#ifdef STEPSCOPE_SSE2
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(' ');
    for (;; at += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        const __m128i special = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
        const __m128i low_or_wide = _mm_cmplt_epi8(bytes, space);  // signed: bytes from 0x80 on are negative
        const int mask = _mm_movemask_epi8(_mm_or_si128(special, low_or_wide));
        if (mask != 0) {
            return at + first_bit(static_cast<unsigned>(mask));
        }
    }
#else
    while (*at != '"' && *at != '\\' && static_cast<signed char>(*at) >= ' ') {
        ++at;
    }
    return at;
#endif
}

// Whether two texts are equal; 16 bytes behind each must be readable. Faster than memcmp for the few bytes of most.
inline bool same_bytes(const char* one, const char* other, std::size_t size) {
#ifdef STEPSCOPE_SSE2
    if (size <= 32) {
        for (; size > 0; one += 16, other += 16) {
            const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(one));
            const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(other));
            const auto different = static_cast<unsigned>(~_mm_movemask_epi8(_mm_cmpeq_epi8(a, b))) & 0xFFFFu;
            if (size <= 16) {
                return (different & ((1u << size) - 1)) == 0;
            }
            if (different != 0) {
                return false;
            }
            size -= 16;
        }
        return true;
    }
#endif
    return std::memcmp(one, other, size) == 0;
}

// Whether the bytes are UTF-8 as Python decodes it: no surrogates, no overlong forms, nothing beyond U+10FFFF.
inline bool is_utf8(const char* at, const char* end) {
    const auto* byte = reinterpret_cast<const unsigned char*>(at);
    const auto* last = reinterpret_cast<const unsigned char*>(end);
    while (byte < last) {
        const unsigned char lead = *byte++;
        if (lead < 0x80) {
            continue;
        }
        if (lead < 0xC2 || lead > 0xF4) {
            return false;
        }
        const int following = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        if (last - byte < following) {
            return false;
        }
        const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (byte[0] < low || byte[0] > high) {
            return false;
        }
        for (int i = 1; i < following; ++i) {
            if ((byte[i] & 0xC0) != 0x80) {
                return false;
            }
        }
        byte += following;
    }
    return true;
}

// Why reading stopped where it did.
enum class Fault { none, syntax, for_python, second_list };

// Walks over JSON values. Each function takes the place of a value and returns the place behind it, or nullptr with
// `fault` and `fault_at` set. What was met on the way is noted: `odd` (valid, but needs Python), `wide`, `escaped`.
class Json {
public:
    bool odd = false;
    bool wide = false;
    bool escaped = false;
    Fault fault = Fault::none;
    const char* fault_at = nullptr;
    const char* string_end = nullptr;  // of the last key
    const char* lenient_until = nullptr;  // before it, strings may contain control characters

    void begin_event() {
        odd = wide = false;
    }

    const char* fail(const char* at, Fault why = Fault::syntax) {
        fault = why;
        fault_at = at;
        return nullptr;
    }

    const char* string(const char* at) {
        escaped = false;
        for (++at;;) {
            at = plain_end(at);
            if (*at == '"') {
                return at + 1;
            }
            if (static_cast<signed char>(*at) < 0) {
                wide = true;
                ++at;
            } else if (*at == '\\') {
                escaped = true;
                at = escape(at);
                if (at == nullptr) {
                    return nullptr;
                }
            } else if (at < lenient_until) {
                ++at;
            } else {
                return fail(at);
            }
        }
    }

    const char* number(const char* at) {
        const char* start = at;
        at += *at == '-';
        if (!is_digit(*at)) {
            return *at == 'I' && at != start ? constant(at, "Infinity") : fail(at);
        }
        at = *at == '0' ? at + 1 : digits(at);
        if (*at == '.') {
            if (!is_digit(at[1])) {
                return fail(at + 1);
            }
            at = digits(at + 1);
        }
        if (*at == 'e' || *at == 'E') {
            ++at;
            at += *at == '-' || *at == '+';
            if (!is_digit(*at)) {
                return fail(at);
            }
            at = digits(at);
        }
        return at - start > kLongestNumber ? fail(start, Fault::for_python) : at;
    }

    const char* value(const char* at, int depth = 0) {
        switch (*at) {
            case '"':
                return string(at);
            case '[':
                return list(at, depth);
            case '{':
                return object(at, depth);
            case 't':
                return word(at, "true");
            case 'f':
                return word(at, "false");
            case 'n':
                return word(at, "null");
            case 'N':
                return constant(at, "NaN");
            case 'I':
                return constant(at, "Infinity");
            default:
                return number(at);
        }
    }

    // Reads a key at `at` and goes to its value; a second list of events is for the plain reader.
    const char* key(const char* at) {
        if (*at != '"') {
            return fail(at);
        }
        const char* end = string(at);
        if (end == nullptr) {
            return nullptr;
        }
        odd = odd || escaped;
        string_end = end;
        if (is_list_key(at, end)) {
            return fail(at, Fault::second_list);
        }
        return colon(end);
    }

    const char* colon(const char* at) {
        at = skip_space(at);
        return *at == ':' ? skip_space(at + 1) : fail(at);
    }

    static bool is_list_key(const char* at, const char* end) {
        static constexpr char kList[] = "\"traceEvents\"";
        constexpr std::ptrdiff_t size = sizeof kList - 1;
        return end - at == size && std::memcmp(at, kList, static_cast<std::size_t>(size)) == 0;
    }

private:
    static const char* digits(const char* at) {
        while (is_digit(*at)) {
            ++at;
        }
        return at;
    }

    static bool is_hex(char c) {
        return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    }

    const char* escape(const char* at) {
        const char kind = at[1];
        if (kind != 'u') {
            return kind != 0 && std::strchr("\"\\/bfnrt", kind) != nullptr ? at + 2 : fail(at + 1);
        }
        for (int i = 2; i < 6; ++i) {
            if (!is_hex(at[i])) {
                return fail(at + i);
            }
        }
        if ((at[2] == 'd' || at[2] == 'D') && at[3] >= '8') {
            odd = true;  // a surrogate: half of a character
        }
        return at + 6;
    }

    const char* word(const char* at, const char* expected) {
        for (; *expected != 0; ++at, ++expected) {
            if (*at != *expected) {
                return fail(at);
            }
        }
        return at;
    }

    const char* constant(const char* at, const char* expected) {
        odd = true;
        return word(at, expected);
    }

    const char* list(const char* at, int depth) {
        if (depth == kMaxDepth) {
            return fail(at, Fault::for_python);
        }
        at = skip_space(at + 1);
        if (*at == ']') {
            return at + 1;
        }
        for (;;) {
            at = value(at, depth + 1);
            if (at == nullptr) {
                return nullptr;
            }
            at = skip_space(at);
            if (*at == ']') {
                return at + 1;
            }
            if (*at != ',') {
                return fail(at);
            }
            at = skip_space(at + 1);
        }
    }

    const char* object(const char* at, int depth) {
        if (depth == kMaxDepth) {
            return fail(at, Fault::for_python);
        }
        at = skip_space(at + 1);
        if (*at == '}') {
            return at + 1;
        }
        for (;;) {
            at = key(at);
            at = at == nullptr ? nullptr : value(at, depth + 1);
            if (at == nullptr) {
                return nullptr;
            }
            at = skip_space(at);
            if (*at == '}') {
                return at + 1;
            }
            if (*at != ',') {
                return fail(at);
            }
            at = skip_space(at + 1);
        }
    }
};

}  // namespace stepscope
