// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/libcuda/process.h"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/cpu/libcuda/context_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/logging_driver.h"

namespace firn::libcuda {
namespace {

enum class Phase { kNew, kStarting, kRunning, kOver };

// Both live for ever: calls may come from the destructors of anything.
std::atomic<Phase> phase{Phase::kNew};
Process* instance = nullptr;  // written before kRunning

void EndProcess() { phase.store(Phase::kOver); }

// A child of a process that has not started anything is as good as new.
void EndForkedChild() {
  if (phase.load() != Phase::kNew) EndProcess();
}

__attribute__((constructor)) void WatchForks() {
  pthread_atfork(nullptr, nullptr, &EndForkedChild);
}

__attribute__((destructor)) void EndLibrary() { EndProcess(); }

void Complain(absl::string_view message) {
  std::fputs(absl::StrCat(kSpecVariable, ": ", message, "\n").c_str(), stderr);
}

DriverResult ResultOf(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted
             ? DriverResult::kOutOfMemory
             : DriverResult::kInvalidValue;
}

void GiveOrders(const CpuDriverSpec& spec, FaultingDriver* driver) {
  uint64_t seed = spec.failure_seed;
  for (const CpuDriverFailure& failure : spec.failures) {
    const uint64_t calls_before = failure.nth - 1;
    switch (failure.when) {
      case CpuDriverFailure::When::kNth:
        if (failure.any_call) {
          driver->FailNth(calls_before, failure.result);
        } else {
          driver->FailNthOf(failure.call, calls_before, failure.result);
        }
        break;
      case CpuDriverFailure::When::kFromNth:
        driver->FailFrom(calls_before, failure.result);
        break;
      case CpuDriverFailure::When::kProbability:
        // Each order draws for itself.
        if (failure.any_call) {
          driver->FailRandomly(failure.probability, seed, failure.result);
        } else {
          driver->FailRandomlyOf(failure.call, failure.probability, seed,
                                 failure.result);
        }
        ++seed;
        break;
    }
  }
}

}  // namespace

DriverResult Process::Start() {
  for (;;) {
    Phase before = Phase::kNew;
    if (phase.compare_exchange_strong(before, Phase::kStarting)) break;
    if (before == Phase::kRunning) return DriverResult::kSuccess;
    if (before == Phase::kOver) return DriverResult::kDeinitialized;
    std::this_thread::yield();  // another thread is at it
  }
  const DriverResult result = Make(&instance);
  Phase starting = Phase::kStarting;
  const Phase next =
      result == DriverResult::kSuccess ? Phase::kRunning : Phase::kNew;
  // The process may have begun to exit meanwhile.
  if (!phase.compare_exchange_strong(starting, next)) {
    return DriverResult::kDeinitialized;
  }
  return result;
}

DriverResult Process::Get(Process** process) {
  switch (phase.load(std::memory_order_acquire)) {
    case Phase::kRunning:
      *process = instance;
      return DriverResult::kSuccess;
    case Phase::kOver:
      return DriverResult::kDeinitialized;
    default:
      return DriverResult::kNotInitialized;
  }
}

DriverResult Process::Make(Process** process) {
  const char* const text = std::getenv(kSpecVariable);
  const absl::StatusOr<CpuDriverSpec> spec =
      ParseCpuDriverSpec(text != nullptr ? text : "");
  if (!spec.ok()) {
    Complain(spec.status().message());
    return DriverResult::kInvalidValue;
  }
  auto drivers = CpuDriver::CreateDevices(spec->options);
  if (!drivers.ok()) {
    Complain(drivers.status().message());
    return ResultOf(drivers.status());
  }
  std::FILE* log = nullptr;
  if (!spec->log_path.empty()) {
    log = std::fopen(spec->log_path.c_str(), "we");
    if (log == nullptr) {
      Complain(absl::StrCat("log=", spec->log_path,
                            ": expected the path of a file that can be "
                            "written"));
      return DriverResult::kInvalidValue;
    }
  }
  auto made = std::unique_ptr<Process>(new Process(*std::move(drivers)));
  made->AddDevices(*spec, log);
  // What exits before this handler finds everything as it was.
  if (std::atexit(&EndProcess) != 0) return DriverResult::kOutOfMemory;
  *process = made.release();
  return DriverResult::kSuccess;
}

void Process::AddDevices(const CpuDriverSpec& spec, std::FILE* log) {
  for (const std::unique_ptr<CpuDriver>& driver : drivers_) {
    Device device;
    device.ordinal = static_cast<int>(devices_.size());
    device.cpu = driver.get();
    auto contexts = std::make_unique<ContextDriver>(driver.get());
    device.front = contexts.get();
    wrappers_.push_back(std::move(contexts));
    if (spec.cost != CostProfile::kNone) {
      auto costs = std::make_unique<CountingDriver>(
          device.front, CostModel(spec.cost), spec.options.granularity_bytes);
      device.front = device.costs = costs.get();
      wrappers_.push_back(std::move(costs));
    }
    if (!spec.failures.empty()) {
      auto faults = std::make_unique<FaultingDriver>(device.front);
      GiveOrders(spec, faults.get());
      device.front = faults.get();
      wrappers_.push_back(std::move(faults));
    }
    if (log != nullptr) {
      const std::string prefix =
          drivers_.size() == 1 ? ""
                               : absl::StrCat("device ", device.ordinal, ": ");
      auto logging = std::make_unique<LoggingDriver>(
          device.front, /*kept_calls=*/1,
          [log, prefix](absl::string_view line) {
            // In one call, so that lines of several threads stay whole.
            std::fputs(absl::StrCat(prefix, line, "\n").c_str(), log);
            std::fflush(log);
          });
      device.front = logging.get();
      wrappers_.push_back(std::move(logging));
    }
    devices_.push_back(device);
  }
}

}  // namespace firn::libcuda
