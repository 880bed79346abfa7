// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules of MakePlan in their plainest form, for tests to compare with.

#ifndef FIRN_TESTS_COMPACTION_SLOW_PLANNER_H_
#define FIRN_TESTS_COMPACTION_SLOW_PLANNER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"

namespace firn::testing {

// Marks the extents of a virtual granule; false where one was marked before.
inline bool Mark(const Snapshot& snapshot, uint32_t vg,
                 std::vector<bool>* live) {
  for (const OffsetInterval& extent : snapshot.ExtentsOf(snapshot.vgs[vg])) {
    for (uint32_t i = extent.lo; i < extent.hi; ++i) {
      if ((*live)[i]) return false;
      (*live)[i] = true;
    }
  }
  return true;
}

// The rules of the planner, followed one quantum at a time.
class SlowPlanner {
 public:
  SlowPlanner(const Snapshot& snapshot, uint32_t tolerance_quanta)
      : snapshot_(snapshot), tolerance_quanta_(tolerance_quanta) {
    live_.assign(snapshot.granules.size(),
                 std::vector<bool>(snapshot.quanta_per_granule, false));
    took_in_.assign(snapshot.granules.size(), false);
    order_.resize(snapshot.granules.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(),
                     [&snapshot](uint32_t a, uint32_t b) {
                       const SnapshotGranule& x = snapshot.granules[a];
                       const SnapshotGranule& y = snapshot.granules[b];
                       return snapshot.IsPinned(x) != snapshot.IsPinned(y)
                                  ? snapshot.IsPinned(x)
                                  : x.live_quanta > y.live_quanta;
                     });
    for (uint32_t g = 0; g < snapshot.granules.size(); ++g) {
      for (const uint32_t vg : VgsOf(g)) Mark(snapshot, vg, &live_[g]);
    }
  }

  Plan Run() {
    Plan plan;
    for (size_t rank = order_.size(); rank-- > 0;) {
      if (took_in_[order_[rank]]) continue;
      if (snapshot_.IsPinned(snapshot_.granules[order_[rank]])) continue;
      const std::optional<std::vector<PlannedMove>> moves = Evacuate(rank);
      if (!moves.has_value()) continue;
      plan.moves.insert(plan.moves.end(), moves->begin(), moves->end());
    }
    return plan;
  }

 private:
  std::vector<uint32_t> VgsOf(uint32_t g) const {
    std::vector<uint32_t> vgs(snapshot_.granules[g].vg_count);
    std::iota(vgs.begin(), vgs.end(), snapshot_.granules[g].first_vg);
    std::stable_sort(vgs.begin(), vgs.end(), [this](uint32_t a, uint32_t b) {
      return snapshot_.vgs[a].live_quanta > snapshot_.vgs[b].live_quanta;
    });
    return vgs;
  }

  // What an attempt has come to so far.
  struct Attempt {
    std::vector<std::vector<bool>> live;
    std::vector<bool> took_in;
    std::map<uint32_t, size_t> rank_of;  // by virtual granule
  };

  std::optional<std::vector<PlannedMove>> Evacuate(size_t rank) {
    Attempt attempt;
    attempt.live = live_;
    attempt.took_in = took_in_;
    const std::vector<uint32_t> vgs = VgsOf(order_[rank]);
    for (const uint32_t vg : vgs) {
      if (attempt.rank_of.count(vg) > 0) continue;
      const std::optional<size_t> first = FirstFit(attempt, vg, rank);
      if (!first.has_value()) return std::nullopt;
      const std::vector<uint32_t> run = RunOf(vg, vgs);
      const std::optional<size_t> beside =
          BesideNeighbour(attempt, vg, run, *first, rank);
      const std::optional<size_t> together =
          beside.has_value() ? std::nullopt
                             : ForAll(attempt, run, *first, rank);
      if (together.has_value()) {
        for (const uint32_t member : run) Put(member, *together, &attempt);
      } else {
        Put(vg, beside.value_or(*first), &attempt);
      }
    }
    live_ = attempt.live;
    took_in_ = attempt.took_in;
    std::vector<PlannedMove> moves;
    for (const uint32_t vg : vgs) {
      moves.push_back({vg, order_[rank], order_[attempt.rank_of[vg]]});
    }
    return moves;
  }

  bool Fits(const Attempt& attempt, absl::Span<const uint32_t> vgs,
            size_t rank) const {
    std::vector<bool> live = attempt.live[order_[rank]];
    return std::all_of(vgs.begin(), vgs.end(),
                       [&](uint32_t vg) { return Mark(snapshot_, vg, &live); });
  }
  std::optional<size_t> FirstFit(const Attempt& attempt, uint32_t vg,
                                 size_t end) const {
    for (size_t host = 0; host < end; ++host) {
      if (Fits(attempt, {vg}, host)) return host;
    }
    return std::nullopt;
  }
  // Whether `host` may stand in for `first`: it is of its kind, is a host
  // already, and has little less.
  bool MayStandIn(const Attempt& attempt, size_t host, size_t first) const {
    const SnapshotGranule& one = snapshot_.granules[order_[host]];
    const SnapshotGranule& other = snapshot_.granules[order_[first]];
    return host >= first &&
           snapshot_.IsPinned(one) == snapshot_.IsPinned(other) &&
           (host == first || attempt.took_in[order_[host]]) &&
           one.live_quanta + tolerance_quanta_ >= other.live_quanta;
  }
  // Those of `vgs` that are neighbours of `vg`, of its neighbours, and so on,
  // by address.
  std::vector<uint32_t> RunOf(uint32_t vg,
                              const std::vector<uint32_t>& vgs) const {
    std::map<uint32_t, uint32_t> by_address;
    for (const uint32_t other : vgs) {
      by_address[snapshot_.vgs[other].vg.value()] = other;
    }
    uint32_t first = snapshot_.vgs[vg].vg.value();
    while (first > 0 && by_address.count(first - 1) > 0) --first;
    std::vector<uint32_t> run;
    for (; by_address.count(first) > 0; ++first) {
      run.push_back(by_address[first]);
    }
    return run;
  }
  std::optional<size_t> BesideNeighbour(const Attempt& attempt, uint32_t vg,
                                        const std::vector<uint32_t>& run,
                                        size_t first, size_t end) const {
    if (tolerance_quanta_ == 0) return std::nullopt;
    const uint32_t address = snapshot_.vgs[vg].vg.value();
    for (const uint32_t other : run) {
      const uint32_t other_address = snapshot_.vgs[other].vg.value();
      const auto placed = attempt.rank_of.find(other);
      if (placed == attempt.rank_of.end() || placed->second >= end ||
          (other_address + 1 != address && address + 1 != other_address)) {
        continue;
      }
      if (MayStandIn(attempt, placed->second, first) &&
          Fits(attempt, {vg}, placed->second)) {
        return placed->second;
      }
    }
    return std::nullopt;
  }
  std::optional<size_t> ForAll(const Attempt& attempt,
                               const std::vector<uint32_t>& run, size_t first,
                               size_t end) const {
    for (const uint32_t vg : run) {
      if (tolerance_quanta_ == 0 || run.size() == 1 ||
          attempt.rank_of.count(vg) > 0)
        return std::nullopt;
    }
    for (size_t host = first; host < end; ++host) {
      if (MayStandIn(attempt, host, first) && Fits(attempt, run, host)) {
        return host;
      }
    }
    return std::nullopt;
  }
  void Put(uint32_t vg, size_t rank, Attempt* attempt) const {
    EXPECT_TRUE(Mark(snapshot_, vg, &attempt->live[order_[rank]]));
    attempt->took_in[order_[rank]] = true;
    attempt->rank_of[vg] = rank;
  }

  const Snapshot& snapshot_;
  const uint32_t tolerance_quanta_;  // 0: neighbours go their own ways
  std::vector<uint32_t> order_;      // pinned first, of either fullest first
  std::vector<std::vector<bool>> live_;
  std::vector<bool> took_in_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_COMPACTION_SLOW_PLANNER_H_
