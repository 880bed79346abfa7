// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/slab_policy.h"

#include "bench/policies/policy_errors.h"
#include "bench/policies/size_classes.h"
#include "bench/policies/size_rounding.h"
#include "bench/policies/slab_shape.h"

namespace firn::bench {

SlabPolicy::SlabPolicy(const PolicyOptions& options)
    : granule_bytes_(options.granule_bytes),
      extent_(options.granule_bytes, options.cost),
      slabs_(options.granule_bytes, CompactionMode::kOff) {
  free_runs_.Insert({0, options.capacity_bytes});
}

absl::StatusOr<uint64_t> SlabPolicy::TakeRun(uint64_t granules) {
  const uint64_t run_bytes = granules * granule_bytes_;
  const FreeRangeTree::Node node = free_runs_.FirstFit(run_bytes);
  if (node == FreeRangeTree::kNone) return NoRoom();
  const uint64_t address = free_runs_.range(node).start;
  free_runs_.Take(node, address, run_bytes);
  extent_.GrowTo(address + run_bytes);
  return address;
}

void SlabPolicy::GiveRun(SlabRun run) {
  free_runs_.Give({run.address, run.granules * granule_bytes_},
                  free_runs_.Around(run.address));
}

absl::StatusOr<uint64_t> SlabPolicy::Allocate(uint64_t bytes,
                                              uint32_t /*stream*/) {
  if (bytes > kLargestRequestBytes) return NoRoom();
  if (bytes > granule_bytes_ / 2) return AllocateRun(bytes);
  const SizeClass size_class = SizeClassOf(bytes);
  if (!slabs_.HasFreeSlot(size_class)) {
    const uint64_t granules =
        SlabGranules(size_class.block_bytes, granule_bytes_);
    const absl::StatusOr<uint64_t> address = TakeRun(granules);
    if (!address.ok()) return address;
    slabs_.AddSlab(size_class, {*address, granules});
  }
  live_bytes_ += bytes;
  return slabs_.Place(size_class, bytes);
}

absl::StatusOr<uint64_t> SlabPolicy::AllocateRun(uint64_t bytes) {
  const absl::StatusOr<uint64_t> address =
      TakeRun(DivideUp(bytes, granule_bytes_));
  if (!address.ok()) return address;
  runs_.emplace(*address, bytes);
  live_bytes_ += bytes;
  return address;
}

absl::Status SlabPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const SlabHeap::FreedBlock freed = slabs_.Free(address);
  if (freed.tag != 0) {
    if (freed.emptied.granules != 0) GiveRun(freed.emptied);
    live_bytes_ -= freed.tag;
    return absl::OkStatus();
  }
  const auto run = runs_.find(address);
  if (run == runs_.end()) return NotABlock(address);
  GiveRun({address, DivideUp(run->second, granule_bytes_)});
  live_bytes_ -= run->second;
  runs_.erase(run);
  return absl::OkStatus();
}

}  // namespace firn::bench
