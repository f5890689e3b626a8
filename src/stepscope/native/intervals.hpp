// Sets of time: sorted, disjoint spans, of which none touch; core/intervals.py defines them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace stepscope {

struct Span {
    std::int64_t start;
    std::int64_t end;
};

inline bool starts_earlier(const Span& one, const Span& other) {
    return one.start < other.start;
}

// Spans of a buffer. Those of a set begin and end in order.
class SpanView {
public:
    SpanView(const Span* begin, const Span* end) : begin_(begin), end_(end) {}

    const Span* begin() const {
        return begin_;
    }
    const Span* end() const {
        return end_;
    }
    bool is_empty() const {
        return begin_ == end_;
    }
    bool is_set() const {
        return std::all_of(begin_, end_, [](const Span& span) { return span.end > span.start; }) &&
               std::adjacent_find(begin_, end_,
                                  [](const Span& one, const Span& next) { return next.start <= one.end; }) == end_;
    }
    // The first span of a set that ends after a time.
    const Span* after(std::int64_t time) const {
        return std::upper_bound(begin_, end_, time, [](std::int64_t at, const Span& span) { return at < span.end; });
    }

private:
    const Span* begin_;
    const Span* end_;
};

// Sorts by start. Times come as a few runs that are in order, so runs are merged.
inline void sort_runs(std::vector<Span>& spans) {
    std::vector<std::vector<Span>::iterator> runs{spans.begin()};
    while (runs.back() != spans.end()) {
        runs.push_back(std::is_sorted_until(runs.back(), spans.end(), starts_earlier));
    }
    while (runs.size() > 2) {
        std::vector<std::vector<Span>::iterator> merged{spans.begin()};
        for (std::size_t i = 1; i < runs.size(); i += 2) {
            if (i + 1 < runs.size()) {
                std::inplace_merge(merged.back(), runs[i], runs[i + 1], starts_earlier);
            }
            merged.push_back(runs[std::min(i + 1, runs.size() - 1)]);
        }
        runs = std::move(merged);
    }
}

// The union of any spans.
inline std::vector<Span> united(const SpanView& spans) {
    std::vector<Span> all;
    all.reserve(static_cast<std::size_t>(spans.end() - spans.begin()));
    std::copy_if(spans.begin(), spans.end(), std::back_inserter(all),
                 [](const Span& span) { return span.end > span.start; });
    sort_runs(all);
    std::size_t count = 0;
    for (const Span& span : all) {
        if (count > 0 && span.start <= all[count - 1].end) {
            all[count - 1].end = std::max(all[count - 1].end, span.end);
        } else {
            all[count++] = span;
        }
    }
    all.resize(count);
    return all;
}

// The time in set `a` and not in set `b`.
inline std::vector<Span> subtracted(const SpanView& a, const SpanView& b) {
    std::vector<Span> rest;
    const Span* taken = a.is_empty() ? b.end() : b.after(a.begin()->start);
    for (const Span& span : a) {
        std::int64_t start = span.start;
        while (taken != b.end() && taken->start < span.end) {
            if (taken->start > start) {
                rest.push_back({start, taken->start});
            }
            start = std::max(start, taken->end);
            if (taken->end > span.end) {
                break;  // it may reach into the next one
            }
            ++taken;
        }
        if (start < span.end) {
            rest.push_back({start, span.end});
        }
    }
    return rest;
}

// The time in both sets.
inline std::vector<Span> intersected(const SpanView& a, const SpanView& b) {
    std::vector<Span> common;
    if (a.is_empty() || b.is_empty()) {
        return common;
    }
    const Span* one = a.after(b.begin()->start);
    const Span* other = b.after(a.begin()->start);
    while (one != a.end() && other != b.end()) {
        const Span both{std::max(one->start, other->start), std::min(one->end, other->end)};
        if (both.end > both.start) {
            common.push_back(both);
        }
        ++(one->end < other->end ? one : other);
    }
    return common;
}

// Time of a set before moments, which mostly come in order.
class Covered {
public:
    explicit Covered(const SpanView& set) : set_(set), near_(set.begin()), before_{0} {
        for (const Span& span : set) {
            before_.push_back(before_.back() + span.end - span.start);
        }
    }

    std::int64_t until(std::int64_t time) {
        near_ = near_ == set_.begin() || (near_ - 1)->end <= time ? onwards(time) : set_.after(time);
        const std::int64_t before = before_[static_cast<std::size_t>(near_ - set_.begin())];
        return near_ == set_.end() || near_->start >= time ? before : before + time - near_->start;
    }

private:
    // As `after`, from the span of the last search on, in growing steps.
    const Span* onwards(std::int64_t time) const {
        const Span* from = near_;
        std::ptrdiff_t step = 1;
        while (set_.end() - from > step && from[step - 1].end <= time) {
            from += step;
            step *= 2;
        }
        return SpanView(from, set_.end() - from > step ? from + step : set_.end()).after(time);
    }

    SpanView set_;
    const Span* near_;
    std::vector<std::int64_t> before_;
};

}  // namespace stepscope
