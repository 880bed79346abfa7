// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Settings of a CPU driver as one line of text, such as
// "storage=ghost,devices=2,device_bytes=4GiB,fail=cuMemMap:3:OUT_OF_MEMORY":
// what the environment variable of the libcuda-shaped library holds.

#ifndef FIRN_VMM_CPU_CPU_DRIVER_SPEC_H_
#define FIRN_VMM_CPU_CPU_DRIVER_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cost_model.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// An order to fail calls.
struct CpuDriverFailure {
  enum class When {
    kNth,          // the one call
    kFromNth,      // that call and all after it; any_call only
    kProbability,  // each call, independently
  };

  bool any_call = true;
  DriverCall call = DriverCall::kMemCreate;  // unless any_call
  When when = When::kNth;
  uint64_t nth = 1;  // from 1
  double probability = 0;
  DriverResult result = DriverResult::kOutOfMemory;
};

struct CpuDriverSpec {
  CpuDriverOptions options;
  CostProfile cost = CostProfile::kNone;
  std::vector<CpuDriverFailure> failures;
  uint64_t failure_seed = 1;
  std::string log_path;  // of the call log; empty: none
};

// KEY=VALUE, separated by commas; `fail` may be given more than once, of other
// keys the last one counts. InvalidArgument names the key, its value and what
// would be right. docs/cpu_driver.md lists the keys. The values are checked
// against each other only by CpuDriver::CreateDevices.
absl::StatusOr<CpuDriverSpec> ParseCpuDriverSpec(absl::string_view text);

}  // namespace firn

#endif  // FIRN_VMM_CPU_CPU_DRIVER_SPEC_H_
