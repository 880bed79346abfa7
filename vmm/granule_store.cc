// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/granule_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn {

AllocationProp MovableProp(int device_ordinal) {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location.type = LocationType::kDevice;
  prop.location.id = device_ordinal;
  return prop;
}

GranuleStore::GranuleStore(Driver* driver, AllocationProp prop,
                           uint64_t granule_bytes, uint32_t budget_granules)
    : driver_(driver),
      prop_(prop),
      granule_bytes_(granule_bytes),
      budget_granules_(budget_granules) {}

GranuleStore::~GranuleStore() {
  for (size_t i = 0; i < handles_.size(); ++i) {
    if (state_[i] != State::kReleased) driver_->MemRelease(handles_[i]);
  }
}

DriverResult GranuleStore::CreateOne(GranuleId* granule) {
  PhysicalHandle handle = 0;
  const DriverResult result =
      driver_->MemCreate(&handle, granule_bytes_, &prop_, 0);
  if (result != DriverResult::kSuccess) return result;
  if (unused_ids_.empty()) {
    *granule = GranuleId(handles_.size());
    handles_.push_back(handle);
    state_.push_back(State::kOut);
  } else {
    *granule = unused_ids_.back();
    unused_ids_.pop_back();
    handles_[granule->value()] = handle;
    state_[granule->value()] = State::kOut;
  }
  ++held_granules_;
  ++created_total_;
  return result;
}

DriverResult GranuleStore::ReleaseOne(GranuleId granule) {
  const DriverResult result = driver_->MemRelease(handles_[granule.value()]);
  if (result != DriverResult::kSuccess) return result;
  handles_[granule.value()] = 0;
  state_[granule.value()] = State::kReleased;
  unused_ids_.push_back(granule);
  --held_granules_;
  ++released_total_;
  return result;
}

absl::Status GranuleStore::AcquireAtMost(uint32_t count,
                                         Acquisition* acquisition) {
  // Created granules stay behind the cached ones, so that GiveBack can tell
  // them apart: an acquisition that has created takes nothing from the cache.
  while (count > 0 && acquisition->created == 0 && !cache_.empty()) {
    const GranuleId granule = cache_.back();
    cache_.pop_back();
    state_[granule.value()] = State::kOut;
    acquisition->granules.push_back(granule);
    --count;
  }
  while (count > 0 && held_granules_ < budget_granules_) {
    GranuleId granule;
    const DriverResult result = CreateOne(&granule);
    if (result == DriverResult::kOutOfMemory) return absl::OkStatus();
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuMemCreate",
                      absl::StrCat(granule_bytes_, " bytes"));
    }
    acquisition->granules.push_back(granule);
    ++acquisition->created;
    --count;
  }
  return absl::OkStatus();
}

void GranuleStore::GiveBack(const Acquisition& acquisition) {
  const size_t from_cache = acquisition.granules.size() - acquisition.created;
  // In reverse, so that the cache is as it was.
  for (size_t i = acquisition.granules.size(); i-- > 0;) {
    const GranuleId granule = acquisition.granules[i];
    if (state_[granule.value()] == State::kQuarantined) continue;
    if (i >= from_cache && ReleaseOne(granule) == DriverResult::kSuccess) {
      continue;
    }
    Cache(granule);
  }
}

void GranuleStore::Quarantine(GranuleId granule) {
  State& state = state_[granule.value()];
  if (state == State::kReleased || state == State::kQuarantined) return;
  if (state == State::kCached) {
    cache_.erase(std::find(cache_.begin(), cache_.end(), granule));
  }
  state = State::kQuarantined;
  ++quarantined_granules_;
}

void GranuleStore::Cache(GranuleId granule) {
  if (state_[granule.value()] == State::kQuarantined) return;
  state_[granule.value()] = State::kCached;
  cache_.push_back(granule);
}

absl::StatusOr<uint32_t> GranuleStore::ReleaseCached(uint32_t keep_granules) {
  uint32_t released = 0;
  while (!cache_.empty() && held_granules_ > keep_granules) {
    const DriverResult result = ReleaseOne(cache_.back());
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuMemRelease",
                      absl::StrCat("after ", released, " granules"));
    }
    cache_.pop_back();
    ++released;
  }
  return released;
}

absl::Status GranuleStore::CheckInvariants() const {
  uint32_t out = 0;
  uint32_t cached = 0;
  uint32_t quarantined = 0;
  for (const State state : state_) {
    if (state == State::kOut) ++out;
    if (state == State::kQuarantined) ++quarantined;
    if (state == State::kCached) ++cached;
  }
  if (held_granules_ > budget_granules_) {
    return absl::InternalError(absl::StrCat(
        "I9: ", held_granules_, " granules held, budget ", budget_granules_));
  }
  if (cached != cache_.size() || quarantined != quarantined_granules_ ||
      out + cached + quarantined != held_granules_ ||
      created_total_ != held_granules_ + released_total_) {
    return absl::InternalError(
        absl::StrCat("I11: created ", created_total_, ", out ", out,
                     ", cached ", cache_.size(), ", held ", held_granules_,
                     ", released ", released_total_));
  }
  return absl::OkStatus();
}

}  // namespace firn
