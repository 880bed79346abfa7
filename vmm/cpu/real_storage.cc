// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/real_storage.h"

#include <cstdlib>
#include <utility>

#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"

namespace firn::cpu {
namespace {

constexpr const char* kKernelMappingsRule =
    "the process must stay below the host's limit of memory mappings "
    "(vm.max_map_count)";

KernelMappingBudget& Budget() { return KernelMappingBudget::OfProcess(); }

}  // namespace

RealStorage::RealStorage(uint64_t granularity_bytes,
                         std::unique_ptr<Backing> backing, FaultGuard* guard,
                         std::function<bool()> device_is_idle)
    : granularity_bytes_(granularity_bytes),
      backing_(std::move(backing)),
      guard_(guard),
      device_is_idle_(std::move(device_is_idle)) {}

RealStorage::~RealStorage() {
  for (const auto& [base, region] : regions_) GiveBack(region.get());
  for (const auto& region : retired_regions_) GiveBack(region.get());
}

Verdict RealStorage::Reserve(uint64_t bytes, uint64_t alignment_bytes,
                             DevicePtr hint, DevicePtr* address,
                             StorageRegion** region) {
  DiscardRetiredIfIdle();
  if (!Budget().TryAdd(1)) {
    return Refuse(DriverResult::kOutOfMemory, kKernelMappingsRule);
  }
  if (!ReserveAddresses(bytes, alignment_bytes, hint, address)) {
    Budget().Remove(1);
    return Refuse(DriverResult::kOutOfMemory,
                  "the process must have so many addresses left");
  }
  auto made = std::make_unique<Region>(*address, bytes, granularity_bytes_);
  *region = made.get();
  guard_->Add(&made->guarded);
  regions_.emplace(*address, std::move(made));
  return Allow();
}

void RealStorage::Unreserve(DevicePtr address, uint64_t /*bytes*/) {
  const auto it = regions_.find(address);
  retired_regions_.push_back(std::move(it->second));
  regions_.erase(it);
  DiscardRetiredIfIdle();
}

Verdict RealStorage::Allocate(uint64_t granules, StoragePlace* place) {
  return backing_->Allocate(granules, place);
}

Verdict RealStorage::AllocateShareable(const SharedMemoryInfo& info,
                                       StoragePlace* place) {
  return backing_->AllocateFile(info, place);
}

Verdict RealStorage::MakeFile(const SharedMemoryInfo& /*info*/,
                              StoragePlace* /*place*/) {
  // Its contents have been in it from the start.
  return Allow();
}

Verdict RealStorage::Adopt(int file, StoragePlace* place) {
  return backing_->Adopt(file, place);
}

void RealStorage::Free(const StoragePlace& place, uint64_t granules) {
  backing_->Free(place, granules);
}

void RealStorage::Discard(const StoragePlace& place, uint64_t granules) {
  backing_->Discard(place, granules);
}

inline bool RealStorage::GiveAccess(Region* region, const AccessRun& run,
                                    DevicePtr address) {
  const int64_t added =
      run.mappings + region->guarded.GapsAdded(run.first, run.granules,
                                               /*accessible_after=*/true);
  if (added != 0 && !Budget().TryAdd(added)) return false;
  if (!backing_->MapAt(address, run.place, run.granules, run.after)) {
    Budget().Remove(added);
    return false;
  }
  region->kernel_mappings += added;
  return true;
}

Verdict RealStorage::SetAccess(const AccessRun& run) {
  if (run.after == run.before) return Allow();
  auto* const region = static_cast<Region*>(run.region);
  if (run.after == AccessFlags::kNone) {
    RemoveAccess(region, run.first, run.granules, run.mappings);
    return Allow();
  }
  const DevicePtr address =
      region->guarded.base() + run.first * granularity_bytes_;
  bool done;
  guard_->lock()->Lock();
  if (run.before == AccessFlags::kNone) {
    done = GiveAccess(region, run, address);
  } else {
    done = ProtectFile(address, run.granules * granularity_bytes_, run.after);
  }
  if (done) region->guarded.SetAccess(run.first, run.granules, run.after);
  guard_->lock()->Unlock();
  return done ? Allow()
              : Refuse(DriverResult::kOutOfMemory, kKernelMappingsRule);
}

void RealStorage::RemoveAccess(StorageRegion* any_region, uint64_t first,
                               uint64_t granules, int64_t mappings) {
  auto* const region = static_cast<Region*>(any_region);
  GuardedRegion& guarded = region->guarded;
  guard_->lock()->Lock();
  const int64_t added =
      guarded.GapsAdded(first, granules, /*accessible_after=*/false) - mappings;
  // The budget keeps the kernel's limit far away: if the kernel refuses all the
  // same, memory that should be gone stays reachable. Nothing can go on then.
  if (!MapInaccessible(guarded.base() + first * granularity_bytes_,
                       granules * granularity_bytes_)) {
    abort();
  }
  guarded.SetAccess(first, granules, AccessFlags::kNone);
  // Most often a gap takes the place of a mapping.
  if (added != 0) {
    region->kernel_mappings += added;
    Budget().Remove(-added);
  }
  guard_->lock()->Unlock();
}

void RealStorage::SplitMapping(StorageRegion* region) {
  ++static_cast<Region*>(region)->kernel_mappings;
  Budget().Remove(-1);
}

void RealStorage::GiveBack(Region* region) {
  guard_->Remove(&region->guarded);
  ReleaseAddresses(region->guarded.base(), region->guarded.bytes());
  Budget().Remove(region->kernel_mappings);
}

void RealStorage::DiscardRetiredIfIdle() {
  if (retired_regions_.empty() || !device_is_idle_()) return;
  for (const auto& region : retired_regions_) GiveBack(region.get());
  retired_regions_.clear();
}

}  // namespace firn::cpu
