// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What passes would have recovered that were only looked at: whether compaction
// is worth while for a program can be told before it is turned on.

#ifndef FIRN_COMPACTION_COUNTERFACTUAL_H_
#define FIRN_COMPACTION_COUNTERFACTUAL_H_

#include <cstdint>

#include "firn/compaction/planner.h"

namespace firn {

// What one dry run would have done.
struct DryRunFigures {
  uint64_t planned_granules = 0;  // emptied
  uint64_t planned_bytes = 0;     // copied
  uint64_t planned_moves = 0;     // virtual granules remapped
};

DryRunFigures FiguresOf(const Plan& plan);

// Sums over dry runs. One that follows another finds what that one found, as
// nothing was moved: the sums are no savings. Only the quotients and maxima of
// them mean anything: how much a pass at an average look would have freed, what
// it would have cost for each granule, and how much the best one would have.
// Thread safety: none.
struct CounterfactualCounters {
  uint64_t looks = 0;
  uint64_t looks_with_gain = 0;  // that would have freed anything
  uint64_t planned_granules = 0;
  uint64_t planned_bytes = 0;
  uint64_t planned_moves = 0;
  // The most that a single look would have freed.
  uint64_t most_planned_granules = 0;

  void Add(const DryRunFigures& dry_run);

  // 0 where there is nothing to divide by.
  double GranulesPerLook() const;
  double BytesPerGranule() const;
  double MovesPerGranule() const;
};

}  // namespace firn

#endif  // FIRN_COMPACTION_COUNTERFACTUAL_H_
