// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The reclaim callbacks of a pool: the last rung of its ladder.

#ifndef FIRN_CORE_RECLAIMERS_H_
#define FIRN_CORE_RECLAIMERS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "firn/core/callback_list.h"
#include "firn/core/ladder.h"
#include "firn/core/reclaim_callback.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Thread safety: all methods may be called from any thread, Rescue outside of
// callbacks.
class Reclaimers : public CallbackList<ReclaimCallback> {
 public:
  using Allocate = absl::FunctionRef<absl::StatusOr<void*>()>;
  using LiveBytes = absl::FunctionRef<uint64_t()>;

  // An allocation has failed for lack of memory: tries `allocate` again, first
  // as it is, then after each callback that has freed something, until it does
  // not fail for that reason or there is nobody left to ask; the last failure
  // says how often they were asked, and what that freed.
  absl::StatusOr<void*> Rescue(ReclaimRequest request, Allocate allocate,
                               LiveBytes live_bytes)
      ABSL_LOCKS_EXCLUDED(turn_mutex_);

  RungStats stats() const ABSL_LOCKS_EXCLUDED(stats_mutex_);

 private:
  // What one allocation has come to.
  struct Asked {
    uint64_t calls = 0;
    uint64_t changed = 0;
    uint64_t freed_bytes = 0;
  };
  // Asks the callback once. Whether it says that it has freed anything.
  bool Ask(uint64_t id, const ReclaimRequest& request, LiveBytes live_bytes,
           Asked* asked);
  void Count(const Asked& asked, bool is_rescued)
      ABSL_LOCKS_EXCLUDED(stats_mutex_);

  // One thread calls at a time.
  Mutex turn_mutex_;
  mutable Mutex stats_mutex_;
  RungStats stats_ ABSL_GUARDED_BY(stats_mutex_);
};

}  // namespace firn

#endif  // FIRN_CORE_RECLAIMERS_H_
