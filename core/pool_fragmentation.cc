// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Fragmentation of a pool's memory, in figures: a walk over its blocks and
// granules with the lock, and what follows from that without it.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "firn/compaction/fragmentation.h"
#include "firn/compaction/free_space.h"
#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/snapshot.h"
#include "firn/core/fragmentation_census.h"
#include "firn/core/pool_impl.h"

namespace firn {
namespace {

// An arena as it was.
struct ArenaView {
  Snapshot snapshot;
  bool may_move = false;
  uint32_t used_granules = 0;
  uint32_t used_host_granules = 0;
  uint32_t empty_granules = 0;
};

ArenaView ViewOf(const Arena& arena) {
  ArenaView view;
  view.snapshot = arena.compactor.TakeSnapshotNow();
  view.may_move = arena.may_move();
  view.used_granules = arena.books.used_granules();
  view.used_host_granules = arena.books.used_host_granules();
  view.empty_granules =
      static_cast<uint32_t>(arena.books.empty_granules().size()) +
      arena.backing.empty_runs().vg_count();
  return view;
}

void CountBlocks(const Arena& arena, FragmentationCensus* census) {
  arena.windows.ForEachBlock([&](const SlotContents& slot, uint32_t quanta) {
    const bool is_live =
        slot.state == BlockState::kLive || slot.state == BlockState::kMarked;
    census->AddBlock(is_live ? slot.requested_bytes : 0, QuantaToBytes(quanta));
  });
  arena.large.ForEachBlock([&](uint64_t requested_bytes, uint64_t quanta) {
    census->AddBlock(requested_bytes, QuantaToBytes(quanta));
  });
  if (arena.placed == nullptr) return;
  arena.placed->ForEachBlock([&](const PlacementAllocator::PlacedBlock& block) {
    census->AddBlock(block.requested_bytes, QuantaToBytes(block.quanta));
  });
}

void AddHoles(const FreeSpace& part, FreeSpace* space) {
  for (size_t length = 0; length < part.holes.size(); ++length) {
    space->holes[length] += part.holes[length];
  }
}

// Of the granules of an arena that may not move, each counts in all bounds.
LowerBounds BoundsOf(const ArenaView& view) {
  if (view.may_move) return ComputeLowerBounds(view.snapshot);
  LowerBounds bounds;
  bounds.by_bytes = bounds.by_depth = bounds.by_large = bounds.by_pins =
      bounds.by_packing = view.used_granules;
  return bounds;
}

// Live virtual granules, each as far as it is, in quanta.
uint64_t LiveQuanta(const Snapshot& snapshot) {
  uint64_t quanta =
      (uint64_t{snapshot.full_granules} + snapshot.packed_granules) *
      snapshot.quanta_per_granule;
  for (const SnapshotGranule& granule : snapshot.granules) {
    quanta += granule.live_quanta;
  }
  return quanta;
}

// The figures of what compaction could recover.
void AddCompaction(const std::vector<ArenaView>& views,
                   FragmentationStats* stats) {
  // Of what may move, and of what that would be if all were as deep.
  uint64_t live_quanta = 0;
  uint64_t deepest_quanta = 0;
  for (const ArenaView& view : views) {
    const LowerBounds bounds = BoundsOf(view);
    stats->used_granules += view.used_granules;
    stats->lower_bound_granules += bounds.max();
    stats->bound_by_bytes_granules += bounds.by_bytes;
    stats->bound_by_depth_granules += bounds.by_depth;
    stats->bound_by_large_granules += bounds.by_large;
    stats->bound_by_pins_granules += bounds.by_pins;
    stats->bound_by_packing_granules += bounds.by_packing;
    if (!view.may_move) continue;
    live_quanta += LiveQuanta(view.snapshot);
    deepest_quanta +=
        uint64_t{bounds.by_depth} * view.snapshot.quanta_per_granule;
  }
  stats->potential_granules =
      stats->used_granules -
      std::min(stats->used_granules, stats->lower_bound_granules);
  if (live_quanta == 0) return;
  stats->depth_skew =
      static_cast<double>(deepest_quanta) / static_cast<double>(live_quanta);
}

RequestFit FitOf(const FreeSpace& space, uint32_t quanta) {
  RequestFit fit;
  fit.request_bytes = QuantaToBytes(quanta);
  fit.unusable_share = UnusableShare(space, quanta);
  fit.extfrag_share = ExtfragShare(space, quanta);
  fit.fragmentation_index = FragmentationIndex(space, quanta);
  return fit;
}

std::vector<RequestFit> FitsOf(const FreeSpace& space) {
  std::vector<RequestFit> fits;
  for (uint32_t quanta = 1; quanta < space.quanta_per_granule; quanta *= 4) {
    fits.push_back(FitOf(space, quanta));
  }
  fits.push_back(FitOf(space, space.quanta_per_granule));
  return fits;
}

}  // namespace

FragmentationStats Pool::Impl::GetFragmentation() {
  FragmentationCensus census;
  std::vector<ArenaView> views;
  FreeSpace space;
  space.quanta_per_granule = quanta_per_granule_;
  space.holes.assign(quanta_per_granule_, 0);
  {
    MutexLock lock(&mutex_);
    ReleaseParked(/*is_idle=*/false);
    for (const auto& arena : arenas_) {
      CountBlocks(*arena, &census);
      views.push_back(ViewOf(*arena));
    }
    space.free_granules = store_.cached_granules() +
                          store_.cached_granules(GranuleKind::kExportable);
  }
  for (const ArenaView& view : views) {
    AddHoles(FindFreeSpace(view.snapshot, 0), &space);
    space.free_granules += view.empty_granules;
    // What is free beside what was spilled is lost until that comes back.
    census.AddUsed(GranulesToBytes(uint64_t{view.used_granules} +
                                   view.used_host_granules));
  }
  for (size_t length = 1; length < space.holes.size(); ++length) {
    census.AddFreePieces(QuantaToBytes(length), space.holes[length]);
  }
  FragmentationStats stats = census.ToStats();
  stats.empty_bytes = GranulesToBytes(space.free_granules);
  AddCompaction(views, &stats);
  stats.requests = FitsOf(space);
  return stats;
}

}  // namespace firn
