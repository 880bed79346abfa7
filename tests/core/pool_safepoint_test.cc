// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "firn/core/pin.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool_scene.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kCapacityBytes = 48 * kMiB;
constexpr uint64_t kGranuleBytes = 2 * kMiB;

class PoolSafepointTest : public FragmentedPoolScene {
 protected:
  PoolSafepointTest() : FragmentedPoolScene(kCapacityBytes) {}
  void TearDown() override {
    ::unsetenv("FIRN_MOVING");
    FragmentedPoolScene::TearDown();
  }

  // Adds so many blocks, and frees all but every tenth.
  void Fragment(uint64_t blocks) {
    std::vector<void*> casualties;
    for (uint64_t i = 0; i < blocks; ++i) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kBlockBytes));
      if (i % 10 == 0) {
        blocks_.push_back({ptr, kBlockBytes, blocks_.size()});
        Fill(blocks_.back());
      } else {
        casualties.push_back(ptr);
      }
    }
    for (void* const ptr : casualties) FIRN_ASSERT_OK(pool().Free(ptr));
  }

  uint64_t passes() { return pool().GetUsage().compaction_passes; }

  static SafepointOptions Tolerating(uint64_t bytes) {
    SafepointOptions options;
    options.tolerated_waste_bytes = bytes;
    options.tolerated_waste_percent = 0;
    return options;
  }
};

TEST_P(PoolSafepointTest, LeavesToleratedWasteAlone) {
  // As it is by default: this pool is smaller than what is tolerated.
  FIRN_ASSERT_OK_AND_ASSIGN(CompactionReport report, pool().Safepoint());
  EXPECT_EQ(report.moves, 0u);
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool().Safepoint(Tolerating(WasteBytes())));
  EXPECT_EQ(report.moves, 0u);
  SafepointOptions by_share = Tolerating(0);
  const PoolUsage usage = pool().GetUsage();
  by_share.tolerated_waste_percent = 100.0 *
                                     static_cast<double>(WasteBytes() + 1) /
                                     static_cast<double>(usage.live_bytes);
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool().Safepoint(by_share));
  EXPECT_EQ(report.moves, 0u);
  by_share.tolerated_waste_percent = std::numeric_limits<double>::max();
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool().Safepoint(by_share));
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(passes(), 0u);
}

TEST_P(PoolSafepointTest, RecoversWhatIsWastedBeyondThat) {
  const uint64_t tolerated_bytes = WasteBytes() - 3 * kGranuleBytes + 1;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Safepoint(Tolerating(tolerated_bytes)));
  EXPECT_EQ(report.granules_recovered, 3u);
  EXPECT_LE(WasteBytes(), tolerated_bytes);
  // There is nothing left to do.
  FIRN_ASSERT_OK(pool().Safepoint(Tolerating(tolerated_bytes)).status());
  EXPECT_EQ(passes(), 1u);
}

TEST_P(PoolSafepointTest, DoesNotTryAgainInVainUntilMoreIsWasted) {
  // Half of the pool, pinned.
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK(pool().Free(block.ptr));
  }
  blocks_.clear();
  Fragment(kCapacityBytes / 2 / kBlockBytes);
  std::vector<Pin> pins;
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK_AND_ASSIGN(Pin pin, pool().PinBlock(block.ptr, "a test"));
    pins.push_back(std::move(pin));
  }
  for (int step = 0; step < 10; ++step) {
    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                              pool().Safepoint(Tolerating(0)));
    EXPECT_EQ(report.moves, 0u);
  }
  EXPECT_EQ(passes(), 1u);
  // Blocks that fit into none of these granules waste a quarter of theirs.
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(passes(), 1u);
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kMiB + 512 * kKiB));
    blocks_.push_back({ptr, kMiB + 512 * kKiB, blocks_.size()});
    Fill(blocks_.back());
    FIRN_ASSERT_OK(pool().Safepoint(Tolerating(0)).status());
    if (passes() > 1) break;
  }
  EXPECT_EQ(passes(), 2u);
}

TEST_P(PoolSafepointTest, ABudgetEndsThePass) {
  SafepointOptions options = Tolerating(0);
  options.max_bytes = 8 * kBlockBytes;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Safepoint(options));
  EXPECT_GT(report.moves, 0u);
  EXPECT_LE(report.bytes_copied, options.max_bytes);
  EXPECT_TRUE(report.budget_exhausted);
}

TEST_P(PoolSafepointTest, DoesNothingWhereMovingIsOff) {
  ::setenv("FIRN_MOVING", "off", 1);
  blocks_.clear();
  MakePool();
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Safepoint(Tolerating(0)));
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(passes(), 0u);
}

TEST_P(PoolSafepointTest, RefusesBadOptions) {
  for (const double percent :
       {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    SafepointOptions options;
    options.tolerated_waste_percent = percent;
    EXPECT_THAT(pool().Safepoint(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("tolerated_waste_percent")));
  }
  SafepointOptions options;
  options.max_duration = absl::Seconds(-1);
  EXPECT_THAT(
      pool().Safepoint(options).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_duration")));
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolSafepointTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn::testing
