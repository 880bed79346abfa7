// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool on a CPU driver of its own, with a driver in between that fails calls
// on demand and one that counts them.

#ifndef FIRN_TESTS_SUPPORT_POOL_ON_CPU_H_
#define FIRN_TESTS_SUPPORT_POOL_ON_CPU_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "firn/core/pool.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gtest/gtest.h"

namespace firn::testing {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// The name of a test that runs under both extremes.
inline std::string SyncName(const ::testing::TestParamInfo<CpuSync>& info) {
  return info.param == CpuSync::kLazy ? "Lazy" : "Draining";
}

class PoolOnCpu {
 public:
  // A device of `device_bytes` and a pool of `options` on it, whose driver is
  // overwritten.
  static absl::StatusOr<std::unique_ptr<PoolOnCpu>> Create(
      CpuDriverOptions driver_options, PoolOptions options) {
    absl::StatusOr<std::unique_ptr<CpuDriver>> cpu =
        CpuDriver::Create(std::move(driver_options));
    if (!cpu.ok()) return cpu.status();
    auto result = std::unique_ptr<PoolOnCpu>(new PoolOnCpu(std::move(*cpu)));
    options.driver =
        std::shared_ptr<Driver>(&result->counting_, [](Driver*) {});
    absl::StatusOr<std::unique_ptr<Pool>> pool =
        Pool::Create(std::move(options));
    if (!pool.ok()) return pool.status();
    result->pool_ = std::move(*pool);
    return result;
  }

  // Real storage, a pool of `capacity_bytes` on a device that has twice that.
  static absl::StatusOr<std::unique_ptr<PoolOnCpu>> Real(
      uint64_t capacity_bytes, bool move_on_failure = false,
      CpuSync sync = CpuSync::kLazy) {
    CpuDriverOptions driver_options;
    driver_options.sync = sync;
    driver_options.device_bytes = 2 * capacity_bytes;
    PoolOptions options;
    options.capacity_bytes = capacity_bytes;
    options.move_on_failure = move_on_failure;
    return Create(driver_options, options);
  }

  // Bookkeeping only.
  static absl::StatusOr<std::unique_ptr<PoolOnCpu>> Ghost(
      uint64_t capacity_bytes, bool move_on_failure = false) {
    CpuDriverOptions driver_options;
    driver_options.storage = CpuStorage::kGhost;
    driver_options.device_bytes = 2 * capacity_bytes;
    PoolOptions options;
    options.capacity_bytes = capacity_bytes;
    options.move_on_failure = move_on_failure;
    return Create(driver_options, options);
  }

  Pool& pool() { return *pool_; }
  CpuDriver& cpu() { return *cpu_; }
  FaultingDriver& faults() { return faults_; }
  CountingDriver& counting() { return counting_; }
  // Destroys the pool; the device stays.
  void DestroyPool() { pool_.reset(); }

 private:
  explicit PoolOnCpu(std::unique_ptr<CpuDriver> cpu)
      : cpu_(std::move(cpu)),
        faults_(cpu_.get()),
        counting_(&faults_, CostModel(CostProfile::kNone), 2 * kMiB) {}

  std::unique_ptr<CpuDriver> cpu_;
  FaultingDriver faults_;
  CountingDriver counting_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_POOL_ON_CPU_H_
