// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools on a CPU driver whose device cannot move memory.

#ifndef FIRN_TESTS_SUPPORT_FIXED_POOL_ON_CPU_H_
#define FIRN_TESTS_SUPPORT_FIXED_POOL_ON_CPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"

namespace firn::testing {

// Of the device.
inline uint64_t FreeBytes(Driver& driver) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_EQ(driver.MemGetInfo(&free_bytes, &total_bytes),
            DriverResult::kSuccess);
  return free_bytes;
}

inline CpuDriverOptions WithoutVirtualMemory(uint64_t device_bytes,
                                             CpuSync sync = CpuSync::kLazy) {
  CpuDriverOptions options;
  options.virtual_memory = false;
  options.device_bytes = device_bytes;
  options.sync = sync;
  return options;
}

// On a device of twice that.
inline absl::StatusOr<std::unique_ptr<PoolOnCpu>> MakeFixedPool(
    uint64_t capacity_bytes, CpuSync sync = CpuSync::kLazy) {
  PoolOptions options;
  options.capacity_bytes = capacity_bytes;
  options.move_on_failure = true;  // is taken for false
  return PoolOnCpu::Create(WithoutVirtualMemory(2 * capacity_bytes, sync),
                           options);
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_FIXED_POOL_ON_CPU_H_
