// Critical paths, walked backwards in time; analyses/critical_path/lib/path_walk.py defines them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepscope {

// What a path goes through; the numbers are those of _path_walk.py.
enum class Through : std::int64_t { thread, work, delay, nothing_known };

struct Hop {
    std::int64_t path;
    Through what;
    std::int64_t number;  // the thread, or the row of the work
    std::int64_t from;
    std::int64_t until;
};

// A place of a path is a row of work, or thread t as -2 - t, or nowhere. The waits of thread t are those from
// `first[t]` to `first[t + 1]`, in order of `time`: the thread went on because `cause` had ended `at` a time. Work
// began at `start`; `holder` held it up until `held`.
struct PathWalk {
    std::size_t threads;
    std::size_t waits;
    std::size_t works;
    const std::int64_t* first;
    const std::int64_t* time;
    const std::int64_t* at;
    const std::int64_t* cause;
    const std::int64_t* start;
    const std::int64_t* held;
    const std::int64_t* holder;

    // Whether all places exist, so that no path leaves the arrays; only what held work up may be nowhere.
    bool is_whole() const {
        return first[0] == 0 && first[threads] == static_cast<std::int64_t>(waits) &&
               std::is_sorted(first, first + threads + 1) && exist(cause, waits) &&
               std::all_of(holder, holder + works, [&](std::int64_t of) { return of == kNowhere || exist(&of, 1); });
    }

    bool exist(const std::int64_t* places, std::size_t count) const {
        return std::all_of(places, places + count, [&](std::int64_t place) {
            return place != kNowhere && place < static_cast<std::int64_t>(works) &&
                   place > kFirstThread - static_cast<std::int64_t>(threads);
        });
    }

    // Appends the hops of the path from `place` at `end` back to `begin`, in order of time.
    void walk(std::int64_t path, std::int64_t place, std::int64_t begin, std::int64_t end,
              std::vector<Hop>& hops) const {
        const auto before = static_cast<std::ptrdiff_t>(hops.size());
        const auto add = [&](Through what, std::int64_t number, std::int64_t from, std::int64_t until) {
            if (until > from) {
                hops.push_back({path, what, number, from, until});
            }
        };
        std::vector<std::int64_t> unused(first + 1, first + threads + 1);  // each wait is used once, so paths end
        while (end > begin) {
            std::int64_t since = begin;
            if (place < kNowhere) {
                const std::int64_t thread = kFirstThread - place;
                const std::int64_t wait = last_wait(thread, end, unused);
                place = wait < 0 ? kNowhere : cause[wait];
                since = wait < 0 ? begin : std::max(begin, at[wait]);
                add(Through::thread, thread, since, end);
            } else {
                const std::int64_t work = place;
                const std::int64_t began = std::max(begin, start[work]);
                add(Through::work, work, began, end);
                place = holder[work];
                since = place == kNowhere ? begin : std::max(begin, held[work]);
                add(place == kNowhere ? Through::nothing_known : Through::delay, work, since, began);
            }
            end = since;
        }
        std::reverse(hops.begin() + before, hops.end());
    }

private:
    static constexpr std::int64_t kNowhere = -1;
    static constexpr std::int64_t kFirstThread = -2;

    // The last unused wait of a thread that was over by a time, -1 if there is none; those from there on are used then.
    std::int64_t last_wait(std::int64_t thread, std::int64_t until, std::vector<std::int64_t>& unused) const {
        std::int64_t& behind = unused[static_cast<std::size_t>(thread)];
        const std::int64_t* const begin = time + first[thread];
        const std::int64_t* const found = std::upper_bound(begin, time + behind, until);
        if (found == begin) {
            behind = first[thread];
            return -1;
        }
        behind = found - 1 - time;
        return behind;
    }
};

}  // namespace stepscope
