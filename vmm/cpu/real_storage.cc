// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/real_storage.h"

#include <utility>

#include "absl/base/attributes.h"
#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "firn/vmm/cpu/spare_kernel_mappings.h"

namespace firn::cpu {
namespace {

constexpr const char* kNotesRule =
    "the host must have memory for notes on the granules";

KernelMappingBudget& Budget() { return KernelMappingBudget::OfProcess(); }

}  // namespace

RealStorage::RealStorage(uint64_t granularity_bytes,
                         std::unique_ptr<Backing> backing, FaultGuard* guard,
                         std::function<WorkInFlight()> work_in_flight)
    : granularity_bytes_(granularity_bytes),
      backing_(std::move(backing)),
      guard_(guard),
      work_in_flight_(std::move(work_in_flight)) {
  SpareKernelMappings::OfProcess().Refill();
}

RealStorage::~RealStorage() {
  for (const auto& [base, region] : regions_) GiveBack(region.get());
  for (const auto& region : retired_) GiveBack(region.get());
}

Verdict RealStorage::Reserve(uint64_t bytes, uint64_t alignment_bytes,
                             DevicePtr hint, DevicePtr* address,
                             StorageRegion** region) {
  SpareKernelMappings::OfProcess().Refill();
  if (!retired_.empty()) GiveBackRetired(work_in_flight_());
  const bool keeps_many = retired_.size() >= kKeptReservations;
  std::unique_ptr<Region> taken;
  if (keeps_many) taken = TakeRetired(bytes, alignment_bytes, hint);
  if (taken == nullptr) {
    const Verdict made = MakeRegion(bytes, alignment_bytes, hint, &taken);
    if (!made.ok()) taken = TakeRetired(bytes, alignment_bytes, hint);
    if (taken == nullptr) return made;
  }
  *address = taken->guarded.base();
  *region = taken.get();
  regions_.emplace(*address, std::move(taken));
  return Allow();
}

Verdict RealStorage::MakeRegion(uint64_t bytes, uint64_t alignment_bytes,
                                DevicePtr hint,
                                std::unique_ptr<Region>* region) {
  if (!Budget().TryAdd(1)) {
    return Refuse(DriverResult::kOutOfMemory, KernelMappingBudget::kRule);
  }
  DevicePtr address = 0;
  if (!ReserveAddresses(bytes, alignment_bytes, hint, &address)) {
    Budget().Remove(1);
    return Refuse(DriverResult::kOutOfMemory,
                  "the process must have so many addresses left");
  }
  auto made = std::make_unique<Region>(address, bytes, granularity_bytes_,
                                       backing_.get());
  if (!made->guarded.valid()) {
    ReleaseAddresses(address, bytes);
    Budget().Remove(1);
    return Refuse(DriverResult::kOutOfMemory, kNotesRule);
  }
  guard_->Add(&made->guarded);
  *region = std::move(made);
  return Allow();
}

std::unique_ptr<RealStorage::Region> RealStorage::TakeRetired(
    uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint) {
  auto best = retired_.end();
  for (auto it = retired_.begin(); it != retired_.end(); ++it) {
    const GuardedRegion& guarded = (*it)->guarded;
    if (guarded.bytes() < bytes || guarded.base() % alignment_bytes != 0) {
      continue;
    }
    if (guarded.base() == hint) {
      best = it;
      break;
    }
    if (best == retired_.end() || guarded.bytes() < (*best)->guarded.bytes()) {
      best = it;
    }
  }
  if (best == retired_.end()) return nullptr;
  std::unique_ptr<Region> taken = std::move(*best);
  retired_.erase(best);
  return taken;
}

void RealStorage::Unreserve(DevicePtr address, uint64_t /*bytes*/) {
  const auto it = regions_.find(address);
  const WorkInFlight work = work_in_flight_();
  it->second->retired_at = work.queued;
  retired_.push_back(std::move(it->second));
  regions_.erase(it);
  GiveBackRetired(work);
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
    CloseHole(address, run.granules * granularity_bytes_);
    Budget().Remove(added);
    return false;
  }
  if (added != 0) region->kernel_mappings += added;
  return true;
}

ABSL_ATTRIBUTE_NOINLINE bool RealStorage::ChangeAccess(Region* region,
                                                       const AccessRun& run,
                                                       DevicePtr address) {
  const uint64_t bytes = run.granules * granularity_bytes_;
  if (region->guarded.HasScratchIn(run.first, run.granules)) {
    // What a scratch page hides must be mapped anew. If that fails, it goes
    // when its work ends.
    const bool mapped =
        backing_->MapAt(address, run.place, run.granules, run.after);
    if (!mapped) CloseHole(address, bytes);
    return mapped;
  }
  if (ProtectFile(address, bytes, run.after)) return true;
  // Where the kernel did not join the mappings, a part may be done.
  WithSpareMappings([&] { return ProtectFile(address, bytes, run.before); });
  return false;
}

Verdict RealStorage::SetAccess(const AccessRun& run) {
  if (run.after == run.before) return Allow();
  auto* const region = static_cast<Region*>(run.region);
  GuardedRegion& guarded = region->guarded;
  if (run.after == AccessFlags::kNone) {
    return RemoveAccess(region, run.first, run.granules, run.mappings);
  }
  const bool read_only = run.after == AccessFlags::kRead;
  if (read_only && !guarded.AllowReadOnly()) {
    return Refuse(DriverResult::kOutOfMemory, kNotesRule);
  }
  const DevicePtr address = guarded.base() + run.first * granularity_bytes_;
  guard_->lock()->Lock();
  const bool done = run.before == AccessFlags::kNone
                        ? GiveAccess(region, run, address)
                        : ChangeAccess(region, run, address);
  if (done) {
    if (read_only) {
      guarded.SetReadOnly(run.first, run.granules, run.place);
    } else {
      guarded.SetAccess(run.first, run.granules, run.after);
    }
  }
  guard_->lock()->Unlock();
  return done ? Allow()
              : Refuse(DriverResult::kOutOfMemory, KernelMappingBudget::kRule);
}

Verdict RealStorage::RemoveAccess(StorageRegion* any_region, uint64_t first,
                                  uint64_t granules, int64_t mappings) {
  auto* const region = static_cast<Region*>(any_region);
  GuardedRegion& guarded = region->guarded;
  guard_->lock()->Lock();
  const int64_t added =
      guarded.GapsAdded(first, granules, /*accessible_after=*/false) - mappings;
  const DevicePtr address = guarded.base() + first * granularity_bytes_;
  const uint64_t bytes = granules * granularity_bytes_;
  // One call for all of it: the kernel does it whole or not at all.
  const bool done =
      WithSpareMappings([&] { return MapInaccessible(address, bytes); }) ||
      CloseHole(address, bytes);
  if (done) {
    guarded.SetAccess(first, granules, AccessFlags::kNone);
    // Most often a gap takes the place of a mapping.
    if (added != 0) {
      region->kernel_mappings += added;
      Budget().Remove(-added);
    }
  }
  guard_->lock()->Unlock();
  return done ? Allow()
              : Refuse(DriverResult::kOutOfMemory, KernelMappingBudget::kRule);
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

void RealStorage::GiveBackRetired(const WorkInFlight& work) {
  while (!retired_.empty() && retired_.front()->retired_at <= work.over) {
    GiveBack(retired_.front().get());
    retired_.pop_front();
  }
}

}  // namespace firn::cpu
