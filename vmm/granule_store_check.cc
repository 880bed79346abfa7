// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of GranuleStore that checks its invariants.

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/granule_store.h"

namespace firn {
namespace {

constexpr size_t kStates = 6;
constexpr size_t kKinds = 4;

// `ceiling`: the budget, or what was held when it was lowered below that.
absl::Status CheckBudget(absl::string_view memory, uint32_t held,
                         uint32_t budget, uint32_t ceiling) {
  if (held <= ceiling && budget <= ceiling) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("I9: ", held, " granules of ", memory,
                                          " memory held, budget ", budget,
                                          ", ceiling ", ceiling));
}

}  // namespace

absl::Status GranuleStore::CheckLists() const {
  absl::Status status = records_.CheckList(retiring_);
  for (const GranuleList& cache : caches_) {
    if (status.ok()) status = records_.CheckList(cache);
  }
  return status;
}

absl::Status GranuleStore::CheckRecord(GranuleId granule) const {
  const StoredGranule& record = records_[granule];
  const bool retires = record.sharing != GranuleSharing::kPrivate ||
                       record.kind == GranuleKind::kImported;
  if (record.state == GranuleState::kCached && retires) {
    return absl::InternalError(absl::StrCat("I13: granule ", granule.value(),
                                            " was shared and is cached"));
  }
  if (record.state == GranuleState::kRetiring && !retires) {
    return absl::InternalError(absl::StrCat("I13: granule ", granule.value(),
                                            " retires and was not shared"));
  }
  if (record.sharing != GranuleSharing::kPrivate &&
      record.kind != GranuleKind::kExportable) {
    return absl::InternalError(absl::StrCat("I13: granule ", granule.value(),
                                            " was shared and is of a kind "
                                            "that must not be"));
  }
  return absl::OkStatus();
}

absl::Status GranuleStore::CheckSums() const {
  std::array<uint32_t, kStates> by_state = {};
  std::array<uint32_t, kKinds> by_kind = {};
  std::array<uint32_t, kKinds> cached_by_kind = {};
  for (uint32_t i = 0; i < records_.id_limit(); ++i) {
    const StoredGranule& record = records_[GranuleId(i)];
    ++by_state[static_cast<size_t>(record.state)];
    if (record.state == GranuleState::kReleased) continue;
    ++by_kind[static_cast<size_t>(record.kind)];
    if (record.state == GranuleState::kCached) {
      ++cached_by_kind[static_cast<size_t>(record.kind)];
    }
  }
  const auto of_state = [&by_state](GranuleState state) {
    return by_state[static_cast<size_t>(state)];
  };
  const auto of_kind = [&by_kind](GranuleKind kind) {
    return by_kind[static_cast<size_t>(kind)];
  };
  bool right = of_state(GranuleState::kRetiring) == retiring_.granules &&
               of_state(GranuleState::kQuarantined) == quarantined_granules_ &&
               of_state(GranuleState::kReleasing) ==
                   device_.releasing + host_.releasing + imported_.releasing &&
               of_kind(GranuleKind::kMovable) +
                       of_kind(GranuleKind::kExportable) + device_.creating ==
                   device_.held &&
               of_kind(GranuleKind::kHost) + host_.creating == host_.held &&
               of_kind(GranuleKind::kImported) == imported_.held;
  uint32_t cached = 0;
  for (size_t kind = 0; kind < kCachedKinds; ++kind) {
    right = right && cached_by_kind[kind] == caches_[kind].granules;
    cached += caches_[kind].granules;
  }
  const uint32_t out = of_state(GranuleState::kOut);
  const uint64_t accounted = uint64_t{out} + cached + retiring_.granules +
                             of_state(GranuleState::kReleasing) +
                             quarantined_granules_ + released_total_;
  if (right && accounted == created_total_ + imported_total_ &&
      held_granules() == device_.held &&
      cached_granules() == caches_[0].granules) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "I11: created ", created_total_, ", imported ", imported_total_, ", out ",
      out, ", cached ", cached, ", retiring ", retiring_.granules,
      ", releasing ", of_state(GranuleState::kReleasing), ", quarantined ",
      quarantined_granules_, ", released ", released_total_, ", held ",
      device_.held, " + ", host_.held, " + ", imported_.held));
}

absl::Status GranuleStore::CheckSharedBudget() const {
  if (options_.shared_budget == nullptr) return absl::OkStatus();
  const uint64_t taken = options_.shared_budget->held_bytes_of(this);
  const uint64_t held = device_.held * options_.granule_bytes;
  if (taken != held) {
    return absl::InternalError(
        absl::StrCat("I9: ", held, " bytes of device memory held, but ", taken,
                     " taken from the shared budget"));
  }
  return options_.shared_budget->CheckInvariants();
}

absl::Status GranuleStore::CheckInvariants() const {
  MutexLock lock(&mutex_);
  absl::Status status =
      CheckBudget("device", device_.held, budget_granules(), device_ceiling_);
  if (status.ok()) {
    status = CheckBudget("host", host_.held, options_.host_budget_granules,
                         options_.host_budget_granules);
  }
  if (status.ok()) status = CheckSharedBudget();
  for (uint32_t i = 0; i < records_.id_limit() && status.ok(); ++i) {
    status = CheckRecord(GranuleId(i));
  }
  if (status.ok()) status = CheckLists();
  if (status.ok()) status = CheckSums();
  return status;
}

}  // namespace firn
