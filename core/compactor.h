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
#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/relocator.h"
#include "firn/compaction/snapshot.h"
#include "firn/core/move_batch.h"
#include "firn/core/pinned_blocks.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/large_allocator.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/core/pool_options.h"
#include "firn/core/pool_stats.h"

namespace firn {

// Thread safety: none; guarded by its owner.
class Compactor {
 public:
  // Owns none of its arguments, which must outlive it.
  Compactor(Backing* backing, WindowAllocator* windows, Relocator* relocator,
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

  // Least number of granules for what is live now.
  LowerBounds ComputeBounds();

 private:
  // Frees crowded granules of spares, then looks.
  absl::Status Prepare(bool dry_run, CompactionReport* report);
  void FillSnapshot(Snapshot* snapshot) const;
  static void Count(const MoveBatch::Result& result, CompactionReport* report);

  Backing* const backing_;
  GranuleBooks* const books_;
  WindowAllocator* const windows_;
  const PinnedBlocks* const pins_;
  MoveObserver* const observer_;
  MoveBatch batch_;
  // Kept for their memory.
  Snapshot snapshot_;
  Snapshot bounds_snapshot_;
};

}  // namespace firn

#endif  // FIRN_CORE_COMPACTOR_H_
