// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One climb of the ladder: what each rung gave, for the message of a failure.

#ifndef FIRN_CORE_LADDER_CLIMB_H_
#define FIRN_CORE_LADDER_CLIMB_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "firn/core/ladder.h"

namespace firn {

// What came of a rung.
struct RungOutcome {
  bool changed = false;  // so that another attempt is worth it
  // If not: why there was nothing more. Must outlive the climb.
  absl::string_view why;
};

// What is live could do with, for the message of a failure: a walk over all
// granules, which not every failure pays for.
struct LiveBound {
  uint32_t granules = 0;           // at least
  uint32_t granules_unpinned = 0;  // likewise, if nothing were pinned
  uint32_t largest_hole_quanta = 0;
  uint64_t calls = ~uint64_t{0};  // at which it was computed; all ones: never
  uint64_t calls_since = 0;
};

// Thread safety: none; guarded by its owner.
class LadderClimb {
 public:
  // Counts in `stats`, which must outlive it.
  explicit LadderClimb(LadderStats* stats) : stats_(stats) {}

  void Note(Rung rung, const RungOutcome& outcome, uint64_t recovered_bytes);
  // The attempt that followed the rung noted last succeeded.
  void NoteRescue();

  // "parked_blocks: none is kept; merging: recovered 4194304 bytes, and still
  // too little".
  std::string ToString() const;

 private:
  struct Step {
    Rung rung = Rung::kParkedBlocks;
    RungOutcome outcome;
    uint64_t recovered_bytes = 0;
  };
  RungStats& StatsOf(Rung rung) { return (*stats_)[static_cast<size_t>(rung)]; }

  LadderStats* const stats_;
  absl::InlinedVector<Step, kRungCount + 1> steps_;
};

}  // namespace firn

#endif  // FIRN_CORE_LADDER_CLIMB_H_
