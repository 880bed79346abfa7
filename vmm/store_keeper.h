// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The thread that keeps a granule store between its marks, so that creating and
// releasing handles, the slowest calls there are, happen on nobody's path.

#ifndef FIRN_VMM_STORE_KEEPER_H_
#define FIRN_VMM_STORE_KEEPER_H_

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mutex.h"

namespace firn {

struct StoreKeeperOptions {
  // How often ages are looked at; refills begin at once.
  absl::Duration period = absl::Seconds(1);
};

// Calls Maintain() when the store wants it, and once every period. Its thread
// is in the relaxed capture mode. After a failure it waits for a period before
// it tries again, and keeps the first one.
// Thread safety: all methods may be called from any thread.
class StoreKeeper {
 public:
  // Owns neither argument; both must outlive it. Begins with a round. A store
  // has one keeper at a time. InvalidArgument unless the period is positive;
  // ResourceExhausted if the system starts no more threads.
  static absl::StatusOr<std::unique_ptr<StoreKeeper>> Start(
      Driver* driver, GranuleStore* store, StoreKeeperOptions options);
  // Ends the thread, after the call it is in.
  ~StoreKeeper();
  StoreKeeper(const StoreKeeper&) = delete;
  StoreKeeper& operator=(const StoreKeeper&) = delete;

  // Asks for maintenance now; returns at once.
  void Wake();
  // The first failure; OkStatus if there was none.
  absl::Status first_failure() const;
  uint64_t rounds() const;  // calls of Maintain so far

 private:
  // What the thread and those who wake it share. The store's callback holds on
  // to it, as a last call may come when the keeper is gone.
  struct Shared {
    mutable Mutex mutex;
    CondVar changed;
    bool woken ABSL_GUARDED_BY(mutex) = false;
    bool ending ABSL_GUARDED_BY(mutex) = false;
    uint64_t rounds ABSL_GUARDED_BY(mutex) = 0;
    absl::Status first_failure ABSL_GUARDED_BY(mutex);

    void Wake();
    void NoteFailure(const absl::Status& status)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  };

  StoreKeeper(Driver* driver, GranuleStore* store, StoreKeeperOptions options);

  void Run();
  // Returns when a period has passed, or, if `until_woken`, sooner; false if
  // the thread is to end.
  bool Wait(bool until_woken);

  Driver* const driver_;
  GranuleStore* const store_;
  const StoreKeeperOptions options_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace firn

#endif  // FIRN_VMM_STORE_KEEPER_H_
