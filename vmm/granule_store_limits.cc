// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of GranuleStore that keeps to budgets which change or are shared.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/granule_store.h"

namespace firn {
namespace {

// The fewest granules that have `bytes`.
uint32_t GranulesFor(uint64_t bytes, uint64_t granule_bytes) {
  const uint64_t granules =
      bytes / granule_bytes + (bytes % granule_bytes > 0 ? 1 : 0);
  return static_cast<uint32_t>(
      std::min<uint64_t>(granules, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

absl::Status GranuleStore::SetBudget(uint32_t granules) {
  if (granules == 0 || granules > options_.budget_granules) {
    return absl::InvalidArgumentError(absl::StrCat(
        "budget_granules is ", granules, ": it must be from 1 to ",
        options_.budget_granules, ", the budget that the store was made with"));
  }
  bool ask = false;
  {
    MutexLock lock(&mutex_);
    budget_granules_.store(granules, std::memory_order_relaxed);
    device_ceiling_ = std::max(granules, device_.held);
    settled_.SignalAll();
    ask = NeedsMaintenance();
  }
  if (ask) AskForMaintenance();
  return absl::OkStatus();
}

uint32_t GranuleStore::free_budget_granules() const {
  const uint32_t budget = budget_granules();
  const uint32_t room = budget - std::min(budget, held_granules());
  if (room == 0 || options_.shared_budget == nullptr) return room;
  return static_cast<uint32_t>(std::min<uint64_t>(
      room, options_.shared_budget->room_bytes() / options_.granule_bytes));
}

void GranuleStore::Unhold(GranuleKind kind, uint32_t granules) {
  Account* const account = AccountOf(kind);
  account->held -= granules;
  if (account != &device_) return;
  device_ceiling_ =
      std::max(budget_granules(), std::min(device_ceiling_, device_.held));
  if (options_.shared_budget != nullptr) {
    options_.shared_budget->Give(this, granules * options_.granule_bytes);
  }
}

// --- Asked by other stores of the shared budget ---

void GranuleStore::SetReleaseIdle(
    std::function<uint32_t(uint32_t wanted_granules)> release_idle) {
  std::shared_ptr<const std::function<uint32_t(uint32_t)>> shared;
  if (release_idle != nullptr) {
    shared = std::make_shared<const std::function<uint32_t(uint32_t)>>(
        std::move(release_idle));
  }
  MutexLock lock(&mutex_);
  release_idle_.swap(shared);
  while (release_idle_calls_ > 0) settled_.Wait(&mutex_);
}

uint64_t GranuleStore::CachedBytes() {
  MutexLock lock(&mutex_);
  const uint64_t granules = uint64_t{retiring_.granules} +
                            CacheOf(GranuleKind::kMovable)->granules +
                            CacheOf(GranuleKind::kExportable)->granules;
  return granules * options_.granule_bytes;
}

bool GranuleStore::ReleaseCachedBytes(uint64_t bytes) {
  ReleaseGoal goal;
  goal.most_device_granules = GranulesFor(bytes, options_.granule_bytes);
  uint32_t released = 0;
  // What the driver refuses stays here, and the one who asks goes without.
  (void)ReleaseTowards(goal, &released);
  MutexLock lock(&mutex_);
  if (released >= goal.most_device_granules || device_.releasing == 0) {
    return released > 0;
  }
  // What other threads are releasing is about to be room as well. They wait for
  // nothing but the driver.
  const uint64_t released_before = released_total_;
  settled_.Wait(&mutex_);
  return released > 0 || released_total_ > released_before;
}

bool GranuleStore::AskOwnerForBytes(uint64_t bytes) {
  std::shared_ptr<const std::function<uint32_t(uint32_t)>> release_idle;
  {
    MutexLock lock(&mutex_);
    release_idle = release_idle_;
    if (release_idle == nullptr) return false;
    ++release_idle_calls_;
  }
  const uint32_t granules =
      (*release_idle)(GranulesFor(bytes, options_.granule_bytes));
  // Nothing of it is left when SetReleaseIdle returns.
  release_idle.reset();
  MutexLock lock(&mutex_);
  --release_idle_calls_;
  settled_.SignalAll();
  return granules > 0;
}

}  // namespace firn
