// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads that allocate, use and free blocks of a pool with DebugOptions, while
// passes go on: nothing is found where nothing is wrong.

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/debug_scene.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::DebugDriverOptions;
using ::firn::testing::DebugPoolOptions;
using ::firn::testing::DebugSetting;
using ::firn::testing::DebugSettingName;
using ::firn::testing::DebugSettings;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::ReportLog;
using ::testing::IsEmpty;

class DebugModeThreadsTest : public ::testing::TestWithParam<DebugSetting> {};

INSTANTIATE_TEST_SUITE_P(All, DebugModeThreadsTest,
                         ::testing::ValuesIn(DebugSettings()),
                         DebugSettingName);

// Fills each block on its own stream, inside scopes.
void UseBlocks(Pool* pool, Driver* driver, uint64_t seed,
               const std::atomic<bool>* end) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver->StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  std::mt19937_64 random(seed);
  std::vector<std::pair<void*, uint64_t>> blocks;
  for (int step = 0; step < 300 && !end->load(); ++step) {
    const uint64_t bytes = 1 + random() % 20'000;
    const absl::StatusOr<void*> block =
        pool->Allocate(bytes, {.stream = stream});
    FIRN_ASSERT_OK(block.status());
    blocks.emplace_back(*block, bytes);
    {
      const LaunchScope scope(*pool, stream);
      EXPECT_EQ(driver->MemsetD8Async(reinterpret_cast<uintptr_t>(*block), 0x33,
                                      bytes, stream),
                DriverResult::kSuccess);
      if (step % 3 == 0) {
        FIRN_EXPECT_OK(pool->RecordUse(*block, stream));
      }
    }
    if (blocks.size() > 20) {
      const size_t index = random() % blocks.size();
      FIRN_EXPECT_OK(pool->Free(blocks[index].first, stream));
      blocks[index] = blocks.back();
      blocks.pop_back();
    }
  }
  for (const auto& [block, bytes] : blocks) {
    FIRN_EXPECT_OK(pool->Free(block, stream));
  }
  EXPECT_EQ(driver->StreamSynchronize(stream), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool->ReleaseStream(stream));
  EXPECT_EQ(driver->StreamDestroy(stream), DriverResult::kSuccess);
}

TEST_P(DebugModeThreadsTest, NothingIsFoundWhileAllGoesRight) {
  ReportLog log;
  PoolOptions options = DebugPoolOptions(&log);
  options.debug.quarantine_bytes = kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto on_cpu, PoolOnCpu::Create(DebugDriverOptions(GetParam()), options));
  Pool& pool = on_cpu->pool();
  // The first scope, before anything is in flight.
  { const LaunchScope scope(pool); }
  std::atomic<bool> end = false;
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    threads.emplace_back(UseBlocks, &pool, &on_cpu->counting(), seed, &end);
  }
  for (int i = 0; i < 20; ++i) {
    if (GetParam().moves) {
      CompactOptions pass;
      pass.level = CompactionLevel::kLaunchScopes;
      const absl::Status status = pool.Compact(pass).status();
      EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
    }
    pool.GetStats();
    FIRN_EXPECT_OK(pool.CheckInvariants());
  }
  for (std::thread& thread : threads) thread.join();
  FIRN_EXPECT_OK(pool.CheckInvariants());
  FIRN_EXPECT_OK(pool.Trim().status());
  EXPECT_EQ(pool.GetStats().live_bytes, 0u);
  EXPECT_EQ(pool.GetStats().used_bytes, 0u);
  EXPECT_THAT(log.Take(), IsEmpty());
}

}  // namespace
}  // namespace firn
