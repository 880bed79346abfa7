// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool whose memory never moves says about itself: statistics, the
// report of an allocation that failed, and the check of its invariants.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/fixed_impl.h"
#include "firn/core/fragmentation_census.h"
#include "firn/core/memory_segments.h"

namespace firn {

absl::Status Pool::FixedImpl::OutOfMemory(const Request& request,
                                          const absl::Status& last_failure) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot allocate ", request.bytes, " bytes: ", last_failure.message(),
      ". capacity ", capacity_bytes_, ", limit ", limit_.hard, ", held ",
      heap_.held_bytes(), ", live ", stats_.live_bytes, ", used ",
      heap_.used_bytes(), ", longest free range ", heap_.longest_free_bytes(),
      ", pending frees ", free_queue_.pending_bytes(),
      ". Live memory cannot move: ", never_moves_, "."));
}

PoolStats Pool::FixedImpl::GetStats() {
  MutexLock lock(&mutex_);
  PoolStats stats = stats_;
  stats.backend = identity_.backend;
  stats.device_name = identity_.device_name;
  stats.driver_reason = driver_reason_;
  stats.capacity_bytes = capacity_bytes_;
  stats.limit_bytes = limit_.hard;
  stats.soft_limit_bytes = limit_.soft;
  stats.used_bytes = heap_.used_bytes();
  stats.held_bytes = heap_.held_bytes();
  stats.cached_bytes = heap_.held_bytes() - heap_.used_bytes();
  stats.pending_free_bytes =
      free_queue_.pending_bytes() + graph_pools_.retired_bytes();
  stats.graph_pools = graph_pools_.pools();
  stats.graph_pool_bytes = graph_pools_.bytes();
  AddGateStats(gate_, &stats);
  const PinnedBlocks::Totals pinned = pins_->totals();
  stats.pinned_blocks = pinned.blocks;
  stats.pinned_bytes = pinned.bytes;
  return stats;
}

PoolUsage Pool::FixedImpl::GetUsage() {
  MutexLock lock(&mutex_);
  PoolUsage usage;
  usage.live_bytes = stats_.live_bytes;
  usage.used_bytes = heap_.used_bytes();
  usage.held_bytes = heap_.held_bytes();
  usage.limit_bytes = limit_.hard;
  usage.failed_allocations = stats_.failed_allocations;
  return usage;
}

FragmentationStats Pool::FixedImpl::GetFragmentation() {
  MutexLock lock(&mutex_);
  FragmentationCensus census;
  heap_.ForEachBlock([&](BlockNumber block, uint64_t requested_bytes,
                         uint64_t extent_bytes) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    census.AddBlock(pending_.contains(block) ? 0 : requested_bytes,
                    extent_bytes);
  });
  heap_.ForEachHole([&](uint64_t bytes) { census.AddFreePieces(bytes, 1); });
  census.AddUsed(heap_.used_bytes());
  FragmentationStats stats = census.ToStats();
  stats.empty_bytes = heap_.held_bytes() - heap_.used_bytes();
  return stats;
}

absl::StatusOr<uint64_t> Pool::FixedImpl::Generation(const void* ptr) const {
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockNumber> block = FindBlock(ptr);
  if (!block.ok()) return block.status();
  return uint64_t{0};
}

absl::Status Pool::FixedImpl::CheckInvariants() {
  MutexLock lock(&mutex_);
  for (const absl::Status& status :
       {heap_.CheckInvariants(), tracker_->CheckInvariants(),
        CheckGraphPools()}) {
    if (!status.ok()) return status;
  }
  if (heap_.held_bytes() > ceiling_bytes_) {
    return absl::InternalError(absl::StrCat(
        "I9: ", heap_.held_bytes(), " bytes held, limit ", limit_.hard));
  }
  const uint64_t freed_bytes = free_queue_.pending_bytes() +
                               graph_pools_.kept_bytes() +
                               graph_pools_.retired_bytes();
  if (heap_.requested_bytes() != stats_.live_bytes + freed_bytes) {
    return absl::InternalError(absl::StrCat(
        "I1: blocks of ", heap_.requested_bytes(), " bytes, ",
        stats_.live_bytes, " live and ", freed_bytes, " pending or kept"));
  }
  return absl::OkStatus();
}

MemorySnapshot Pool::FixedImpl::TakeMemorySnapshot() {
  MemorySnapshot snapshot;
  snapshot.device_ordinal = identity_.device_ordinal;
  std::vector<SegmentHeap::PlacedBlock> blocks;
  std::vector<SegmentHeap::PlacedSegment> segments;
  absl::flat_hash_set<BlockNumber> pending;
  std::vector<Tag> tags;
  {
    // All that takes long is done without the lock.
    MutexLock lock(&mutex_);
    blocks = heap_.Blocks();
    segments = heap_.PlacedSegments();
    pending = pending_;
    snapshot.tag_names = tags_.Names();
    if (!tags_.empty()) {
      for (const auto& block : blocks)
        tags.push_back(tags_.TagOf(block.number));
    }
  }
  absl::flat_hash_map<BlockNumber, Tag> tag_of;
  for (size_t i = 0; i < tags.size(); ++i) tag_of[blocks[i].number] = tags[i];
  std::sort(blocks.begin(), blocks.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  MemorySegmentBuilder builder(&snapshot.segments);
  auto block = blocks.begin();
  for (const SegmentHeap::PlacedSegment& segment : segments) {
    // Segments of the driver's stay apart.
    builder.Finish();
    builder.AddRange(segment.address, QuantaToBytes(segment.quanta),
                     DomainId::kDefault);
    const uint64_t end = uint64_t{segment.first} + segment.quanta;
    for (; block != blocks.end() && block->number < end; ++block) {
      MemoryBlock placed;
      placed.address =
          segment.address + QuantaToBytes(block->number - segment.first);
      placed.bytes = QuantaToBytes(block->quanta);
      placed.requested_bytes = block->bytes;
      placed.state = pending.contains(block->number)
                         ? MemoryBlockState::kPendingFree
                         : MemoryBlockState::kAllocated;
      const auto tag = tag_of.find(block->number);
      if (tag != tag_of.end()) placed.tag = tag->second;
      builder.AddBlock(placed);
    }
  }
  builder.Finish();
  std::sort(snapshot.segments.begin(), snapshot.segments.end(),
            [](const MemorySegment& a, const MemorySegment& b) {
              return a.address < b.address;
            });
  return snapshot;
}

// --- Limits and domains ---

absl::Status Pool::FixedImpl::SetLimit(MemoryLimit limit) {
  const absl::Status valid = limit.Validate(capacity_bytes_);
  if (!valid.ok()) return valid;
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside && !graph_pools_.any_open();
  limit_.hard = limit.hard_bytes > 0 ? limit.hard_bytes : capacity_bytes_;
  limit_.soft = limit.soft_bytes > 0 ? limit.soft_bytes : limit_.hard;
  ceiling_bytes_ = std::max(limit_.hard, heap_.held_bytes());
  if (heap_.held_bytes() <= limit_.soft || !may_wait_) return absl::OkStatus();
  const absl::Status freed = ReleasePending(true);
  if (!freed.ok()) return freed;
  const uint64_t used_bytes = heap_.used_bytes();
  uint64_t released_bytes = 0;
  return ReleaseEmpty(limit_.soft > used_bytes ? limit_.soft - used_bytes : 0,
                      &released_bytes);
}

absl::StatusOr<Domain> Pool::FixedImpl::CreateDomain(
    const DomainOptions& /*options*/) {
  return absl::FailedPreconditionError(absl::StrCat(
      "domains need granules to keep apart, which this pool has not: ",
      never_moves_));
}

absl::Status Pool::FixedImpl::SetDomainLimit(DomainId domain,
                                             MemoryLimit /*limit*/) {
  return absl::InvalidArgumentError(
      absl::StrCat("domain: ", static_cast<uint32_t>(domain),
                   " is none that was created in this pool"));
}

std::vector<DomainStats> Pool::FixedImpl::GetDomainStats() const {
  MutexLock lock(&mutex_);
  std::vector<DomainStats> all(1);
  DomainStats& in_none = all.front();
  in_none.name = "default";
  in_none.live_bytes = stats_.live_bytes;
  in_none.live_allocations = stats_.live_allocations;
  in_none.used_bytes = heap_.used_bytes();
  in_none.mapped_bytes = heap_.held_bytes();
  in_none.allocations = stats_.allocations;
  in_none.failed_allocations = stats_.failed_allocations;
  return all;
}

// --- Pins, hooks and tags ---

absl::StatusOr<Pin> Pool::FixedImpl::PinBlock(const void* ptr,
                                              absl::string_view reason) {
  const absl::Status has_reason = CheckReason(reason);
  if (!has_reason.ok()) return has_reason;
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockNumber> block = FindBlock(ptr);
  if (!block.ok()) return block.status();
  PinnedBlock pinned;
  pinned.key = *block;
  pinned.bytes = heap_.RequestedBytes(*block);
  const uint64_t id = pins_->Add(pinned, reason);
  return Pin(pins_, id, const_cast<void*>(ptr));
}

absl::StatusOr<ExportedBlock> Pool::FixedImpl::Export(const void* /*ptr*/) {
  return absl::FailedPreconditionError(absl::StrCat(
      "Export: needs a pool with PoolOptions::export_type, and virtual memory, "
      "which this one has not: ",
      never_moves_));
}

absl::StatusOr<MoveHookRegistration> Pool::FixedImpl::AddMoveHook(
    MoveHook hook) {
  return Register(std::move(hook), hooks_);
}

absl::StatusOr<Tag> Pool::FixedImpl::RegisterTag(absl::string_view name) {
  MutexLock lock(&mutex_);
  return tags_.Register(name);
}

std::vector<TagStats> Pool::FixedImpl::GetTagStats() const {
  MutexLock lock(&mutex_);
  return tags_.Stats(stats_.live_bytes, stats_.live_allocations,
                     stats_.allocations);
}

}  // namespace firn
