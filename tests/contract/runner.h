// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs checks on one driver, in this process or, for those that would spoil
// it, in processes of their own.

#ifndef FIRN_TESTS_CONTRACT_RUNNER_H_
#define FIRN_TESTS_CONTRACT_RUNNER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "tests/contract/check.h"
#include "tests/contract/suite_devices.h"

namespace firn::contract {

// How a program with checks ends.
inline constexpr int kExitPassed = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitSkipped = 77;  // as test drivers have it

enum class Outcome { kPassed, kFailed, kSkipped };

struct RunnerOptions {
  Way way = Way::kCpuLazy;
  CpuDefect defect = CpuDefect::kNone;
  // Arguments with which this program runs a check of its own process, but for
  // --check=NAME.
  std::vector<std::string> child_arguments;
};

class Runner {
 public:
  explicit Runner(RunnerOptions options) : options_(std::move(options)) {}

  // Unavailable says why there is no such driver here. Call it first.
  absl::Status Open();
  // Runs one check in this process and prints what failed.
  Outcome RunHere(const Check& check);
  // Runs one check in a process of its own, which prints what failed.
  Outcome RunInChild(const Check& check);
  // Keeps the devices of the last check, one with kOwnProcess, until the
  // process is gone.
  void KeepDevices();

 private:
  // Why `check` cannot be run this way, or "".
  std::string WhyNot(const Check& check) const;
  void RunOn(const Check& check, CheckResult* result);

  const RunnerOptions options_;
  std::unique_ptr<DeviceSet> devices_;
};

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_RUNNER_H_
