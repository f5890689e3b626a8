// A DataLoader as a discrete-event simulation; models/loader_simulation.py defines it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

namespace stepscope {

// The numbers of one case, in the order of the fields of Case that follow `fetch`.
struct LoaderCase {
    static constexpr double kMost = 4096;  // of workers, and of batches that each has ahead

    double workers;
    double prefetch;
    double feed;
    double step;
    double step_cpu;
    double cores;
    double foreign;
    double contention;
    double at;
    double cpu_contention;
    double cold_cache_slowdown;
    double kept;
    double hold;

    bool is_possible() const {
        return workers >= 1 && workers <= kMost && prefetch >= 1 && prefetch <= kMost;
    }
};

// What a batch takes to make, in ns.
struct BatchCost {
    double cpu;
    double other;
};

struct LoaderMeans {
    double fetch;
    double step;
    double waited;
    double held;
};

// The threads of one case: workers, then their feeders, then the process that trains.
class Loading {
public:
    Loading(const LoaderCase& loader, const BatchCost* batches, std::size_t count)
        : case_(loader),
          batches_(batches),
          count_(count),
          workers_(static_cast<std::size_t>(loader.workers)),
          ahead_(workers_ * static_cast<std::size_t>(loader.prefetch)),
          threads_(2 * workers_ + 1),
          begun_(workers_),
          fetched_(workers_),
          fed_(workers_) {}

    // Fills in the end of each step.
    LoaderMeans run(double* ends) {
        while (done_ < count_) {
            begin_step();  // it orders a batch, which a worker may begin at once
            begin_fetches();
            begin_feeds();
            pass();
            if (finish()) {
                ends[done_++] = now_;
                idle_from_ = now_;
            }
        }
        std::size_t fetches = 0;
        for (const std::size_t of_worker : fetched_) {
            fetches += of_worker;
        }
        const double steps = static_cast<double>(done_);
        return {fetching_ / static_cast<double>(std::max(fetches, std::size_t{1})), stepping_ / steps,
                static_cast<double>(waited_) / steps,
                held_ / steps};
    }

private:
    static constexpr double kIdle = std::numeric_limits<double>::infinity();
    static constexpr double kDone = 1e-6;    // ns: what is left of an activity that is over, but for rounding
    static constexpr double kWaited = 0.05;  // WAITED
    static constexpr double kTogether = 2.0;

    struct Thread {
        double left = kIdle;
        double demand = 0.0;  // cores that the activity keeps busy where it has all it wants
        double speed = 1.0;
    };

    Thread& trainer() {
        return threads_.back();
    }

    void begin_fetches() {
        for (std::size_t worker = 0; worker < workers_; ++worker) {
            const std::size_t batch = worker + begun_[worker] * workers_;
            if (threads_[worker].left == kIdle && batch < ahead_ + taken_) {
                const BatchCost& cost = batches_[batch % count_];
                threads_[worker] = {cost.cpu + cost.other, cost.cpu / std::max(cost.cpu + cost.other, kDone)};
                ++begun_[worker];
            }
        }
    }

    void begin_feeds() {
        for (std::size_t worker = 0; worker < workers_; ++worker) {
            Thread& feeder = threads_[workers_ + worker];
            if (feeder.left == kIdle && fed_[worker] < fetched_[worker]) {
                feeder = {case_.feed, 1.0};
            }
        }
    }

    void begin_step() {
        const std::size_t worker = taken_ % workers_;
        if (trainer().left != kIdle || fed_[worker] <= taken_ / workers_) {
            return;
        }
        if (!answered_ && case_.hold > 0 && threads_[worker].left != kIdle) {
            trainer() = {case_.hold, 0.0};
            holding_ = true;
            return;
        }
        answered_ = false;
        const bool waited = now_ - idle_from_ > kWaited * case_.step;
        waited_ += waited ? 1 : 0;
        trainer() = {case_.step * (waited ? 1 + case_.cold_cache_slowdown : 1.0), case_.step_cpu / std::max(case_.step, kDone)};
        ++taken_;
    }

    double inflation(double busy) const {
        return 1 + case_.contention * std::max(busy - 1, 0.0);
    }

    // Lets time pass until an activity is over.
    void pass() {
        double wanted = case_.foreign;
        for (const Thread& thread : threads_) {
            wanted += thread.demand;
        }
        const bool contended = wanted > case_.cores * (1 + kDone);
        const double part = contended ? case_.kept * case_.cores / wanted : 1.0;
        const double dearer = inflation(std::min(case_.cores, wanted)) / inflation(case_.at);
        double passed = kIdle;
        for (Thread& thread : threads_) {
            const double chance = std::pow(part, std::clamp(thread.demand, 1.0, kTogether));
            const double slower = dearer * (1 + case_.cpu_contention * (1 / chance - 1));
            thread.speed = 1 / (1 + std::min(thread.demand, 1.0) * (slower - 1));
            passed = std::min(passed, thread.left / thread.speed);
        }
        if (passed == kIdle) {
            throw std::invalid_argument("nothing is ordered ahead");
        }
        now_ += passed;
        for (std::size_t i = 0; i < threads_.size(); ++i) {
            if (threads_[i].left != kIdle) {
                threads_[i].left -= passed * threads_[i].speed;
            }
        }
        for (std::size_t worker = 0; worker < workers_; ++worker) {
            fetching_ += threads_[worker].left != kIdle ? passed : 0.0;
        }
        (holding_ ? held_ : stepping_) += trainer().left != kIdle ? passed : 0.0;
    }

    // Whether a step is over.
    bool finish() {
        for (std::size_t i = 0; i < threads_.size(); ++i) {
            if (threads_[i].left > kDone) {
                continue;
            }
            threads_[i] = {};
            if (i < workers_) {
                ++fetched_[i];
                if (holding_ && i == taken_ % workers_) {
                    answer();
                }
            } else if (i < 2 * workers_) {
                ++fed_[i - workers_];
            } else if (holding_) {
                answer();
            } else {
                return true;
            }
        }
        return false;
    }

    // The worker lets go of Python's lock and hands its batch over.
    void answer() {
        trainer() = {};
        holding_ = false;
        answered_ = true;
    }

    LoaderCase case_;
    const BatchCost* batches_;
    std::size_t count_;
    std::size_t workers_;
    std::size_t ahead_;
    std::vector<Thread> threads_;
    std::vector<std::size_t> begun_;  // fetches of each worker
    std::vector<std::size_t> fetched_;
    std::vector<std::size_t> fed_;
    std::size_t taken_ = 0;
    std::size_t done_ = 0;
    std::size_t waited_ = 0;  // steps that had to
    double now_ = 0.0;
    double idle_from_ = 0.0;  // when the training process ended its last step
    double fetching_ = 0.0;
    double stepping_ = 0.0;
    double held_ = 0.0;
    bool holding_ = false;   // the trainer waits for a worker that fetches
    bool answered_ = false;  // it has, for its next batch
};

}  // namespace stepscope
