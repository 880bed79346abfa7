// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool says about itself: statistics, and the check of its invariants.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "firn/core/pool_impl.h"
#include "firn/core/pool_spiller.h"

namespace firn {

uint64_t Pool::Impl::LiveBytes() const {
  const int64_t live_bytes =
      static_cast<int64_t>(stats_.live_bytes) + caches_.totals().live_bytes;
  return static_cast<uint64_t>(std::max<int64_t>(live_bytes, 0));
}

uint64_t Pool::Impl::Frees() const {
  return stats_.frees + caches_.totals().frees + pins_->removals() +
         graph_pools_.retired_total();
}

PoolStats Pool::Impl::GetStats() {
  MutexLock lock(&mutex_);
  ReleaseParked(/*is_idle=*/false);
  NotePeaks();
  const CacheTotals cached = caches_.totals();
  PoolStats stats = stats_;
  stats.live_bytes = LiveBytes();
  stats.live_allocations += cached.allocations - cached.frees;
  stats.allocations += cached.allocations;
  stats.frees += cached.frees;
  stats.cache_hits = cached.allocations;
  stats.parked_blocks = caches_.parked_blocks() + unreleased_.size();
  stats.backend = identity_.backend;
  stats.device_name = identity_.device_name;
  stats.driver_reason = driver_reason_;
  stats.granule_bytes = granule_bytes_;
  stats.capacity_bytes = GranulesToBytes(store_.most_budget_granules());
  stats.limit_bytes = GranulesToBytes(limit_.hard);
  stats.soft_limit_bytes = GranulesToBytes(limit_.soft);
  stats.used_bytes = GranulesToBytes(UsedGranules());
  stats.held_bytes = GranulesToBytes(store_.held_granules());
  stats.cached_bytes =
      GranulesToBytes(store_.cached_granules() +
                      store_.cached_granules(GranuleKind::kExportable));
  stats.possibly_held_elsewhere = store_.possibly_held_elsewhere_total();
  stats.pending_free_bytes =
      free_queue_.pending_bytes() + graph_pools_.retired_bytes();
  stats.graph_pools = graph_pools_.pools();
  stats.graph_pool_bytes = graph_pools_.bytes();
  stats.mapped_vgs = mappings_.mapped_vgs();
  for (const auto& arena : arenas_) {
    stats.live_vgs += arena->books.live_vgs();
    if (arena->may_move()) {
      stats.partial_granules += arena->books.partial_granules();
    }
    if (arena->is_exportable()) {
      stats.exportable_bytes += GranulesToBytes(arena->books.mapped_granules());
    }
    stats.zeroed_bytes += GranulesToBytes(arena->backing.zeroed_granules());
  }
  const PinnedBlocks::Totals pinned = pins_->totals();
  stats.pinned_blocks = pinned.blocks;
  stats.pinned_bytes = pinned.bytes;
  stats.idle_blocks = declared_.count(Declaration::kIdle);
  stats.idle_bytes = declared_.bytes(Declaration::kIdle);
  Spiller(this).AddStats(&stats);
  stats.read_only_blocks = declared_.count(Declaration::kReadOnly);
  stats.read_only_bytes = declared_.bytes(Declaration::kReadOnly);
  stats.pinned_granules = PinnedGranules();
  stats.handles_created = store_.created_total();
  stats.handles_released = store_.released_total();
  AddGateStats(gate_, &stats);
  return stats;
}

PoolUsage Pool::Impl::GetUsage() {
  MutexLock lock(&mutex_);
  PoolUsage usage;
  usage.granule_bytes = granule_bytes_;
  usage.live_bytes = LiveBytes();
  // Where nothing is live, nothing is used.
  if (usage.live_bytes == 0 && UsedGranules() > 0) {
    ReleaseParked(/*is_idle=*/false);
  }
  usage.used_bytes = GranulesToBytes(UsedGranules());
  usage.spilled_bytes = Spiller(this).LiveBytes();
  usage.held_bytes = GranulesToBytes(store_.held_granules());
  usage.limit_bytes = GranulesToBytes(limit_.hard);
  usage.mapped_vgs = mappings_.mapped_vgs();
  usage.failed_allocations = stats_.failed_allocations;
  usage.compaction_passes = stats_.compaction_passes;
  usage.granules_moved = stats_.granules_moved;
  return usage;
}

absl::StatusOr<uint64_t> Pool::Impl::Generation(const void* ptr) const {
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) return start.status();
  return GenerationOf(*start);
}

VgRange Pool::Impl::RangeOf(BlockStart start) const {
  const Arena& arena = ArenaOf(start.vg);
  VgRange range;
  switch (VgAt(start.vg).role) {
    case VgRole::kWindow:
      range.first = start.vg;
      range.count = 1;
      return range;
    case VgRole::kPlaced:
      return arena.placed->RangeOf(start);
    default:
      return arena.large.RangeOf(start.vg);
  }
}

uint64_t Pool::Impl::GenerationOf(BlockStart start) const {
  const VgRange range = RangeOf(start);
  uint64_t generation = 0;
  for (uint32_t i = 0; i < range.count; ++i) {
    generation += mappings_.generation(range.first + i);
  }
  return generation;
}

absl::Status Pool::Impl::CheckInvariants() {
  MutexLock lock(&mutex_);
  // The driver is asked what is mapped.
  const ScopedRelaxedCapture relaxed(driver_);
  DissolveParked();
  if (!caches_.CheckInvariants()) {
    return absl::InternalError("I1: a cache holds a block that is not parked");
  }
  for (const absl::Status& status :
       {store_.CheckInvariants(), tracker_->CheckInvariants(),
        mappings_.CheckInvariants(), CheckGraphPools(), CheckShared()}) {
    if (!status.ok()) return status;
  }
  for (const auto& arena : arenas_) {
    for (const absl::Status& status :
         {arena->books.CheckInvariants(), arena->windows.CheckInvariants(),
          arena->large.CheckInvariants(),
          arena->placed == nullptr ? absl::OkStatus()
                                   : arena->placed->CheckInvariants()}) {
      if (!status.ok()) return status;
    }
  }
  uint64_t mapped_granules = 0;
  const GranuleBooks& books = main_arena().books;
  for (uint32_t i = 0; i < books.granule_limit(); ++i) {
    const GranuleId granule(i);
    if (books.granule(granule).mappings == 0) continue;
    if (!store_.is_quarantined(granule)) ++mapped_granules;
    if (!store_.is_held(granule) || store_.is_cached(granule)) {
      return absl::InternalError(
          absl::StrCat("I6: granule ", i, " is mapped, and free as well"));
    }
    if (books.granule(granule).is_host !=
        (store_.kind(granule) == GranuleKind::kHost)) {
      return absl::InternalError(absl::StrCat(
          "granule ", i, " is of the host by the store or by the books only"));
    }
  }
  // The keeper's thread may be creating or releasing meanwhile.
  const uint32_t cached = store_.cached_granules() +
                          store_.cached_granules(GranuleKind::kExportable) +
                          store_.cached_granules(GranuleKind::kHost);
  const uint32_t held = store_.held_granules() + store_.held_host_granules();
  if (keeper_ == nullptr && mapped_granules + cached +
                                    store_.retiring_granules() +
                                    store_.quarantined_granules() !=
                                held) {
    return absl::InternalError(absl::StrCat(
        "I11: ", held, " granules held, ", mapped_granules, " mapped, ", cached,
        " cached, ", store_.retiring_granules(), " retiring and ",
        store_.quarantined_granules(), " quarantined"));
  }
  uint64_t mapped_vgs = 0;
  for (uint32_t i = 0; i < address_space_->vg_count(); ++i) {
    const VgRecord& vg = books.vg(VgIndex(i));
    if (vg.granule != mappings_.granule(VgIndex(i))) {
      return absl::InternalError(absl::StrCat(
          "I3: books and mapping table differ on virtual granule ", i));
    }
    if (!vg.granule.is_none()) ++mapped_vgs;
  }
  if (mapped_vgs != mappings_.mapped_vgs()) {
    return absl::InternalError("I3: mappings that the books do not know");
  }
  if (address_space_->free().vg_count() + mapped_vgs !=
      address_space_->vg_count()) {
    return absl::InternalError(absl::StrCat(
        "addresses: ", address_space_->free().vg_count(), " free and ",
        mapped_vgs, " mapped of ", address_space_->vg_count()));
  }
  const uint64_t used = uint64_t{UsedGranules()} + Spiller(this).UsedGranules();
  if (LiveBytes() > GranulesToBytes(used)) {
    return absl::InternalError(absl::StrCat(
        "I1: ", LiveBytes(), " bytes live, only ", used, " granules used"));
  }
  return absl::OkStatus();
}

LadderStats Pool::Impl::GetLadderStats() const {
  MutexLock lock(&mutex_);
  return ladder_;
}

}  // namespace firn
