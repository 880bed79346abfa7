// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/granule_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// With marks that make sense together.
GranuleStoreOptions Settled(GranuleStoreOptions options) {
  if (options.movable.type == AllocationType::kInvalid) {
    options.low_water_granules = 0;
  }
  options.high_water_granules =
      std::max(options.high_water_granules, options.low_water_granules);
  return options;
}

}  // namespace

GranuleStore::GranuleStore(Driver* driver, GranuleStoreOptions options)
    : driver_(driver),
      options_(Settled(std::move(options))),
      device_ceiling_(options_.budget_granules),
      budget_granules_(options_.budget_granules) {
  if (options_.shared_budget != nullptr) options_.shared_budget->Join(this);
}

GranuleStore::~GranuleStore() {
  if (options_.shared_budget != nullptr) {
    options_.shared_budget->StopAsking(this);
  }
  for (uint32_t i = 0; i < records_.id_limit(); ++i) {
    const GranuleId granule(i);
    if (records_.contains(granule)) {
      driver_->MemRelease(records_[granule].handle);
    }
  }
  if (options_.shared_budget != nullptr) options_.shared_budget->Leave(this);
}

const AllocationProp& GranuleStore::PropOf(GranuleKind kind) const {
  if (kind == GranuleKind::kHost) return options_.host;
  return kind == GranuleKind::kExportable ? options_.exportable
                                          : options_.movable;
}

GranuleStore::Account* GranuleStore::AccountOf(GranuleKind kind) {
  if (kind == GranuleKind::kImported) return &imported_;
  return kind == GranuleKind::kHost ? &host_ : &device_;
}

void GranuleStore::PublishFigures() {
  held_granules_.store(device_.held, std::memory_order_relaxed);
  cached_granules_.store(CacheOf(GranuleKind::kMovable)->granules,
                         std::memory_order_relaxed);
}

// --- The fast path ---

GranuleId GranuleStore::TakeNewest(GranuleKind kind) {
  GranuleList* const cache = CacheOf(kind);
  const GranuleId granule = cache->front;
  if (granule.is_none()) return granule;
  records_.Unlink(cache, granule);
  MarkOut(&records_[granule]);
  return granule;
}

void GranuleStore::MarkOut(StoredGranule* record) {
  record->state = GranuleState::kOut;
  if (record->kind == GranuleKind::kExportable &&
      options_.exportable.alloc_flags.gpu_direct_rdma_capable != 0) {
    record->sharing = GranuleSharing::kAssumed;
  }
}

void GranuleStore::TakeBack(GranuleId granule, absl::Time cached_since) {
  StoredGranule& record = records_[granule];
  if (record.sharing != GranuleSharing::kPrivate ||
      record.kind == GranuleKind::kImported) {
    Retire(granule);
    return;
  }
  record.state = GranuleState::kCached;
  records_.LinkFront(CacheOf(record.kind), granule, cached_since);
}

void GranuleStore::Retire(GranuleId granule) {
  records_[granule].state = GranuleState::kRetiring;
  records_.LinkBack(&retiring_, granule, absl::InfiniteFuture());
}

void GranuleStore::LeaveList(GranuleId granule) {
  const StoredGranule& record = records_[granule];
  if (record.state == GranuleState::kCached) {
    records_.Unlink(CacheOf(record.kind), granule);
  } else if (record.state == GranuleState::kRetiring) {
    records_.Unlink(&retiring_, granule);
  }
}

GranuleId GranuleStore::Get() {
  GranuleId granule;
  bool ask = false;
  {
    MutexLock lock(&mutex_);
    granule = TakeNewest(GranuleKind::kMovable);
    PublishFigures();
    ask = NeedsMaintenance();
  }
  if (ask) AskForMaintenance();
  return granule;
}

void GranuleStore::Put(GranuleId granule) {
  bool ask = false;
  {
    MutexLock lock(&mutex_);
    if (!records_.contains(granule) ||
        records_[granule].state != GranuleState::kOut) {
      return;
    }
    TakeBack(granule, absl::InfiniteFuture());
    PublishFigures();
    ask = NeedsMaintenance();
  }
  if (ask) AskForMaintenance();
}

bool GranuleStore::HasCachedBeyondBudget() {
  return device_.held - device_.releasing > budget_granules() &&
         CacheOf(GranuleKind::kMovable)->granules +
                 CacheOf(GranuleKind::kExportable)->granules >
             0;
}

bool GranuleStore::NeedsMaintenance() {
  if (maintenance_asked_ || maintenance_wanted_ == nullptr) return false;
  bool needed =
      retiring_.granules > 0 || HasCachedBeyondBudget() ||
      (CacheOf(GranuleKind::kMovable)->granules + refilling_granules_ <
           options_.low_water_granules &&
       free_budget_granules() > 0);
  for (const GranuleList& cache : caches_) {
    needed = needed || cache.granules > options_.high_water_granules;
  }
  maintenance_asked_ = needed;
  return needed;
}

void GranuleStore::AskForMaintenance() {
  std::shared_ptr<const std::function<void()>> wanted;
  {
    MutexLock lock(&mutex_);
    wanted = maintenance_wanted_;
  }
  if (wanted != nullptr) (*wanted)();
}

void GranuleStore::SetMaintenanceWanted(std::function<void()> wanted) {
  std::shared_ptr<const std::function<void()>> shared;
  if (wanted != nullptr) {
    shared = std::make_shared<const std::function<void()>>(std::move(wanted));
  }
  MutexLock lock(&mutex_);
  maintenance_wanted_ = std::move(shared);
  maintenance_asked_ = false;
}

// --- Sharing ---

void GranuleStore::SetShared(GranuleId granule) {
  StoredGranule& record = records_[granule];
  record.sharing = GranuleSharing::kKnown;
  if (record.state == GranuleState::kCached) {
    // Told late, but it must not be given out again.
    LeaveList(granule);
    Retire(granule);
    PublishFigures();
  } else if (record.state == GranuleState::kReleasing &&
             record.if_refused == GranuleState::kCached) {
    record.if_refused = GranuleState::kRetiring;
  }
}

absl::Status GranuleStore::CheckExportable(GranuleId granule) const {
  if (records_.contains(granule) &&
      records_[granule].kind == GranuleKind::kExportable) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "granule ", granule.value(),
      " was not created to be exported: nobody else may hold on to it"));
}

absl::Status GranuleStore::Export(GranuleId granule, ShareableHandleType type,
                                  void* shareable) {
  PhysicalHandle handle = 0;
  {
    MutexLock lock(&mutex_);
    if (absl::Status status = CheckExportable(granule); !status.ok()) {
      return status;
    }
    if (records_[granule].state != GranuleState::kOut) {
      return absl::FailedPreconditionError(
          absl::StrCat("granule ", granule.value(), " is not given out"));
    }
    handle = records_[granule].handle;
  }
  const DriverResult result =
      driver_->MemExportToShareableHandle(shareable, handle, type, 0);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemExportToShareableHandle");
  }
  MutexLock lock(&mutex_);
  SetShared(granule);
  return absl::OkStatus();
}

absl::Status GranuleStore::MarkShared(GranuleId granule) {
  MutexLock lock(&mutex_);
  if (absl::Status status = CheckExportable(granule); !status.ok()) {
    return status;
  }
  SetShared(granule);
  return absl::OkStatus();
}

absl::StatusOr<GranuleId> GranuleStore::Import(void* shareable,
                                               ShareableHandleType type) {
  PhysicalHandle handle = 0;
  const DriverResult result =
      driver_->MemImportFromShareableHandle(&handle, shareable, type);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemImportFromShareableHandle");
  }
  MutexLock lock(&mutex_);
  const GranuleId granule = records_.Add(handle, GranuleKind::kImported);
  ++imported_.held;
  ++imported_total_;
  return granule;
}

void GranuleStore::Quarantine(GranuleId granule) {
  MutexLock lock(&mutex_);
  if (!records_.contains(granule)) return;
  StoredGranule& record = records_[granule];
  if (record.state == GranuleState::kQuarantined) return;
  if (record.state == GranuleState::kReleasing) {
    record.if_refused = GranuleState::kQuarantined;
    return;
  }
  LeaveList(granule);
  record.state = GranuleState::kQuarantined;
  ++quarantined_granules_;
  PublishFigures();
}

// --- Figures ---

void GranuleStore::SetContentsOf(GranuleId granule, uint32_t whose) {
  MutexLock lock(&mutex_);
  records_[granule].contents_of = whose;
}

uint32_t GranuleStore::contents_of(GranuleId granule) const {
  MutexLock lock(&mutex_);
  return records_[granule].contents_of;
}

PhysicalHandle GranuleStore::handle(GranuleId granule) const {
  MutexLock lock(&mutex_);
  return records_[granule].handle;
}

GranuleKind GranuleStore::kind(GranuleId granule) const {
  MutexLock lock(&mutex_);
  return records_[granule].kind;
}

uint32_t GranuleStore::held_host_granules() const {
  MutexLock lock(&mutex_);
  return host_.held;
}

uint32_t GranuleStore::cached_granules(GranuleKind kind) const {
  if (kind == GranuleKind::kMovable) return cached_granules();
  MutexLock lock(&mutex_);
  return caches_[static_cast<size_t>(kind)].granules;
}

uint32_t GranuleStore::quarantined_granules() const {
  MutexLock lock(&mutex_);
  return quarantined_granules_;
}

uint32_t GranuleStore::retiring_granules() const {
  MutexLock lock(&mutex_);
  return retiring_.granules;
}

uint64_t GranuleStore::possibly_held_elsewhere_total() const {
  MutexLock lock(&mutex_);
  return possibly_held_elsewhere_total_;
}

uint64_t GranuleStore::created_total() const {
  MutexLock lock(&mutex_);
  return created_total_;
}

uint64_t GranuleStore::imported_total() const {
  MutexLock lock(&mutex_);
  return imported_total_;
}

uint64_t GranuleStore::released_total() const {
  MutexLock lock(&mutex_);
  return released_total_;
}

uint32_t GranuleStore::id_limit() const {
  MutexLock lock(&mutex_);
  return records_.id_limit();
}

bool GranuleStore::is_cached(GranuleId granule) const {
  MutexLock lock(&mutex_);
  return records_[granule].state == GranuleState::kCached;
}

bool GranuleStore::is_quarantined(GranuleId granule) const {
  MutexLock lock(&mutex_);
  return records_[granule].state == GranuleState::kQuarantined;
}

bool GranuleStore::is_held(GranuleId granule) const {
  MutexLock lock(&mutex_);
  return records_.contains(granule);
}

bool GranuleStore::is_shared(GranuleId granule) const {
  MutexLock lock(&mutex_);
  return records_[granule].sharing != GranuleSharing::kPrivate ||
         records_[granule].kind == GranuleKind::kImported;
}

}  // namespace firn
