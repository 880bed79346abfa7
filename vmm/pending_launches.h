// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What was launched in scopes and is not known to be done: tokens on the
// streams that scopes named, and a note of what went to unknown ones.

#ifndef FIRN_VMM_PENDING_LAUNCHES_H_
#define FIRN_VMM_PENDING_LAUNCHES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "firn/vmm/device_wait.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

// Work on streams of the primary contexts of the tracker's devices may be noted
// without its stream: the devices are waited for as a whole then. Work of other
// contexts needs a token. Where it cannot have one, as while its stream is
// capturing, there is an obstacle: the stream's id and a reason.
//
// Thread safety: Add and the figures may be called from any thread; the others
// by one thread at a time, while nobody calls Add. The locks of a slot are
// taken before the tracker's.
class PendingLaunches {
 public:
  // Threads add to a slot of their own as far as there are enough.
  static constexpr size_t kSlots = 64;

  PendingLaunches(std::vector<Driver*> devices, StreamTracker* tracker);
  PendingLaunches(const PendingLaunches&) = delete;
  PendingLaunches& operator=(const PendingLaunches&) = delete;

  // A scope is about to end, which named these streams; none: any of the
  // primary contexts. Without `with_tokens` only streams of other contexts get
  // tokens.
  void Add(size_t slot, absl::Span<const StreamHandle> streams,
           bool with_tokens);

  // Waits until all that was added is done, and forgets what is, whatever the
  // outcome. FailedPrecondition: there is an obstacle; DeadlineExceeded: says
  // what is in flight; or what a wait for a device returned.
  absl::Status WaitForAll(absl::Time deadline);

  // Waits for all devices as a whole, whatever was added. `report`, or stderr
  // if that is empty, gets a line for each that is still busy after `grace`.
  absl::Status WaitForUnscoped(
      absl::Time deadline, absl::Duration grace,
      const std::function<void(absl::string_view line)>& report);

  // All devices were waited for. What is on streams of other contexts stays.
  void Forget();

  uint64_t tokens_written() const;
  uint64_t device_waits() const {
    return device_waits_.load(std::memory_order_relaxed);
  }
  uint64_t unscoped_reports() const {
    return unscoped_reports_.load(std::memory_order_relaxed);
  }

 private:
  // Beyond so many streams in a slot, those that are done are dropped.
  static constexpr size_t kFirstPruneTokens = 64;

  // What threads of one slot have added since it was last collected. Aligned so
  // that no two slots share a pair of cache lines.
  struct alignas(128) Slot {
    // Set by Note alone and cleared by Collect and Forget alone, so that on the
    // usual path it is only read.
    std::atomic<bool> on_unknown_streams{false};
    std::atomic<bool> has_tokens{false};
    mutable Mutex mutex;
    // The latest of each stream. Keeps its capacity when cleared.
    std::vector<StreamToken> tokens ABSL_GUARDED_BY(mutex);
    size_t prune_at ABSL_GUARDED_BY(mutex) = kFirstPruneTokens;
    uint64_t tokens_written ABSL_GUARDED_BY(mutex) = 0;
  };
  // Why a stream's work can be neither tracked nor waited for.
  struct Obstacle {
    bool is_capturing = false;
    bool is_foreign = false;
    std::string reason;
    uint64_t age = 0;  // of all that were set, which one
  };

  static void Note(Slot* slot);
  bool IsOfPrimaryContext(StreamHandle stream) const;
  void AddToken(Slot* slot, StreamHandle stream);
  void AddWithoutToken(Slot* slot, StreamHandle stream,
                       const absl::Status& refusal);
  void Keep(Slot* slot, const StreamToken& token);
  void PruneTokens(Slot* slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(slot->mutex);
  bool IsIdle(StreamHandle stream);
  void SetObstacle(uint64_t stream_id, Obstacle obstacle)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Unless it is younger than that.
  void ClearObstacle(uint64_t stream_id, uint64_t age)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps of WaitForAll.
  void Collect();
  absl::Status CheckObstacles() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RequestDeviceWaits();
  absl::Status WaitForTokens(absl::Time deadline);
  absl::Status WaitForDevices(absl::Time deadline);
  // Waits for devices that have not begun never do: what they were to cover is
  // left to the next drain.
  void WithdrawDeviceWaits();

  const std::vector<Driver*> devices_;
  StreamTracker* const tracker_;
  const std::unique_ptr<Slot[]> slots_;
  std::vector<std::unique_ptr<DeviceWait>> waits_;  // by device

  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, Obstacle> obstacles_ ABSL_GUARDED_BY(mutex_);
  // Their number, so that those who add need no lock while there are none.
  std::atomic<size_t> obstacle_count_{0};
  std::atomic<uint64_t> last_age_{0};

  // What has been collected and is not known to be done; not for Add.
  bool on_unknown_streams_ = false;  // and not covered by `requests_`
  std::vector<StreamToken> tokens_;
  // By device: the wait that covers what was collected; none if over.
  std::vector<absl::optional<uint64_t>> requests_;

  std::atomic<uint64_t> device_waits_{0};
  std::atomic<uint64_t> unscoped_reports_{0};
};

}  // namespace firn

#endif  // FIRN_VMM_PENDING_LAUNCHES_H_
