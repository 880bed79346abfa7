// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools with exportable memory, on small granules.

#ifndef FIRN_TESTS_SUPPORT_EXPORTING_POOL_H_
#define FIRN_TESTS_SUPPORT_EXPORTING_POOL_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "tests/support/pool_on_cpu.h"

namespace firn::testing {

inline constexpr uint64_t kExportGranuleBytes = 64 * kKiB;
inline constexpr uint64_t kExportCapacityGranules = 32;

// `options` with that capacity, unless they have one of their own.
inline absl::StatusOr<std::unique_ptr<PoolOnCpu>> MakeExportingPool(
    PoolOptions options, CpuSync sync) {
  CpuDriverOptions driver_options;
  driver_options.sync = sync;
  driver_options.granularity_bytes = kExportGranuleBytes;
  if (options.capacity_bytes == 0) {
    options.capacity_bytes = kExportCapacityGranules * kExportGranuleBytes;
  }
  // What is released may live on with importers.
  driver_options.device_bytes = 16 * options.capacity_bytes;
  return PoolOnCpu::Create(std::move(driver_options), std::move(options));
}

inline AllocateOptions Exportable() {
  AllocateOptions options;
  options.memory_class = MemoryClass::kExportable;
  return options;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_EXPORTING_POOL_H_
