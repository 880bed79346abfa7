// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/store_keeper.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// Time that never goes back, of which only differences mean anything.
absl::Time SteadyNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

void StoreKeeper::Shared::Wake() {
  MutexLock lock(&mutex);
  woken = true;
  changed.Signal();
}

void StoreKeeper::Shared::NoteFailure(const absl::Status& status) {
  first_failure.Update(status);
}

StoreKeeper::StoreKeeper(Driver* driver, GranuleStore* store,
                         StoreKeeperOptions options)
    : driver_(driver),
      store_(store),
      options_(options),
      shared_(std::make_shared<Shared>()) {}

absl::StatusOr<std::unique_ptr<StoreKeeper>> StoreKeeper::Start(
    Driver* driver, GranuleStore* store, StoreKeeperOptions options) {
  if (options.period <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a keeper's period must be positive, not ",
                     absl::FormatDuration(options.period)));
  }
  std::unique_ptr<StoreKeeper> keeper(new StoreKeeper(driver, store, options));
  try {
    // The thread is joined before the keeper goes, so a plain pointer will do.
    keeper->thread_ = std::thread(&StoreKeeper::Run, keeper.get());
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread: ", error.what()));
  }
  store->SetMaintenanceWanted([shared = keeper->shared_] { shared->Wake(); });
  return keeper;
}

StoreKeeper::~StoreKeeper() {
  if (!thread_.joinable()) return;  // it was never started
  store_->SetMaintenanceWanted(nullptr);
  {
    MutexLock lock(&shared_->mutex);
    shared_->ending = true;
    shared_->changed.Signal();
  }
  thread_.join();
}

void StoreKeeper::Wake() { shared_->Wake(); }

absl::Status StoreKeeper::first_failure() const {
  MutexLock lock(&shared_->mutex);
  return shared_->first_failure;
}

uint64_t StoreKeeper::rounds() const {
  MutexLock lock(&shared_->mutex);
  return shared_->rounds;
}

bool StoreKeeper::Wait(bool until_woken) {
  const absl::Time end = SteadyNow() + options_.period;
  MutexLock lock(&shared_->mutex);
  while (!shared_->ending && !(until_woken && shared_->woken)) {
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) break;
    shared_->changed.WaitWithTimeout(&shared_->mutex, left);
  }
  shared_->woken = false;
  return !shared_->ending;
}

void StoreKeeper::Run() {
  // A capture that somebody has begun elsewhere must neither fail the calls of
  // this thread nor be broken by them.
  const ScopedRelaxedCapture relaxed(driver_);
  {
    MutexLock lock(&shared_->mutex);
    shared_->NoteFailure(relaxed.status());
  }
  bool failed = false;
  do {
    const absl::Status status = store_->Maintain(SteadyNow()).status();
    failed = !status.ok();
    MutexLock lock(&shared_->mutex);
    ++shared_->rounds;
    shared_->NoteFailure(status);
  } while (Wait(/*until_woken=*/!failed));
}

}  // namespace firn
