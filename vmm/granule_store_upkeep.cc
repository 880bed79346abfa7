// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of GranuleStore that has the driver create and release.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/granule_store.h"

namespace firn {
namespace {

// Handles that a refill creates, or a release gives back, before others can see
// what has come of it.
constexpr uint32_t kBatchGranules = 32;
// How often an acquisition has other stores give back what is idle. Once will
// do, unless others are faster to take what has become free.
constexpr uint32_t kMostReclaims = 4;

}  // namespace

// --- Creation ---

uint32_t GranuleStore::Reserve(GranuleKind kind, uint32_t count,
                               uint32_t* lacking) {
  Account* const account = AccountOf(kind);
  const bool of_device = account == &device_;
  const uint32_t budget =
      of_device ? budget_granules() : options_.host_budget_granules;
  const uint32_t room = budget - std::min(budget, account->held);
  const uint32_t wanted = std::min(count, room);
  uint32_t reserved = wanted;
  if (of_device && options_.shared_budget != nullptr) {
    reserved = static_cast<uint32_t>(
        options_.shared_budget->Take(this, options_.granule_bytes, wanted));
  }
  *lacking = wanted - reserved;
  account->held += reserved;
  account->creating += reserved;
  PublishFigures();
  return reserved;
}

DriverResult GranuleStore::CreateHandles(GranuleKind kind, uint32_t count,
                                         std::vector<PhysicalHandle>* handles) {
  handles->reserve(count);
  while (handles->size() < count) {
    PhysicalHandle handle = 0;
    const DriverResult result =
        driver_->MemCreate(&handle, options_.granule_bytes, &PropOf(kind), 0);
    if (result != DriverResult::kSuccess) return result;
    handles->push_back(handle);
  }
  return DriverResult::kSuccess;
}

void GranuleStore::EndReservation(GranuleKind kind, uint32_t reserved,
                                  size_t created) {
  AccountOf(kind)->creating -= reserved;
  Unhold(kind, reserved - static_cast<uint32_t>(created));
  created_total_ += created;
  PublishFigures();
}

uint32_t GranuleStore::TakeCached(uint32_t count, GranuleKind kind,
                                  Acquisition* acquisition) {
  std::vector<GranuleId>& granules = acquisition->granules;
  uint32_t taken = 0;
  for (; taken < count; ++taken) {
    const GranuleId granule = TakeNewest(kind);
    if (granule.is_none()) break;
    granules.push_back(granule);
  }
  // What was created for the acquisition stays last.
  if (taken > 0 && acquisition->created > 0) {
    std::rotate(granules.end() - taken - acquisition->created,
                granules.end() - taken, granules.end());
  }
  PublishFigures();
  return taken;
}

bool GranuleStore::MoreMayCome(GranuleKind kind) {
  return AccountOf(kind)->releasing > 0 ||
         (kind == GranuleKind::kMovable && refilling_granules_ > 0);
}

uint32_t GranuleStore::TakeOrReserve(GranuleKind kind, bool may_create,
                                     uint32_t* missing, uint32_t* lacking,
                                     Acquisition* acquisition) {
  MutexLock lock(&mutex_);
  while (true) {
    *lacking = 0;
    *missing -= TakeCached(*missing, kind, acquisition);
    if (*missing == 0) return 0;
    const uint32_t reserved = may_create ? Reserve(kind, *missing, lacking) : 0;
    if (reserved > 0 || !MoreMayCome(kind)) return reserved;
    settled_.Wait(&mutex_);
    may_create = true;
  }
}

absl::Status GranuleStore::AcquireAtMost(uint32_t count,
                                         Acquisition* acquisition,
                                         GranuleKind kind) {
  if (kind == GranuleKind::kImported ||
      PropOf(kind).type == AllocationType::kInvalid) {
    return absl::UnimplementedError(
        "the store creates no granules of this kind");
  }
  absl::Status status;
  bool may_create = true;
  uint32_t reclaims_left = kMostReclaims;
  std::optional<SharedBudget::Shortage> shortage;
  while (count > 0 && status.ok()) {
    uint32_t lacking = 0;
    const uint32_t reserved =
        TakeOrReserve(kind, may_create, &count, &lacking, acquisition);
    if (reserved == 0) {
      if (lacking == 0) break;
      SharedBudget* const shared = options_.shared_budget.get();
      if (!shortage.has_value()) shortage.emplace(shared);
      if (reclaims_left == 0 ||
          !shared->Reclaim(this, lacking * options_.granule_bytes)) {
        shared->NoteShortfall();
        break;
      }
      --reclaims_left;
      continue;
    }
    std::vector<PhysicalHandle> handles;
    const DriverResult result = CreateHandles(kind, reserved, &handles);
    {
      MutexLock lock(&mutex_);
      EndReservation(kind, reserved, handles.size());
      for (const PhysicalHandle handle : handles) {
        const GranuleId granule = records_.Add(handle, kind);
        MarkOut(&records_[granule]);
        acquisition->granules.push_back(granule);
      }
    }
    acquisition->created += static_cast<uint32_t>(handles.size());
    count -= static_cast<uint32_t>(handles.size());
    if (result == DriverResult::kOutOfMemory) {
      may_create = false;
    } else if (result != DriverResult::kSuccess) {
      status = ToStatus(result, "cuMemCreate",
                        absl::StrCat(options_.granule_bytes, " bytes"));
    }
  }
  bool ask = false;
  {
    MutexLock lock(&mutex_);
    ask = NeedsMaintenance();
  }
  if (ask) AskForMaintenance();
  return status;
}

DriverResult GranuleStore::Refill(uint32_t* created) {
  constexpr GranuleKind kKind = GranuleKind::kMovable;
  DriverResult result = DriverResult::kSuccess;
  while (result == DriverResult::kSuccess) {
    // Nobody else is to lose a cache for this one, nor what he is waiting for.
    if (options_.shared_budget != nullptr &&
        options_.shared_budget->has_shortage()) {
      break;
    }
    uint32_t reserved = 0;
    {
      MutexLock lock(&mutex_);
      const uint32_t had = CacheOf(kKind)->granules + refilling_granules_;
      if (had >= options_.low_water_granules) break;
      uint32_t lacking = 0;
      reserved = Reserve(
          kKind, std::min(options_.low_water_granules - had, kBatchGranules),
          &lacking);
      refilling_granules_ += reserved;
    }
    if (reserved == 0) break;
    std::vector<PhysicalHandle> handles;
    result = CreateHandles(kKind, reserved, &handles);
    *created += static_cast<uint32_t>(handles.size());
    MutexLock lock(&mutex_);
    refilling_granules_ -= reserved;
    for (const PhysicalHandle handle : handles) {
      TakeBack(records_.Add(handle, kKind), absl::InfiniteFuture());
    }
    EndReservation(kKind, reserved, handles.size());
    settled_.SignalAll();
  }
  return result;
}

// --- Release ---

void GranuleStore::StartRelease(GranuleId granule, GranuleState if_refused,
                                std::vector<Leaving>* leaving) {
  LeaveList(granule);
  StoredGranule& record = records_[granule];
  record.state = GranuleState::kReleasing;
  record.if_refused = if_refused;
  ++AccountOf(record.kind)->releasing;
  Leaving one;
  one.granule = granule;
  one.handle = record.handle;
  leaving->push_back(one);
}

void GranuleStore::FinishRelease(const std::vector<Leaving>& leaving) {
  // In reverse, so that what stays is in its former order again.
  for (size_t i = leaving.size(); i-- > 0;) {
    const GranuleId granule = leaving[i].granule;
    StoredGranule& record = records_[granule];
    --AccountOf(record.kind)->releasing;
    if (leaving[i].released) {
      Unhold(record.kind, 1);
      ++released_total_;
      if (record.sharing != GranuleSharing::kPrivate) {
        ++possibly_held_elsewhere_total_;
      }
      records_.Remove(granule);
    } else if (record.if_refused == GranuleState::kRetiring) {
      Retire(granule);
    } else {
      record.state = record.if_refused;
      if (record.state == GranuleState::kQuarantined) {
        ++quarantined_granules_;
      } else {
        records_.LinkBack(CacheOf(record.kind), granule, record.cached_since);
      }
    }
  }
  PublishFigures();
  settled_.SignalAll();
}

void GranuleStore::GiveBack(const Acquisition& acquisition) {
  const size_t from_cache = acquisition.granules.size() - acquisition.created;
  std::vector<Leaving> leaving;
  {
    MutexLock lock(&mutex_);
    // In reverse, so that the cache is as it was.
    for (size_t i = acquisition.granules.size(); i-- > 0;) {
      const GranuleId granule = acquisition.granules[i];
      if (!records_.contains(granule)) continue;
      StoredGranule& record = records_[granule];
      if (record.state != GranuleState::kOut) continue;
      if (record.sharing == GranuleSharing::kAssumed) {
        record.sharing = GranuleSharing::kPrivate;
      }
      if (i < from_cache) {
        TakeBack(granule, record.cached_since);
      } else {
        StartRelease(granule,
                     record.sharing == GranuleSharing::kPrivate
                         ? GranuleState::kCached
                         : GranuleState::kRetiring,
                     &leaving);
      }
    }
    PublishFigures();
  }
  for (Leaving& one : leaving) {
    one.released = driver_->MemRelease(one.handle) == DriverResult::kSuccess;
  }
  bool ask = false;
  {
    MutexLock lock(&mutex_);
    FinishRelease(leaving);
    ask = NeedsMaintenance();
  }
  if (ask) AskForMaintenance();
}

GranuleId GranuleStore::NextToRelease(const ReleaseGoal& goal) {
  if (goal.is_host) {
    const GranuleList& host = *CacheOf(GranuleKind::kHost);
    return host.granules > 0 ? host.back : GranuleId();
  }
  if (retiring_.granules > 0) return retiring_.front;
  const auto cached_since = [](const StoredGranules& records,
                               const GranuleList& cache) {
    return records[cache.back].cached_since;
  };
  const bool beyond =
      goal.by_marks ? HasCachedBeyondBudget()
                    : device_.held - device_.releasing > goal.keep_granules;
  if (beyond) {
    const GranuleList& movable = *CacheOf(GranuleKind::kMovable);
    const GranuleList& exportable = *CacheOf(GranuleKind::kExportable);
    if (exportable.granules == 0) return movable.back;
    if (movable.granules == 0) return exportable.back;
    return cached_since(records_, movable) < cached_since(records_, exportable)
               ? movable.back
               : exportable.back;
  }
  if (!goal.by_marks) return GranuleId();
  for (size_t kind = 0; kind < kCachedKinds; ++kind) {
    const GranuleList& cache = caches_[kind];
    const bool movable = kind == static_cast<size_t>(GranuleKind::kMovable);
    const uint32_t least = movable ? options_.low_water_granules : 0;
    if (cache.granules > options_.high_water_granules) return cache.back;
    if (cache.granules > least &&
        goal.now - cached_since(records_, cache) > options_.max_idle) {
      return cache.back;
    }
  }
  return GranuleId();
}

DriverResult GranuleStore::ReleaseTowards(const ReleaseGoal& goal,
                                          uint32_t* released) {
  DriverResult result = DriverResult::kSuccess;
  uint32_t device_granules_left = goal.most_device_granules;
  while (result == DriverResult::kSuccess) {
    std::vector<Leaving> leaving;
    {
      MutexLock lock(&mutex_);
      while (leaving.size() < kBatchGranules && device_granules_left > 0) {
        const GranuleId granule = NextToRelease(goal);
        if (granule.is_none()) break;
        if (AccountOf(records_[granule].kind) == &device_) {
          --device_granules_left;
        }
        StartRelease(granule, records_[granule].state, &leaving);
      }
      PublishFigures();
    }
    if (leaving.empty()) break;
    for (Leaving& one : leaving) {
      result = driver_->MemRelease(one.handle);
      if (result != DriverResult::kSuccess) break;
      one.released = true;
      ++*released;
    }
    MutexLock lock(&mutex_);
    FinishRelease(leaving);
  }
  return result;
}

absl::StatusOr<uint32_t> GranuleStore::ReleaseCached(uint32_t keep_granules) {
  ReleaseGoal goal;
  goal.keep_granules = keep_granules;
  return ReleaseAllOf(goal);
}

absl::StatusOr<uint32_t> GranuleStore::ReleaseCachedHost() {
  ReleaseGoal goal;
  goal.is_host = true;
  return ReleaseAllOf(goal);
}

absl::StatusOr<uint32_t> GranuleStore::ReleaseAllOf(const ReleaseGoal& goal) {
  uint32_t released = 0;
  const DriverResult result = ReleaseTowards(goal, &released);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemRelease",
                    absl::StrCat("after ", released, " granules"));
  }
  return released;
}

absl::StatusOr<MaintenanceReport> GranuleStore::Maintain(absl::Time now) {
  {
    MutexLock lock(&mutex_);
    maintenance_asked_ = false;
    if (options_.max_idle != absl::InfiniteDuration()) {
      for (const GranuleList& cache : caches_) {
        records_.SetUnknownTimes(cache, now);
      }
    }
  }
  ReleaseGoal goal;
  goal.by_marks = true;
  goal.now = now;
  MaintenanceReport report;
  const DriverResult release_result =
      ReleaseTowards(goal, &report.released_granules);
  // What could not be released is no reason to be short of granules.
  const DriverResult refill_result = Refill(&report.created_granules);
  if (release_result != DriverResult::kSuccess ||
      refill_result != DriverResult::kSuccess) {
    // It would be refused again if every Get and Put asked for it.
    MutexLock lock(&mutex_);
    maintenance_asked_ = true;
  }
  if (release_result != DriverResult::kSuccess) {
    return ToStatus(
        release_result, "cuMemRelease",
        absl::StrCat("after ", report.released_granules, " granules"));
  }
  if (refill_result != DriverResult::kSuccess &&
      refill_result != DriverResult::kOutOfMemory) {
    return ToStatus(refill_result, "cuMemCreate",
                    absl::StrCat(options_.granule_bytes, " bytes"));
  }
  return report;
}

}  // namespace firn
