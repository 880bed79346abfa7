// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compaction that runs itself: looks at a pool at a rhythm, and makes passes
// when memory is both fragmented and wanted.
//
//   absl::StatusOr<std::unique_ptr<firn::Controller>> controller =
//       firn::Controller::Start(pool.get(), {});

#ifndef FIRN_CORE_CONTROLLER_H_
#define FIRN_CORE_CONTROLLER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "firn/compaction/pass_policy.h"
#include "firn/core/pool.h"
#include "firn/core/pool_options.h"
#include "firn/core/pool_stats.h"
#include "firn/vmm/mutex.h"

namespace firn {

struct ControllerOptions {
  PassPolicyOptions policy;
  // Of its passes: kLaunchScopes, or kDeclaredIdle. Nobody could promise
  // anything for a thread of its own, so kCallerPromises is for Step alone.
  CompactionLevel level = CompactionLevel::kLaunchScopes;
  // As in CompactOptions. 0 or more; more than 0.
  absl::Duration max_wait = absl::Milliseconds(100);
  absl::Duration max_pause = absl::Milliseconds(2);
  // Whether what passes recover goes back to the driver (Pool::Trim), for
  // others. Set it along with policy.is_wanted_by_others.
  bool trims = false;

  // Stands in every line of the log, as "firn[NAME] controller: "; escaped
  // where it is no plain text.
  std::string pool_name;
  // Gets a line, without a newline, for each decision and its figures, and for
  // what came of it; of a reason to leave memory alone only the first of the
  // same. Called with no lock of the pool held; it must not call the
  // controller. Empty: nothing is written.
  std::function<void(absl::string_view line)> log;
  // Time that never goes back, for Create alone. Empty: the system's steady
  // clock.
  std::function<absl::Time()> now;

  // InvalidArgument names the field.
  absl::Status Validate() const;
};

struct ControllerStats {
  uint64_t looks = 0;
  std::array<uint64_t, kPassTriggers> passes = {};  // by PassTrigger
  // Of those: that ended in an error, and that recovered nothing.
  uint64_t failed_passes = 0;
  uint64_t fruitless_passes = 0;
  uint64_t granules_recovered = 0;
  absl::Duration pass_time;
  int back_off_shift = 0;  // how often the wait has been doubled by now
};

// Thread safety: all methods may be called from any thread; passes and looks
// come one after the other.
class Controller {
 public:
  // One that looks when Step is called. Does not own `pool`, which must outlive
  // it. InvalidArgument: an option, by its name, or no pool.
  static absl::StatusOr<std::unique_ptr<Controller>> Create(
      Pool* pool, ControllerOptions options);
  // One with a thread of its own. Likewise; InvalidArgument also for
  // kCallerPromises and a clock; ResourceExhausted: the system starts no more
  // threads.
  static absl::StatusOr<std::unique_ptr<Controller>> Start(
      Pool* pool, ControllerOptions options);
  // Waits for a pass that goes on, and makes no other.
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Looks, and makes a pass if it is worth it. Returns when to look again:
  // InfiniteFuture where nothing of this pool ever moves. Not to be called
  // inside a LaunchScope or a move hook.
  absl::Time Step() ABSL_LOCKS_EXCLUDED(step_mutex_);

  // A pass without limits but max_wait and max_pause, whatever was decided
  // before. Errors as of Pool::Compact.
  absl::StatusOr<CompactionReport> CompactNow()
      ABSL_LOCKS_EXCLUDED(step_mutex_);

  // Has the thread look at once: somebody waits for memory.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  ControllerStats stats() const ABSL_LOCKS_EXCLUDED(step_mutex_);

 private:
  Controller(Pool* pool, ControllerOptions options);

  void Run();
  // Until then, or Wake; false if the thread is to end.
  bool WaitUntil(absl::Time time) ABSL_LOCKS_EXCLUDED(mutex_);
  HeapFigures Figures() const;
  absl::StatusOr<CompactionReport> MakePass(const PassDecision& decision)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(step_mutex_);
  void Log(absl::string_view text) const;

  Pool* const pool_;
  const ControllerOptions options_;
  const std::string line_prefix_;
  // Empty where the pool can move memory; why not, otherwise.
  const std::string unmovable_reason_;

  // Held during a pass; before all locks of the pool.
  mutable Mutex step_mutex_;
  PassPolicy policy_ ABSL_GUARDED_BY(step_mutex_);
  ControllerStats stats_ ABSL_GUARDED_BY(step_mutex_);

  // Held for moments only.
  Mutex mutex_;
  CondVar changed_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace firn

#endif  // FIRN_CORE_CONTROLLER_H_
