// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the devices of one CPU driver share: memory, streams, and what happens
// when a piece of work runs. Private to vmm/cpu.

#ifndef FIRN_VMM_CPU_CPU_SYSTEM_H_
#define FIRN_VMM_CPU_CPU_SYSTEM_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/access_range.h"
#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/coherence_checker.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/device_allocations.h"
#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/fault_guard.h"
#include "firn/vmm/cpu/fork_watch.h"
#include "firn/vmm/cpu/sticky_error.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/cpu/stream_set.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

// Thread safety: all methods may be called from any thread.
class CpuSystem {
 public:
  // `options` are valid; `backing` is null for ghost storage.
  CpuSystem(CpuDriverOptions options, uint64_t device_granules,
            std::unique_ptr<Backing> backing);
  // Waits for all work. What still waits for a value after parked_timeout is
  // given up, with all that is queued behind it.
  ~CpuSystem();
  CpuSystem(const CpuSystem&) = delete;
  CpuSystem& operator=(const CpuSystem&) = delete;

  const CpuDriverOptions& options() const { return options_; }
  bool real() const { return options_.storage == CpuStorage::kReal; }
  DeviceMemory& memory() { return memory_; }
  DeviceAllocations& allocations() { return allocations_; }
  StreamSet& streams() { return streams_; }

  // What forbids every call of the calling thread to `device`: the process is a
  // forked child, a host function runs, the device is lost.
  Verdict CheckCallable(int device) {
    if (ABSL_PREDICT_FALSE(fork_watch_.in_child())) {
      return Refuse(DriverResult::kDeinitialized,
                    "a forked child must not use its parent's devices");
    }
    if (ABSL_PREDICT_FALSE(StreamSet::InHostFunction())) {
      return Refuse(DriverResult::kNotPermitted,
                    "a host function must not call the driver");
    }
    return CheckHealth(device);
  }
  // The sticky error alone.
  Verdict CheckHealth(int device) {
    if (ABSL_PREDICT_TRUE(!health_[static_cast<size_t>(device)].latched())) {
      return Allow();
    }
    return RefuseLost(device);
  }
  bool in_forked_child() const { return fork_watch_.in_child(); }

  // Whether the devices have virtual memory management.
  Verdict AdmitVirtualMemory() const {
    if (ABSL_PREDICT_TRUE(options_.virtual_memory)) return Allow();
    return Refuse(DriverResult::kNotSupported,
                  "the device must have virtual memory management");
  }
  // Likewise, and whether a capture forbids the calling thread to change
  // handles, mappings and access now.
  Verdict AdmitMemoryCall() {
    const Verdict supported = AdmitVirtualMemory();
    if (!supported.ok()) return supported;
    return options_.unsafe_vmm_in_capture ? streams_.AdmitUnsafeCall()
                                          : Allow();
  }
  // In the draining mode, waits for all work; a deadlock loses `device`, and
  // names `call`.
  Verdict DrainFor(int device, DriverCall call) {
    return drains_ ? Drain(device, call) : Allow();
  }
  // Keeps the books of memory that went back.
  void ForgetFreedMemory() {
    if (memory_.has_freed_memory()) ForgetFreed();
  }

  // Whether work that was found right would be over before its call returns:
  // there are no contents, and nothing to wait for.
  bool WorkTakesNoTime() {
    return !real() && !streams_.HasCapture() && streams_.IsIdle();
  }
  // Queues work that accesses `ranges` as the context's device. `tells_host`:
  // the host may see that it ran, and so what was complete before.
  Verdict Enqueue(const StreamContext& context, StreamHandle stream,
                  const char* name, std::vector<AccessRange> ranges,
                  std::function<void()> body, bool tells_host = false);
  // Queues work that waits until `satisfied()`, which reads `range`, is true.
  Verdict EnqueueWait(const StreamContext& context, StreamHandle stream,
                      const AccessRange& range, std::function<bool()> satisfied,
                      std::string waits_for);
  // Reports a call that broke a rule.
  void ReportMisuse(int device, const DriverCallArgs& args,
                    const Verdict& verdict);
  // Likewise, for a call that is not one of CUDA's.
  void ReportMisuse(int device, absl::string_view call, const Verdict& verdict);
  std::string last_report();
  // The first loss of the device: the error and why. Empty while there is none.
  std::string loss(int device);

 private:
  // A report that is put into words only when somebody wants to read it:
  // exhaustion is a refusal, too, and a frequent one.
  struct Misuse {
    int device;
    DriverCallArgs args;
    Verdict verdict;
  };

  StreamSetOptions MakeStreamOptions();
  Verdict RefuseLost(int device);
  Verdict Drain(int device, DriverCall call);
  void ForgetFreed();
  std::unique_ptr<Storage> MakeStorage(std::unique_ptr<Backing> backing);
  // Whether work is over without having run.
  bool Abandoned(int device) const {
    return health_[static_cast<size_t>(device)].latched() ||
           shutting_down_.load(std::memory_order_relaxed);
  }
  // On a worker.
  void Run(int device, const char* name, const std::vector<AccessRange>& ranges,
           const WorkOrder& order, const std::function<void()>& body);
  // Makes every later call to `device` return `error`; `why` is that of the
  // first loss.
  void Lose(int device, DriverResult error, absl::string_view why);
  // The fault guard met a bad access of `who`.
  void ReportFault(int device, absl::string_view who, DevicePtr address);
  // Keeps the first one.
  void NoteLoss(int device, absl::string_view loss)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(report_mutex_);
  void ReportLoss(int device, absl::string_view loss);
  // Makes it the last report, and passes it on.
  void Publish(std::string line);
  std::string Line(int device, absl::string_view text) const;
  std::string Line(const Misuse& misuse) const;

  const CpuDriverOptions options_;
  // Whether MemUnmap and MemSetAccess wait for work.
  const bool drains_;
  const ForkWatch fork_watch_;
  std::array<StickyError, kMaxCpuDevices> health_;
  std::atomic<bool> shutting_down_{false};

  Mutex report_mutex_;
  std::optional<Misuse> last_misuse_ ABSL_GUARDED_BY(report_mutex_);
  // Empty unless it was later than the last misuse.
  std::string last_line_ ABSL_GUARDED_BY(report_mutex_);
  std::array<std::string, kMaxCpuDevices> losses_
      ABSL_GUARDED_BY(report_mutex_);

  FaultGuard guard_;
  DeviceMemory memory_;
  DeviceAllocations allocations_{&memory_};
  CoherenceChecker coherence_;
  // Last, so that all work is done before what it works on goes.
  StreamSet streams_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_CPU_SYSTEM_H_
