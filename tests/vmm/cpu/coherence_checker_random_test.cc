// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The coherence checker against a list of everything that ever began.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/access_range.h"
#include "firn/vmm/cpu/coherence_checker.h"
#include "firn/vmm/cpu/work_order.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"

namespace firn::cpu {
namespace {

using ::firn::testing::SmallRandom;

constexpr size_t kStreams = 4;
constexpr uint64_t kMemories = 2;
constexpr uint32_t kMemoryBytes = 12;
constexpr uint32_t kAliases = 4;

struct Work {
  WorkOrder order;
  std::vector<PhysicalRange> ranges;
};

bool Overlap(const PhysicalRange& a, const PhysicalRange& b) {
  return a.bytes > 0 && b.bytes > 0 && a.memory_id == b.memory_id &&
         a.offset_bytes < b.offset_bytes + b.bytes &&
         b.offset_bytes < a.offset_bytes + a.bytes;
}

bool AreAliases(const PhysicalRange& a, const PhysicalRange& b) {
  return a.address - a.offset_bytes != b.address - b.offset_bytes;
}

// Remembers all work, and compares with all of it.
class AllWork {
 public:
  // Whether `work`, which begins, conflicts with what began before.
  bool Begin(const Work& work) {
    begun_.push_back(work);
    return std::any_of(begun_.begin(), begun_.end(), [&](const Work& earlier) {
      return !work.order.IsAfter(earlier.order.stream_id,
                                 earlier.order.position) &&
             Conflict(earlier, work);
    });
  }
  void Forget(uint64_t memory_id) {
    for (Work& work : begun_) {
      auto& ranges = work.ranges;
      ranges.erase(std::remove_if(ranges.begin(), ranges.end(),
                                  [&](const PhysicalRange& range) {
                                    return range.memory_id == memory_id;
                                  }),
                   ranges.end());
    }
  }

 private:
  static bool Conflict(const Work& a, const Work& b) {
    for (const PhysicalRange& x : a.ranges) {
      for (const PhysicalRange& y : b.ranges) {
        if (x.writes != y.writes && Overlap(x, y) && AreAliases(x, y)) {
          return true;
        }
      }
    }
    return false;
  }

  std::vector<Work> begun_;
};

// Streams with work that begins in any order that events and waits allow.
class RandomStreams {
 public:
  RandomStreams(uint64_t seed, uint32_t one_ordering_in)
      : random_(seed), one_ordering_in_(one_ordering_in) {}

  SmallRandom& random() { return random_; }

  // Work that begins next, in some stream, after some more was queued.
  Work Next() {
    for (uint32_t i = random_.Below(3); i > 0 || !AnyQueued(); --i) {
      Queue();
      if (i == 0) break;
    }
    // Some stream's first work has seen nothing that has not begun.
    for (size_t id = random_.Below(kStreams);; id = (id + 1) % kStreams) {
      Stream& stream = streams_[id];
      if (stream.queue.empty() || !CanBegin(stream.queue.front())) continue;
      Work work = std::move(stream.queue.front());
      stream.queue.pop_front();
      ++stream.begun;
      return work;
    }
  }

 private:
  struct Stream {
    uint64_t queued = 0;
    uint64_t begun = 0;
    SeenWork seen;  // of its next work
    std::deque<Work> queue;
  };

  bool AnyQueued() const {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const Stream& s) { return !s.queue.empty(); });
  }
  bool CanBegin(const Work& work) const {
    return std::all_of(work.order.seen->begin(), work.order.seen->end(),
                       [&](const auto& entry) {
                         return streams_[entry.first].begun >= entry.second;
                       });
  }
  // All that `from` has queued so far, and all that this has seen, is complete
  // before the next work of `to`.
  void Join(const Stream& from, uint64_t from_id, Stream* to) {
    for (const auto& [id, position] : from.seen) {
      to->seen[id] = std::max(to->seen[id], position);
    }
    to->seen[from_id] = std::max(to->seen[from_id], from.queued);
  }
  void Queue() {
    const size_t id = random_.Below(kStreams);
    Stream& stream = streams_[id];
    if (random_.OneIn(one_ordering_in_)) {
      const size_t other = random_.Below(kStreams);
      if (other != id) Join(streams_[other], other, &stream);
    }
    Work work;
    work.order.stream_id = id;
    work.order.position = ++stream.queued;
    work.order.seen = std::make_shared<const SeenWork>(stream.seen);
    for (uint32_t i = random_.Between(1, 2); i > 0; --i) {
      work.ranges.push_back(RandomRange());
    }
    stream.queue.push_back(std::move(work));
  }
  PhysicalRange RandomRange() {
    PhysicalRange range;
    range.memory_id = 1 + random_.Below(kMemories);
    range.offset_bytes = random_.Below(kMemoryBytes);
    range.bytes = random_.Between(
        0, kMemoryBytes - static_cast<uint32_t>(range.offset_bytes));
    // The first alias is the usual one.
    const uint32_t alias = random_.OneIn(3) ? random_.Below(kAliases) : 0;
    range.address = 0x1000 * (alias + 1) + range.offset_bytes;
    range.writes = random_.OneIn(2);
    return range;
  }

  SmallRandom random_;
  const uint32_t one_ordering_in_;
  std::vector<Stream> streams_{kStreams};
};

// From hardly any order to nearly total order.
class CoherenceCheckerRandomTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CoherenceCheckerRandomTest, ReportsWhatAListOfAllWorkReports) {
  size_t conflicts = 0;
  size_t begun = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomStreams streams(seed, GetParam());
    CoherenceChecker checker;
    AllWork all_work;
    for (int i = 0; i < 250; ++i) {
      if (streams.random().OneIn(40)) {
        const uint64_t memory_id = 1 + streams.random().Below(kMemories);
        checker.Forget(memory_id);
        all_work.Forget(memory_id);
      }
      const Work work = streams.Next();
      const std::string report = checker.Begin(work.order, "work", work.ranges);
      const bool conflict = all_work.Begin(work);
      ASSERT_EQ(!report.empty(), conflict)
          << "seed " << seed << ", work " << i << ": " << report;
      conflicts += conflict ? 1 : 0;
      ++begun;
    }
    // Of each kind, two for each stream, at most, for each byte.
    EXPECT_LE(checker.record_count(),
              kMemories * kMemoryBytes * kStreams * 2 * 2);
  }
  // Both outcomes happen often.
  EXPECT_GT(conflicts, begun / 100);
  EXPECT_LT(conflicts, begun * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(OneOrderingIn, CoherenceCheckerRandomTest,
                         ::testing::Values(1, 2, 4, 10, 1000));

}  // namespace
}  // namespace firn::cpu
