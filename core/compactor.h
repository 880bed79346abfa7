// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One compaction pass over the pool's books: snapshot, plan, relocate in
// batches, publish each batch.

#ifndef FIRN_CORE_COMPACTOR_H_
#define FIRN_CORE_COMPACTOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/relocator.h"
#include "firn/compaction/snapshot.h"
#include "firn/core/move_batch.h"
#include "firn/core/pinned_blocks.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/large_allocator.h"
#include "firn/core/placement/placement_allocator.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/core/pool_options.h"
#include "firn/core/pool_stats.h"

namespace firn {

// Of what is live at a time.
struct LiveFigures {
  LowerBounds bounds;
  uint32_t largest_hole_quanta = 0;  // within the partly filled granules
};

// Thread safety: none; guarded by its owner.
class Compactor {
 public:
  // Owns none of its arguments, which must outlive it.
  // `placed` may be null.
  Compactor(Backing* backing, WindowAllocator* windows,
            PlacementAllocator* placed, Relocator* relocator,
            const PinnedBlocks* pins, MoveObserver* observer);

  // Runs a pass. The caller has proved that no work uses the pool's memory. On
  // an error the batches that were done stay done and are in `report`; the one
  // that failed left no trace. The observer may let go of the lock between
  // batches; one pass at a time.
  absl::Status Run(const CompactOptions& options, CompactionReport* report);

  // Opens a hole for a block of less than a granule, where one can be had by
  // moving part of what is in its way. Under the same conditions; `report` has
  // no moves if none can be.
  absl::Status OpenHole(uint32_t quanta, uint32_t alignment_quanta,
                        CompactionReport* report);

  // A pass in which `options` bound the pause of others is planned before they
  // are held up, in two steps; the next Run with such options makes its moves
  // as far as they are still right, and none without a plan.
  static bool IsPlannedAhead(const CompactOptions& options) {
    return options.level == CompactionLevel::kLaunchScopes &&
           options.max_pause != absl::InfiniteDuration() && !options.dry_run;
  }
  void TakeSnapshotAhead();
  // Touches nothing that other calls use but Run with such options: needs no
  // lock of the pool's books.
  void PlanAhead(const CompactOptions& options);

  // What is live now. Of no pass that may be waiting for its hooks.
  Snapshot TakeSnapshotNow() const;
  LiveFigures ComputeFigures();
  // Appends what is live on a virtual granule, sorted and merged.
  void AppendLiveExtents(VgIndex vg,
                         std::vector<OffsetInterval>* extents) const {
    batch_.AppendLiveExtents(vg, extents);
  }

 private:
  // What is to be moved, and the state that it was found for.
  struct Planned {
    Snapshot snapshot;  // kept for its memory
    Plan plan;
    uint32_t pinned_granules = 0;
    uint32_t lower_bound_granules = 0;
  };
  // Gives crowded granules room for mappings.
  absl::Status UnmapSpares();
  PlanLimits LimitsOf(const CompactOptions& options) const;
  void TakeSnapshot(bool quiet_only, Planned* planned) const;
  void MakePlanOf(const CompactOptions& options, Planned* planned) const;
  // Ends the plan before the first source that exceeds the budgets.
  static void Cut(const PlanLimits& limits, Planned* planned);
  // With `quiet_only` what is not quiet (MoveObserver) counts as pinned.
  // Returns the granules with something that is pinned indeed.
  uint32_t FillSnapshot(bool quiet_only, Snapshot* snapshot) const;
  // Whether virtual granules that are not pinned fill the granule to the last
  // quantum; they are added to the snapshot then.
  bool AppendPacked(const GranuleRecord& record,
                    absl::Span<const VgIndex> pinned, Snapshot* snapshot) const;
  // The moves of the next batch, whole sources, from `begin` on; its end. It
  // has so many moves at most, but for the first source.
  static size_t BatchEnd(const Plan& plan, size_t begin, size_t most_moves);
  // How many moves the next batch may have, so that max_pause holds.
  size_t MostMovesOfBatch(const CompactOptions& options,
                          absl::Duration elapsed) const;
  static void NoteDuration(absl::Duration duration, uint64_t moves,
                           absl::Duration* time_per_move);
  // Dry run: what the plan comes to.
  static void CountPlanned(const Plan& plan, CompactionReport* report);
  // Makes its moves, as far as the budgets of time go.
  absl::Status Move(const Planned& planned, const CompactOptions& options,
                    absl::Time start, CompactionReport* report);
  static void Count(const MoveBatch::Result& result, CompactionReport* report);

  Backing* const backing_;
  GranuleBooks* const books_;
  WindowAllocator* const windows_;
  const PlacementAllocator* const placed_;
  const PinnedBlocks* const pins_;
  MoveObserver* const observer_;
  MoveBatch batch_;
  // What a move has taken of late: all of it, or, of what is declared, its
  // remap.
  // Infinite: there was none yet.
  absl::Duration time_per_move_ = absl::InfiniteDuration();
  absl::Duration remap_time_per_move_ = absl::InfiniteDuration();
  Planned planned_;
  Planned planned_ahead_;
  bool is_planned_ahead_ = false;
  // Kept for its memory.
  Snapshot bounds_snapshot_;
};

}  // namespace firn

#endif  // FIRN_CORE_COMPACTOR_H_
