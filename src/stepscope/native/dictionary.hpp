// Texts as numbers: each distinct text gets the next number, from 1; 0 stands for "absent".
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "json.hpp"

namespace stepscope {

// Bytes behind which kPadding more can be read.
struct Text {
    const char* begin = nullptr;
    std::size_t size = 0;

    bool operator==(const Text& other) const {
        return size == other.size && same_bytes(begin, other.begin, size);
    }
};

inline std::uint64_t mixed(std::uint64_t value) {
    value *= 0x9E3779B97F4A7C15u;
    return value ^ (value >> 29);
}

inline std::uint32_t hash_of(Text text) {
    std::uint64_t hash = text.size;
    const char* at = text.begin;
    std::size_t left = text.size;
    std::uint64_t word = 0;
    for (; left >= 8; at += 8, left -= 8) {
        std::memcpy(&word, at, 8);
        hash = mixed(hash ^ word);
    }
    word = 0;
    std::memcpy(&word, at, left);
    hash = mixed(hash ^ word);
    return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

class Dictionary {
public:
    Dictionary() : places_(kFirstPlaces), entries_(1), texts_(kPadding) {}

    std::uint32_t number(Text text) {
        const std::uint32_t hash = hash_of(text);
        for (std::size_t place = hash;; ++place) {
            std::uint32_t& number = places_[place & (places_.size() - 1)];
            if (number == 0) {
                number = static_cast<std::uint32_t>(entries_.size());
                add(text, hash);
                return static_cast<std::uint32_t>(entries_.size() - 1);
            }
            const Entry& entry = entries_[number];
            if (entry.hash == hash && text == at(number)) {
                return number;
            }
        }
    }

    // The number that a text has already, else 0.
    std::uint32_t known(Text text) const {
        const std::uint32_t hash = hash_of(text);
        for (std::size_t place = hash;; ++place) {
            const std::uint32_t number = places_[place & (places_.size() - 1)];
            if (number == 0 || (entries_[number].hash == hash && text == at(number))) {
                return number;
            }
        }
    }

    Text at(std::uint32_t number) const {
        const Entry& entry = entries_[number];
        return {texts_.data() + entry.begin, entry.size};
    }

    // One more than the largest number that was given out.
    std::size_t size() const {
        return entries_.size();
    }

private:
    static constexpr std::size_t kFirstPlaces = 256;  // a power of two, as every later size

    struct Entry {
        std::size_t begin = 0;
        std::size_t size = 0;
        std::uint32_t hash = 0;
    };

    void add(Text text, std::uint32_t hash) {
        const std::size_t begin = texts_.size() - kPadding;
        entries_.push_back({begin, text.size, hash});
        texts_.resize(texts_.size() + text.size);
        std::memcpy(texts_.data() + begin, text.begin, text.size);
        if (entries_.size() * 2 > places_.size()) {
            grow();
        }
    }

    void grow() {
        places_.assign(places_.size() * 2, 0);
        for (std::uint32_t number = 1; number < entries_.size(); ++number) {
            std::size_t place = entries_[number].hash;
            while (places_[place & (places_.size() - 1)] != 0) {
                ++place;
            }
            places_[place & (places_.size() - 1)] = number;
        }
    }

    std::vector<std::uint32_t> places_;
    std::vector<Entry> entries_;
    std::vector<char> texts_;
};

}  // namespace stepscope
