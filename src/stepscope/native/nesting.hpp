// Parents, depths and self times of nested ranges; core/nesting.py defines them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepscope {

// `order` sorts the ranges by track, start and descending end. `parent`, `depth` and `self_time` are filled.
struct Nesting {
    const std::int64_t* order;
    const std::int64_t* track;
    const std::int64_t* start;
    const std::int64_t* end;
    std::int64_t* parent;
    std::int64_t* depth;
    std::int64_t* self_time;

    void fill(std::size_t count) const {
        std::vector<std::int64_t> covered_until(start, start + count);
        std::vector<std::int64_t> open;
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t row = order[i];
            if (i == 0 || track[row] != track[order[i - 1]]) {
                open.clear();
            }
            while (!open.empty() && end[open.back()] <= start[row]) {
                open.pop_back();
            }
            const auto holder =
                std::find_if(open.rbegin(), open.rend(), [&](std::int64_t outer) { return end[outer] >= end[row]; });
            parent[row] = holder == open.rend() ? -1 : *holder;
            depth[row] = holder == open.rend() ? 0 : depth[*holder] + 1;
            self_time[row] = end[row] - start[row];
            if (holder != open.rend()) {
                take_off(row, *holder, covered_until);
            }
            open.push_back(row);
        }
    }

private:
    // Children that overlap each other are taken off once.
    void take_off(std::int64_t row, std::int64_t holder, std::vector<std::int64_t>& covered_until) const {
        std::int64_t& covered = covered_until[static_cast<std::size_t>(holder)];
        const std::int64_t fresh = end[row] - std::max(start[row], covered);
        if (fresh > 0) {
            self_time[holder] -= fresh;
            covered = end[row];
        }
    }
};

}  // namespace stepscope
