// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A fragmented pool, and a driver that lets a test act while a pass copies.

#ifndef FIRN_TESTS_CORE_POOL_IDLE_SCENE_H_
#define FIRN_TESTS_CORE_POOL_IDLE_SCENE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/faulting_driver.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/step_driver.h"

namespace firn::testing {

// Steps are the calls that a pass makes without the pool's lock: a copy, its
// event, or the wait for it.
class CopyStepDriver : public StepDriver {
 public:
  explicit CopyStepDriver(Driver* base) : StepDriver(base, &IsCopyStep) {}

  // Maps take so long from now on.
  void SetMapTime(absl::Duration map_time) { map_time_ = map_time; }
  // Waits for an event so far.
  uint64_t waits() const { return waits_; }

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()> call) override {
    if (args.call == DriverCall::kEventSynchronize) ++waits_;
    if (args.call == DriverCall::kMemMap && map_time_ > absl::ZeroDuration()) {
      absl::SleepFor(map_time_);
    }
    return StepDriver::Around(args, call);
  }

 private:
  uint64_t waits_ = 0;
  absl::Duration map_time_;
};

class PoolIdleScene : public ::testing::TestWithParam<CpuSync> {
 protected:
  static constexpr uint64_t kGranuleBytes = 64 * kKiB;
  static constexpr uint64_t kBlockBytes = 4 * kKiB;

  void SetUp() override { MakePool(4 * kMiB); }
  void TearDown() override {
    if (HasFatalFailure()) return;
    ExpectSound();
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool().Free(block.ptr));
    }
    EXPECT_EQ(pool().GetStats().live_bytes, 0u);
    EXPECT_EQ(pool().GetStats().idle_blocks, 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }

  // `max_mapped_vgs`: 0 for as many as may be.
  void MakePool(uint64_t capacity_bytes, uint32_t max_mapped_vgs = 0) {
    pool_.reset();
    CpuDriverOptions driver_options;
    driver_options.sync = GetParam();
    driver_options.device_bytes = 2 * capacity_bytes;
    driver_options.granularity_bytes = kGranuleBytes;
    FIRN_ASSERT_OK_AND_ASSIGN(cpu_, CpuDriver::Create(driver_options));
    faults_ = std::make_unique<FaultingDriver>(cpu_.get());
    steps_ = std::make_unique<CopyStepDriver>(faults_.get());
    PoolOptions options;
    options.capacity_bytes = capacity_bytes;
    options.max_mapped_vgs = max_mapped_vgs;
    options.driver = std::shared_ptr<Driver>(steps_.get(), [](Driver*) {});
    FIRN_ASSERT_OK_AND_ASSIGN(pool_, Pool::Create(std::move(options)));
  }

  Pool& pool() { return *pool_; }

  // Fills the pool and frees all but every `keep`-th block.
  void Fragment(uint64_t keep = 8, uint64_t bytes = kBlockBytes) {
    blocks_ = FragmentPool(&pool(), bytes, keep);
  }

  void MarkAllIdle() {
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool().MarkIdle(block.ptr, nullptr));
    }
  }

  static CompactOptions IdleOnly() {
    CompactOptions options;
    options.level = CompactionLevel::kDeclaredIdle;
    return options;
  }

  std::vector<uint64_t> Generations() {
    std::vector<uint64_t> generations;
    for (const FilledBlock& block : blocks_) {
      const absl::StatusOr<uint64_t> generation = pool().Generation(block.ptr);
      FIRN_EXPECT_OK(generation.status());
      generations.push_back(generation.value_or(0));
    }
    return generations;
  }

  void ExpectSound() {
    EXPECT_EQ(CountDamaged(blocks_), 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }

  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<FaultingDriver> faults_;
  std::unique_ptr<CopyStepDriver> steps_;
  std::unique_ptr<Pool> pool_;
  std::vector<FilledBlock> blocks_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_POOL_IDLE_SCENE_H_
