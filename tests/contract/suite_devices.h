// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices that the contract suite opens on each way.

#ifndef FIRN_TESTS_CONTRACT_SUITE_DEVICES_H_
#define FIRN_TESTS_CONTRACT_SUITE_DEVICES_H_

#include <cstdint>

#include "firn/vmm/cpu/cpu_defect.h"
#include "tests/support/way.h"

namespace firn::contract {

using testing::DeviceSet;
using testing::Way;

// Limits of the CPU driver: low enough to be reached.
inline constexpr uint64_t kMaxHandles = 400;
inline constexpr uint64_t kMaxMappings = 200;

inline testing::DeviceSetOptions SuiteDevices(CpuDefect defect) {
  testing::DeviceSetOptions options;
  options.max_handles = kMaxHandles;
  options.max_mappings = kMaxMappings;
  options.defect = defect;
  return options;
}

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_SUITE_DEVICES_H_
