// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver whose lock is real: the calls of all threads queue behind each other
// for as long as a cost profile says that each takes, by the clock on the wall.

#ifndef FIRN_BENCH_CORE_LOCKED_DRIVER_H_
#define FIRN_BENCH_CORE_LOCKED_DRIVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/cost_model.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"

namespace firn {

// One lock of the whole host, first come, first served (as DriverClock models
// it), is held during every call that manages memory, during copies, launches
// and event records: while the device makes the call, which includes the wait
// for work in flight where the device drains, and then for the time that the
// profile charges for it. All other calls pass. A copy's own time, which is the
// device's, passes on the thread that asked for it, without the lock. Waiting
// keeps a processor busy, as a sleep is coarser than most calls.
// Thread safety: as Driver.
class LockedDriver : public DriverWrapper {
 public:
  // Owns neither: the device, and what stands in front of it and charges with
  // `profile`. `is_draining`: Unmap and SetAccess of the device wait for work.
  // What is launched takes `work`.
  LockedDriver(CpuDriver* device, CountingDriver* counting, CostProfile profile,
               bool is_draining, absl::Duration work)
      : DriverWrapper(counting),
        device_(device),
        counting_(counting),
        launch_us_(CostModel(profile).Copy(0)),
        is_draining_(is_draining),
        work_(work) {}
  ~LockedDriver() override { (void)device_->CtxSynchronize(); }

  // Launches work on `stream`, and then an access to `range`: the device is
  // lost if that was unmapped meanwhile. The profile knows the launch of a copy
  // alone: it is charged.
  DriverResult Launch(StreamHandle stream, KernelRange range) {
    const Turn turn(this);
    in_flight_.fetch_add(1);
    DriverResult result = device_->LaunchHostFunc(stream, &Work, this);
    if (result == DriverResult::kSuccess) {
      result = device_->LaunchKernel(stream, {range}, [] {});
    }
    Pass(launch_us_);
    return result;
  }

  // All that calls have taken so far by the profile, of whichever thread, and,
  // where the device drains, the work they waited for; each call is added when
  // it ends. How much of it passes is how long somebody waits where nothing
  // else takes time: neither the host's scheduler nor the pool.
  double passed_us() const {
    return static_cast<double>(passed_ns_.load()) / 1e3;
  }

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()> call) override {
    if (!TakesLock(args.call)) return call();
    double device_us = 0;
    DriverResult result;
    {
      const Turn turn(this);
      const double driver_before_us = counting_->driver_us();
      const double copy_before_us = counting_->copy_us();
      if (is_draining_ && WaitsForWork(args.call)) {
        passed_ns_.fetch_add(in_flight_.load() *
                             absl::ToInt64Nanoseconds(work_));
      }
      result = call();
      double held_us = counting_->driver_us() - driver_before_us;
      const double copy_us = counting_->copy_us() - copy_before_us;
      if (copy_us > 0) {
        held_us += launch_us_;
        device_us = copy_us - launch_us_;
      }
      Pass(held_us);
    }
    Pass(device_us);
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // The lock, held: numbers are drawn, and called one after the other.
  class Turn {
   public:
    explicit Turn(LockedDriver* driver) : driver_(driver) {
      const uint64_t number = driver_->drawn_.fetch_add(1);
      while (driver_->called_.load() != number) std::this_thread::yield();
    }
    ~Turn() { driver_->called_.fetch_add(1); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    LockedDriver* const driver_;
  };

  static bool TakesLock(DriverCall call) {
    switch (call) {
      case DriverCall::kMemAddressReserve:
      case DriverCall::kMemAddressFree:
      case DriverCall::kMemCreate:
      case DriverCall::kMemRelease:
      case DriverCall::kMemMap:
      case DriverCall::kMemUnmap:
      case DriverCall::kMemSetAccess:
      case DriverCall::kMemAlloc:
      case DriverCall::kMemFree:
      case DriverCall::kMemcpyDtoDAsync:
      case DriverCall::kEventRecord:
        return true;
      default:
        return false;
    }
  }

  static bool WaitsForWork(DriverCall call) {
    return call == DriverCall::kMemUnmap || call == DriverCall::kMemSetAccess;
  }

  static void Work(void* driver) {
    auto* const self = static_cast<LockedDriver*>(driver);
    absl::SleepFor(self->work_);
    self->in_flight_.fetch_sub(1);
  }

  void Pass(double us) {
    const auto ns = static_cast<int64_t>(us * 1e3);
    const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(ns);
    while (Clock::now() < end) {
    }
    passed_ns_.fetch_add(ns);
  }

  CpuDriver* const device_;
  CountingDriver* const counting_;
  const double launch_us_;
  const bool is_draining_;
  const absl::Duration work_;
  std::atomic<int64_t> in_flight_{0};
  std::atomic<int64_t> passed_ns_{0};
  std::atomic<uint64_t> drawn_{0};
  std::atomic<uint64_t> called_{0};
};

}  // namespace firn

#endif  // FIRN_BENCH_CORE_LOCKED_DRIVER_H_
