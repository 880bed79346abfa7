// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every driver call of a whole scenario fails once, on a device on which no
// memory can be moved: trying again succeeds, and nothing is left in the end.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::FreeBytes;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::WithoutVirtualMemory;

constexpr DriverResult kOk = DriverResult::kSuccess;

class FixedPoolFailureTest : public ::testing::TestWithParam<DriverResult> {};

// Creation, growth by several segments, frees on two streams, a request that
// needs segments to be given back, trim, and the end. Each step is tried again
// where the failure on order shows.
class Scenario {
 public:
  Scenario(FaultingDriver* faults, std::unique_ptr<Pool> pool)
      : faults_(faults), pool_(std::move(pool)) {}

  void Run(StreamHandle stream) {
    for (const uint64_t bytes :
         {3 * kMiB, 66 * kMiB, 10 * kMiB, 500 * kKiB, 60 * kMiB}) {
      ASSERT_NO_FATAL_FAILURE(Allocate(bytes, stream));
    }
    while (blocks_.size() > 1) {
      ASSERT_NO_FATAL_FAILURE(FreeLast(blocks_.size() % 2 ? stream : nullptr));
    }
    ASSERT_NO_FATAL_FAILURE(Allocate(120 * kMiB, nullptr));
    ASSERT_NO_FATAL_FAILURE(FreeLast(stream));
    ASSERT_NO_FATAL_FAILURE(Trim());
    ASSERT_NO_FATAL_FAILURE(FreeLast(nullptr));
    ASSERT_NO_FATAL_FAILURE(Trim());
    EXPECT_EQ(pool_->GetStats().held_bytes, 0u);
  }

 private:
  template <typename Operation>
  void Retry(const Operation& operation) {
    const PoolStats before = pool_->GetStats();
    const absl::Status status = operation();
    FIRN_EXPECT_OK(pool_->CheckInvariants());
    EXPECT_EQ(CountDamaged(blocks_), 0u);
    if (status.ok()) return;
    EXPECT_GT(faults_->failures(), 0u) << status;
    const PoolStats after = pool_->GetStats();
    EXPECT_EQ(after.live_bytes, before.live_bytes);
    EXPECT_LE(after.held_bytes, before.held_bytes);
    FIRN_ASSERT_OK(operation());
  }
  void Allocate(uint64_t bytes, StreamHandle stream) {
    AllocateOptions options;
    options.stream = stream;
    void* ptr = nullptr;
    Retry([&] {
      const absl::StatusOr<void*> result = pool_->Allocate(bytes, options);
      if (result.ok()) ptr = *result;
      return result.status();
    });
    // Its beginning is enough.
    blocks_.push_back({ptr, 4096, bytes});
    if (ptr != nullptr) Fill(blocks_.back());
  }
  void FreeLast(StreamHandle stream) {
    const FilledBlock block = blocks_.back();
    blocks_.pop_back();
    Retry([&] { return pool_->Free(block.ptr, stream); });
  }
  void Trim() {
    Retry([&] { return pool_->Trim().status(); });
    // What was not done with when it was asked for.
    FIRN_ASSERT_OK(pool_->Trim().status());
  }

  FaultingDriver* const faults_;
  const std::unique_ptr<Pool> pool_;
  std::vector<FilledBlock> blocks_;
};

TEST_P(FixedPoolFailureTest, EveryCallOfAWholeScenarioMayFailAndNothingLeaks) {
  constexpr uint64_t kDeviceBytes = 256 * kMiB;
  CpuDriverOptions driver_options = WithoutVirtualMemory(kDeviceBytes);
  driver_options.poison = false;  // fast
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(driver_options));
  StreamHandle stream = nullptr;
  ASSERT_EQ(cpu->StreamCreate(&stream, kStreamNonBlocking), kOk);
  FaultingDriver faults(cpu.get());
  PoolOptions options;
  options.driver = std::shared_ptr<Driver>(&faults, [](Driver*) {});
  options.capacity_bytes = 200 * kMiB;
  uint64_t forced = 0;
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(::testing::Message() << "call " << n);
    faults.Reset();
    faults.FailNth(n, GetParam());
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
    if (pool.ok()) {
      Scenario scenario(&faults, *std::move(pool));
      ASSERT_NO_FATAL_FAILURE(scenario.Run(stream));
    } else {
      EXPECT_GT(faults.failures(), 0u) << pool.status();
    }
    EXPECT_EQ(FreeBytes(*cpu), kDeviceBytes);
    if (HasFailure()) return;
    if (faults.failures() == 0) break;
    ++forced;
  }
  EXPECT_GT(forced, 20u);
  ASSERT_EQ(cpu->StreamDestroy(stream), kOk);
}

INSTANTIATE_TEST_SUITE_P(Results, FixedPoolFailureTest,
                         ::testing::Values(DriverResult::kOutOfMemory,
                                           DriverResult::kUnknown),
                         [](const auto& info) {
                           return info.param == DriverResult::kOutOfMemory
                                      ? "OutOfMemory"
                                      : "Unknown";
                         });

}  // namespace
}  // namespace firn
