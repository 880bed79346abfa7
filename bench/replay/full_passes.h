// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a replay makes full compaction passes, and how close to the lower bound
// they come.

#ifndef FIRN_BENCH_REPLAY_FULL_PASSES_H_
#define FIRN_BENCH_REPLAY_FULL_PASSES_H_

#include <cstdint>
#include <optional>

#include "bench/policies/policy.h"

namespace firn::bench {

struct FullPassFigures {
  uint64_t passes = 0;
  uint64_t counted_passes = 0;  // of them, in the ratios below
  // Granules in use after a pass over the least that any plan could end with.
  std::optional<double> worst_used_over_bound;
  std::optional<double> mean_used_over_bound;
};

// Thread safety: none.
class FullPasses {
 public:
  // A pass after which the bound is below this counts in no ratio: a single
  // granule more would be an eighth.
  static constexpr uint64_t kLeastBoundGranules = 8;

  // `passes` of them spread evenly over `events`: pass i, from 1 on, comes
  // after event i x events / passes, rounded; the last one after the last.
  FullPasses(uint64_t passes, uint64_t events)
      : wanted_passes_(passes), events_(events) {}

  // Whether the next one is due once `events_done` are. More than one may be
  // due where there are more passes than events.
  bool IsDue(uint64_t events_done) const;
  void Done(const FullPassOutcome& outcome);

  FullPassFigures figures() const;

 private:
  const uint64_t wanted_passes_;
  const uint64_t events_;
  FullPassFigures figures_;
  double sum_used_over_bound_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_FULL_PASSES_H_
