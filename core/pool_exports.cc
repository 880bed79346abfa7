// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that others can hold on to: granules of kExportable blocks, from their
// export to the release of their handles.

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/core/pool_impl.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {

absl::Status Pool::Impl::CheckMemoryClass(const AllocateOptions& options,
                                          bool is_inside_scope) const {
  if (options.memory_class != MemoryClass::kExportable) return absl::OkStatus();
  if (options_.export_type == ShareableHandleType::kNone &&
      !options_.rdma_capable) {
    return absl::InvalidArgumentError(
        "memory_class: kExportable is for pools with PoolOptions::export_type "
        "or PoolOptions::rdma_capable; this one has neither");
  }
  if (is_inside_scope) {
    return absl::FailedPreconditionError(
        "memory_class: kExportable memory is zeroed and waited for, which must "
        "not be done inside a LaunchScope of the calling thread");
  }
  return absl::OkStatus();
}

// --- Export ---

absl::StatusOr<ExportedBlock> Pool::Impl::Export(const void* ptr) {
  if (options_.export_type == ShareableHandleType::kNone) {
    return absl::FailedPreconditionError(
        "Export: needs a pool with PoolOptions::export_type");
  }
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) return start.status();
  if (!ArenaOf(start->vg).is_exportable()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ptr: the block at 0x", absl::Hex(ToAddress(ptr)),
        " was not allocated with MemoryClass::kExportable, and may move"));
  }
  const VgRange range = ArenaOf(start->vg).large.RangeOf(start->vg);
  ExportedBlock exported(RequestedBytes(*start), granule_bytes_);
  exported.descriptors_.reserve(range.count);
  for (uint32_t i = 0; i < range.count; ++i) {
    int descriptor = -1;
    const absl::Status status = store_.Export(
        VgAt(range.first + i).granule, options_.export_type, &descriptor);
    if (!status.ok()) return status;
    exported.descriptors_.push_back(descriptor);
  }
  return exported;
}

// --- The end of such blocks ---

void Pool::Impl::ReleaseExportable(Arena* arena, BlockStart start) {
  const VgRange range = arena->large.RangeOf(start.vg);
  for (uint32_t i = 0; i < range.count; ++i) {
    if (!store_.is_shared(VgAt(range.first + i).granule)) continue;
    retiring_blocks_.push_back(start);
    return;
  }
  // Nobody else has seen them: they are used again, within the class.
  arena->large.Park(start);
  DissolveParked(arena);
}

void Pool::Impl::RetireExported() {
  // Unmapping may wait for the device.
  if (retiring_blocks_.empty() || !may_wait_) return;
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return;
  std::vector<BlockStart> left;
  for (const BlockStart start : retiring_blocks_) {
    if (ArenaOf(start.vg).large.Unmap(start).ok()) continue;
    // It stays nobody's until it can be unmapped.
    left.push_back(start);
    IsolateLost();
  }
  // There may be room now for what has failed.
  if (left.size() < retiring_blocks_.size()) ForgetFailures();
  retiring_blocks_ = std::move(left);
  // What retires, and nothing that is merely cached.
  retired_granules_ +=
      store_.ReleaseCached(std::numeric_limits<uint32_t>::max()).value_or(0);
}

absl::Status Pool::Impl::CheckShared() const {
  const GranuleBooks& books = main_arena().books;
  for (uint32_t i = 0; i < books.granule_limit(); ++i) {
    const GranuleId granule(i);
    const GranuleRecord& record = books.granule(granule);
    if (record.mappings == 0 || !store_.is_shared(granule)) continue;
    if (arenas_[record.arena]->may_move() || record.mappings > 1) {
      return absl::InternalError(absl::StrCat(
          "I13: granule ", i, " was shared, and ",
          record.mappings > 1 ? "has more than one mapping" : "may move"));
    }
  }
  return absl::OkStatus();
}

}  // namespace firn
