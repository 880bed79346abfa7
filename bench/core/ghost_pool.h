// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool on a ghost device for benchmarks: no contents and no driver time, only
// the pool's own work.

#ifndef FIRN_BENCH_CORE_GHOST_POOL_H_
#define FIRN_BENCH_CORE_GHOST_POOL_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"
#include "firn/core/pool_options.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;

// `driver`, unless null, receives the pool's driver; `options` are the pool's
// but for driver and capacity.
inline absl::StatusOr<std::unique_ptr<Pool>> MakeGhostPool(
    uint64_t capacity_bytes, std::shared_ptr<Driver>* driver = nullptr,
    PoolOptions options = {}) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  driver_options.device_bytes = capacity_bytes + 2 * kMiB;
  absl::StatusOr<std::unique_ptr<CpuDriver>> cpu =
      CpuDriver::Create(std::move(driver_options));
  if (!cpu.ok()) return cpu.status();
  options.driver = *std::move(cpu);
  options.capacity_bytes = capacity_bytes;
  if (driver != nullptr) *driver = options.driver;
  return Pool::Create(std::move(options));
}

inline void SkipWith(benchmark::State* state, const absl::Status& status) {
  state->SkipWithError(status.ToString().c_str());
}

// Allocates `bytes` and frees them again; false if either failed.
inline bool AllocateAndFree(Pool* pool, uint64_t bytes) {
  const absl::StatusOr<void*> block = pool->Allocate(bytes);
  return block.ok() && pool->Free(*block).ok();
}

}  // namespace firn

#endif  // FIRN_BENCH_CORE_GHOST_POOL_H_
