// Decimal numbers read exactly, without a float on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "json.hpp"

namespace stepscope {

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
constexpr bool kLittleEndian = false;
#else
constexpr bool kLittleEndian = true;
#endif

constexpr int kMostDigits = 18;  // of a number that fits 64 bits whatever its digits are

inline std::uint64_t eight_bytes(const char* at) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

// Eight digits at once, the first in the lowest byte; elsewhere digits are read one by one.
inline bool is_eight_digits(const char* at) {
    if (!kLittleEndian) {
        return false;
    }
    const std::uint64_t bytes = eight_bytes(at);
    return ((bytes & 0xF0F0F0F0F0F0F0F0u) | (((bytes + 0x0606060606060606u) & 0xF0F0F0F0F0F0F0F0u) >> 4)) ==
           0x3333333333333333u;
}

inline std::int64_t eight_digits(const char* at) {
    std::uint64_t digits = eight_bytes(at) & 0x0F0F0F0F0F0F0F0Fu;
    digits = digits * 10 + (digits >> 8);  // pairs, in every second byte
    const std::uint64_t mask = 0x000000FF000000FFu;
    const std::uint64_t upper = (digits & mask) * (100 + (1'000'000ull << 32));
    const std::uint64_t lower = (digits >> 16 & mask) * (1 + (10'000ull << 32));
    return static_cast<std::int64_t>((upper + lower) >> 32);
}

// A number without exponent, or such a number as a string.
struct Decimal {
    const char* at;
    bool quoted;
    bool negative;
    bool leading_zero;
    int whole_digits = 0;
    std::int64_t whole = 0;
    std::int64_t thousandths = 0;

    explicit Decimal(const char* from) : at(from), quoted(*from == '"') {
        at += quoted;
        negative = *at == '-';
        at += negative;
        leading_zero = *at == '0' && is_digit(at[1]);
        for (; whole_digits <= kMostDigits - 8 - 2 && is_eight_digits(at); at += 8, whole_digits += 8) {
            whole = whole * 100'000'000 + eight_digits(at);
        }
        for (; is_digit(*at) && whole_digits < kMostDigits; ++at, ++whole_digits) {
            whole = whole * 10 + (*at - '0');
        }
    }

    bool ends_whole() const {
        return whole_digits > 0 && (quoted ? *at == '"' : *at != '.' && !goes_on());
    }

    bool goes_on() const {
        return leading_zero || is_digit(*at) || *at == 'e' || *at == 'E';
    }

    bool read_fraction() {
        if (*at != '.') {
            return ends_whole();
        }
        const char* point = at++;
        for (int place = 100; place > 0; place /= 10) {
            thousandths += is_digit(*at) ? (*at++ - '0') * place : 0;
        }
        if (is_digit(*at)) {
            round();
        }
        const std::ptrdiff_t digits = at - point - 1;
        return whole_digits > 0 && digits > 0 && digits < kLongestNumber && (quoted ? *at == '"' : !goes_on());
    }

    // Half a unit goes to the even neighbor; the sum of whole and fraction is even as its last digit is.
    void round() {
        const char first = *at++;
        bool more = false;
        for (; is_digit(*at); ++at) {
            more = more || *at != '0';
        }
        const bool up = first > '5' || (first == '5' && (more || thousandths % 2 != 0));
        thousandths += up;
    }

    const char* behind() const {
        return at + quoted;
    }
};

}  // namespace stepscope
