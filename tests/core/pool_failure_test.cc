// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every driver call of a whole scenario fails once, with two kinds of error:
// nothing is lost, and trying again succeeds.

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;

// Small granules: the same steps as with large ones, on little memory.
constexpr uint64_t kGranule = 64 * kKiB;

absl::StatusOr<std::unique_ptr<PoolOnCpu>> MakePool(bool move_on_failure) {
  CpuDriverOptions driver_options;
  driver_options.device_bytes = 8 * kMiB;
  driver_options.granularity_bytes = kGranule;
  PoolOptions options;
  options.capacity_bytes = 4 * kMiB;
  options.move_on_failure = move_on_failure;
  return PoolOnCpu::Create(driver_options, options);
}

class PoolFailureTest : public ::testing::TestWithParam<DriverResult> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<PoolOnCpu>> on_cpu =
        MakePool(/*move_on_failure=*/true);
    FIRN_ASSERT_OK(on_cpu.status());
    on_cpu_ = std::move(*on_cpu);
  }

  Pool& pool() { return on_cpu_->pool(); }

  // Runs `operation` with its first driver call failing, then its second, and
  // so on until it succeeds; checks the state after each failure. Counts the
  // failures that the operation reported.
  void FailEveryCall(const char* name,
                     const std::function<absl::Status()>& operation) {
    for (uint64_t n = 0;; ++n) {
      SCOPED_TRACE(::testing::Message() << name << ", call " << n);
      const PoolStats before = pool().GetStats();
      on_cpu_->faults().FailNth(n, GetParam());
      const absl::Status status = operation();
      const bool reached = on_cpu_->faults().failures() > 0;
      on_cpu_->faults().Reset();
      if (reached) ++forced_;
      if (status.ok()) {
        FIRN_ASSERT_OK(pool().CheckInvariants());
        ASSERT_EQ(CountDamaged(blocks_), 0u);
        return;
      }
      ++reported_;
      ASSERT_TRUE(reached) << "failed by itself: " << status;
      const PoolStats after = pool().GetStats();
      ASSERT_EQ(after.live_bytes, before.live_bytes);
      ASSERT_EQ(after.live_allocations, before.live_allocations);
      // A pass that failed half-way keeps what it had done before.
      ASSERT_LE(after.used_bytes, before.used_bytes);
      ASSERT_LE(after.held_bytes, before.held_bytes);
      ASSERT_LE(after.mapped_vgs, before.mapped_vgs);
      FIRN_ASSERT_OK(pool().CheckInvariants());
      ASSERT_EQ(CountDamaged(blocks_), 0u);
    }
  }

  void Allocate(uint64_t bytes) {
    void* ptr = nullptr;
    FailEveryCall("Allocate", [&] {
      const absl::StatusOr<void*> result = pool().Allocate(bytes);
      if (result.ok()) ptr = *result;
      return result.status();
    });
    if (HasFatalFailure()) return;
    blocks_.push_back({ptr, bytes, blocks_.size() + 1000 * bytes});
    Fill(blocks_.back());
  }

  void Free(size_t index) {
    const FilledBlock block = blocks_[index];
    blocks_[index] = blocks_.back();
    blocks_.pop_back();
    FailEveryCall("Free", [&] { return pool().Free(block.ptr); });
  }

  void Compact() {
    FailEveryCall("Compact", [&] { return pool().Compact().status(); });
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::vector<FilledBlock> blocks_;
  uint64_t forced_ = 0;
  uint64_t reported_ = 0;
};

TEST_P(PoolFailureTest, EveryCallOfAWholeScenarioMayFailOnce) {
  std::mt19937_64 random(11);
  const uint64_t sizes[] = {512,       1536,       4 * kKiB,  10 * kKiB,
                            30 * kKiB, 100 * kKiB, 64 * kKiB, 150 * kKiB};
  // Fill up.
  while (pool().GetStats().live_bytes < 3400 * kKiB) {
    ASSERT_NO_FATAL_FAILURE(Allocate(sizes[random() % std::size(sizes)]));
  }
  // Most of it goes, in an order that leaves holes everywhere.
  while (pool().GetStats().live_bytes > 900 * kKiB) {
    ASSERT_NO_FATAL_FAILURE(Free(random() % blocks_.size()));
  }
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_GT(pool().GetStats().granules_moved, 0u);
  // The granules gained, all of them: harvested, remapped, created.
  const PoolStats stats = pool().GetStats();
  ASSERT_NO_FATAL_FAILURE(Allocate(stats.capacity_bytes - stats.used_bytes));
  // Room for no more, but for what moving makes.
  while (pool().GetStats().live_bytes > 3000 * kKiB) {
    ASSERT_NO_FATAL_FAILURE(Free(random() % blocks_.size()));
  }
  ASSERT_NO_FATAL_FAILURE(Allocate(500 * kKiB));
  FailEveryCall("Trim", [&] { return pool().Trim().status(); });
  while (!blocks_.empty()) ASSERT_NO_FATAL_FAILURE(Free(0));
  FailEveryCall("Trim", [&] { return pool().Trim().status(); });
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
  // Both kinds happened often: failures that came out, and failures that the
  // pool found a way around.
  EXPECT_GT(forced_, 100u);
  EXPECT_GT(reported_, 50u);
}

TEST_P(PoolFailureTest, CreationFailsCleanlyAtEveryCall) {
  CpuDriverOptions driver_options;
  driver_options.device_bytes = 8 * kMiB;
  driver_options.granularity_bytes = kGranule;
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(driver_options));
  FaultingDriver faults(cpu.get());
  PoolOptions options;
  options.driver = std::shared_ptr<Driver>(&faults, [](Driver*) {});
  uint64_t failed = 0;
  for (uint64_t n = 0;; ++n) {
    faults.FailNth(n, GetParam());
    const absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
    if (faults.failures() == 0) {
      FIRN_ASSERT_OK(pool.status());
      break;
    }
    if (!pool.ok()) ++failed;
    faults.Reset();
  }
  EXPECT_GE(failed, 3u);
}

TEST_P(PoolFailureTest, APersistentFailureLosesNothing) {
  for (int i = 0; i < 40; ++i) Allocate(30 * kKiB);
  for (size_t i = 0; i < 15; ++i) Free(i);
  for (uint64_t n = 0; n < 40; ++n) {
    SCOPED_TRACE(n);
    const uint64_t live = pool().GetStats().live_bytes;
    on_cpu_->faults().FailFrom(n, GetParam());
    const absl::Status compacted = pool().Compact().status();
    const absl::Status allocated = pool().Allocate(3 * kMiB).status();
    on_cpu_->faults().Reset();
    EXPECT_FALSE(compacted.ok() && allocated.ok());
    EXPECT_EQ(pool().GetStats().live_bytes, live);
    if (!pool().CheckInvariants().ok()) {
      // A mapping that could not be restored either: the pool says so, with
      // the cause, and refuses to go on with those addresses.
      EXPECT_THAT(pool().CheckInvariants().message(),
                  ::testing::HasSubstr("could not be restored"));
      return;
    }
    ASSERT_EQ(CountDamaged(blocks_), 0u);
  }
}

TEST_P(PoolFailureTest, AGranuleThatALostAddressReachesIsGivenToNobody) {
  // A block of a granule is mapped, its set-access fails, and so does every
  // attempt to undo the mapping.
  on_cpu_->faults().FailNthOf(DriverCall::kMemSetAccess, 0, GetParam());
  for (uint64_t n = 0; n < 3; ++n) {
    on_cpu_->faults().FailNthOf(DriverCall::kMemUnmap, n, GetParam());
  }
  const absl::StatusOr<void*> first = pool().Allocate(kGranule);
  ASSERT_EQ(on_cpu_->faults().failures(), 4u);
  on_cpu_->faults().Reset();
  if (first.ok()) blocks_.push_back({*first, kGranule, 0});
  // The rest of the capacity goes on working.
  while (true) {
    const absl::StatusOr<void*> ptr = pool().Allocate(kGranule);
    if (!ptr.ok()) break;
    blocks_.push_back({*ptr, kGranule, blocks_.size()});
  }
  const PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.live_bytes, stats.capacity_bytes - kGranule);
  EXPECT_EQ(stats.held_bytes, stats.capacity_bytes);
  for (const FilledBlock& block : blocks_) Fill(block);
  EXPECT_EQ(CountDamaged(blocks_), 0u);
  EXPECT_THAT(pool().CheckInvariants().message(),
              ::testing::HasSubstr("could not be restored"));
  // Even so nothing stays behind.
  on_cpu_->DestroyPool();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(on_cpu_->cpu().MemGetInfo(&free_bytes, &total_bytes),
            DriverResult::kSuccess);
  EXPECT_EQ(free_bytes, total_bytes);
}

INSTANTIATE_TEST_SUITE_P(Results, PoolFailureTest,
                         ::testing::Values(DriverResult::kOutOfMemory,
                                           DriverResult::kUnknown),
                         [](const auto& info) {
                           return info.param == DriverResult::kOutOfMemory
                                      ? "OutOfMemory"
                                      : "Unknown";
                         });

}  // namespace
}  // namespace firn
