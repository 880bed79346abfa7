// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/real_storage.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"

namespace firn::cpu {
namespace {

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
  for (const auto& [base, region] : regions_) Discard(region.get());
  for (const auto& region : retired_regions_) Discard(region.get());
}

DriverResult RealStorage::Reserve(uint64_t bytes, uint64_t alignment_bytes,
                                  DevicePtr hint, DevicePtr* address) {
  DiscardRetiredIfIdle();
  if (!Budget().TryAdd(1)) return DriverResult::kOutOfMemory;
  if (!ReserveAddresses(bytes, alignment_bytes, hint, address)) {
    Budget().Remove(1);
    return DriverResult::kOutOfMemory;
  }
  auto region = std::make_unique<Region>(*address, bytes, granularity_bytes_);
  guard_->Add(&region->guarded);
  regions_.emplace(*address, std::move(region));
  return DriverResult::kSuccess;
}

void RealStorage::Unreserve(DevicePtr address, uint64_t /*bytes*/) {
  const auto it = regions_.find(address);
  retired_regions_.push_back(std::move(it->second));
  regions_.erase(it);
  DiscardRetiredIfIdle();
}

DriverResult RealStorage::Allocate(uint64_t granules, uint64_t* first_granule) {
  return backing_->Allocate(granules, first_granule)
             ? DriverResult::kSuccess
             : DriverResult::kOutOfMemory;
}

void RealStorage::Free(uint64_t first_granule, uint64_t granules) {
  backing_->Free(first_granule, granules);
}

DriverResult RealStorage::SetAccess(const AccessRun& run, AccessFlags access) {
  if (access == run.access) return DriverResult::kSuccess;
  if (access == AccessFlags::kNone) {
    RemoveAccess(run.address, run.granules, run.mappings);
    return DriverResult::kSuccess;
  }
  Region* const region = FindRegion(run.address);
  GuardedRegion& guarded = region->guarded;
  const uint64_t first = guarded.GranuleOf(run.address);
  const uint64_t bytes = run.granules * granularity_bytes_;
  if (run.access != AccessFlags::kNone) {
    guard_->lock()->Lock();
    const bool done = ProtectFile(run.address, bytes, access);
    if (done) guarded.SetAccess(first, run.granules, access);
    guard_->lock()->Unlock();
    return done ? DriverResult::kSuccess : DriverResult::kOutOfMemory;
  }
  guard_->lock()->Lock();
  const int64_t added =
      static_cast<int64_t>(run.mappings) +
      guarded.GapsAdded(first, run.granules, /*accessible_after=*/true);
  bool done = Budget().TryAdd(added);
  if (done) {
    done =
        backing_->MapAt(run.address, run.first_granule, run.granules, access);
    if (done) {
      guarded.SetAccess(first, run.granules, access);
      region->kernel_mappings += added;
    } else {
      Budget().Remove(added);
    }
  }
  guard_->lock()->Unlock();
  return done ? DriverResult::kSuccess : DriverResult::kOutOfMemory;
}

void RealStorage::RemoveAccess(DevicePtr address, uint64_t granules,
                               uint64_t mappings) {
  Region* const region = FindRegion(address);
  GuardedRegion& guarded = region->guarded;
  const uint64_t first = guarded.GranuleOf(address);
  guard_->lock()->Lock();
  const int64_t added =
      guarded.GapsAdded(first, granules, /*accessible_after=*/false) -
      static_cast<int64_t>(mappings);
  // The budget keeps the kernel's limit far away: if the kernel refuses all the
  // same, memory that should be gone stays reachable. Nothing can go on then.
  if (!MapInaccessible(address, granules * granularity_bytes_)) abort();
  guarded.SetAccess(first, granules, AccessFlags::kNone);
  region->kernel_mappings += added;
  Budget().Remove(-added);
  guard_->lock()->Unlock();
}

RealStorage::Region* RealStorage::FindRegion(DevicePtr address) {
  return std::prev(regions_.upper_bound(address))->second.get();
}

void RealStorage::Discard(Region* region) {
  guard_->Remove(&region->guarded);
  ReleaseAddresses(region->guarded.base(), region->guarded.bytes());
  Budget().Remove(region->kernel_mappings);
}

void RealStorage::DiscardRetiredIfIdle() {
  if (retired_regions_.empty() || !device_is_idle_()) return;
  for (const auto& region : retired_regions_) Discard(region.get());
  retired_regions_.clear();
}

}  // namespace firn::cpu
