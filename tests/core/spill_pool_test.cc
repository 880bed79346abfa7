// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that may be spilled go to the host when an allocation would fail, and
// come back when they are in use again: every byte, at its address, within the
// budget.

#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/spill_pool_scene.h"
#include "tests/support/held_stream.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Values;

constexpr uint64_t kGranuleBytes = SpillPool::kGranuleBytes;
constexpr uint64_t kCapacityBytes = SpillPool::kCapacityBytes;
constexpr uint64_t kHostGranules = SpillPool::kHostGranules;

class SpillPoolTest : public ::testing::TestWithParam<CpuSync> {};

INSTANTIATE_TEST_SUITE_P(Extremes, SpillPoolTest,
                         Values(CpuSync::kLazy, CpuSync::kDraining), SyncName);

// --- The rung ---

TEST_P(SpillPoolTest, SpillingAloneSavesALargeBlock) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  const uint64_t device_bytes = scene.pool().GetStats().held_bytes;
  scene.ExpectRescued(3 * kGranuleBytes);
  const PoolStats stats = scene.pool().GetStats();
  // As much as was needed, and no more.
  EXPECT_EQ(stats.granules_spilled, 3u);
  EXPECT_EQ(stats.bytes_spilled, 3 * kGranuleBytes);
  EXPECT_EQ(stats.spilled_bytes, 3 * kGranuleBytes);
  EXPECT_EQ(stats.host_used_bytes, 3 * kGranuleBytes);
  EXPECT_EQ(stats.host_held_bytes, 3 * kGranuleBytes);
  EXPECT_EQ(stats.held_bytes, device_bytes);
  EXPECT_EQ(stats.live_bytes, kCapacityBytes + 3 * kGranuleBytes);
  EXPECT_EQ(stats.used_bytes, kCapacityBytes);
  EXPECT_EQ(scene.CountOnHost(), 3u);
  EXPECT_EQ(scene.StatsOf(Rung::kSpill).recovered_bytes, 3 * kGranuleBytes);
}

TEST_P(SpillPoolTest, SpillingAloneSavesASmallBlock) {
  SpillPool scene(GetParam());
  scene.FillUp(4 * kKiB);
  scene.AllowAll();
  scene.ExpectRescued(4 * kKiB);
  EXPECT_EQ(scene.pool().GetStats().granules_spilled, 1u);
  // Several blocks share the granule that went.
  EXPECT_GT(scene.CountOnHost(), 1u);
}

TEST_P(SpillPoolTest, AnyPartOfALargeBlockMayGo) {
  SpillPool scene(GetParam());
  // With a remainder that shares its granule with small blocks.
  ASSERT_TRUE(scene.Add(kCapacityBytes / 2 + 20 * kKiB));
  scene.FillUp(4 * kKiB);
  FIRN_ASSERT_OK(scene.pool().AllowSpill(scene.blocks()[0].ptr, nullptr));
  scene.ExpectRescued(2 * kGranuleBytes);
  EXPECT_EQ(scene.pool().GetStats().granules_spilled, 2u);
  FIRN_ASSERT_OK(scene.pool().MarkActive(scene.blocks()[0].ptr).ok()
                     ? absl::InternalError("there was room")
                     : absl::OkStatus());
  scene.FreeAt(scene.blocks().size() - 1);
  FIRN_ASSERT_OK(scene.pool().MarkActive(scene.blocks()[0].ptr));
  scene.ExpectSound();
  EXPECT_EQ(scene.pool().GetStats().spilled_bytes, 0u);
}

TEST_P(SpillPoolTest, WhatHasTheFewestLiveBytesGoes) {
  SpillPool scene(GetParam());
  ASSERT_TRUE(scene.Add(kGranuleBytes / 2 + 512));
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
  EXPECT_TRUE(scene.IsOnHost(scene.blocks()[0]));
  EXPECT_EQ(scene.CountOnHost(), 1u);
}

// --- It cannot, and says why ---

TEST_P(SpillPoolTest, WithoutTheOptionItSaysSo) {
  PoolOptions options = SpillPool::Options();
  options.host_spill_limit_bytes = 0;
  SpillPool scene(GetParam(), options);
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  EXPECT_EQ(scene.pool().GetStats().idle_blocks, scene.blocks().size());
  scene.ExpectFails(kGranuleBytes, "host_spill_limit_bytes is 0");
  EXPECT_EQ(scene.ledger().peak_bytes(), 0u);
}

TEST_P(SpillPoolTest, WithoutMoveOnFailureItSaysSo) {
  PoolOptions options = SpillPool::Options();
  options.move_on_failure = false;
  SpillPool scene(GetParam(), options);
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  // The message of the first failure is answered again.
  scene.ExpectFails(2 * kGranuleBytes, "move_on_failure is off");
}

TEST_P(SpillPoolTest, WithNothingDeclaredItSaysSo) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.ExpectFails(kGranuleBytes, "nothing may be spilled (AllowSpill)");
}

TEST_P(SpillPoolTest, InsideAScopeItSaysSo) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  const LaunchScope scope(scene.pool(), nullptr);
  scene.ExpectFails(kGranuleBytes, "not inside a LaunchScope");
}

TEST_P(SpillPoolTest, WithTheBudgetUsedUpItSaysSo) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  for (uint64_t i = 0; i < kHostGranules; ++i) {
    scene.ExpectRescued(kGranuleBytes);
  }
  scene.AllowAll();
  scene.ExpectFails(kGranuleBytes, "host_spill_limit_bytes leaves too little");
  EXPECT_EQ(scene.ledger().bytes(), kHostGranules * kGranuleBytes);
  // Nothing goes in vain either.
  scene.FreeAt(0);
  scene.ExpectFails(kCapacityBytes, "");
}

TEST_P(SpillPoolTest, WhereTooLittleMayGoNothingDoes) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  FIRN_ASSERT_OK(scene.pool().AllowSpill(scene.blocks()[0].ptr, nullptr));
  scene.ExpectFails(2 * kGranuleBytes, "less may be spilled than it takes");
  EXPECT_EQ(scene.pool().GetStats().granules_spilled, 0u);
  scene.ExpectRescued(kGranuleBytes);
}

TEST_P(SpillPoolTest, WhereTheDriverHasNoHostMemoryItSaysSo) {
  for (const DriverResult refusal :
       {DriverResult::kOutOfMemory, DriverResult::kNotPermitted}) {
    SpillPool scene(GetParam());
    scene.FillUp(kGranuleBytes);
    scene.AllowAll();
    scene.ledger().Refuse(refusal);
    scene.ExpectFails(kGranuleBytes, "not possible now: ");
    EXPECT_EQ(scene.pool().GetStats().granules_spilled, 0u);
    EXPECT_EQ(scene.ledger().bytes(), 0u);
    // As soon as it has some, it is used.
    scene.ledger().Refuse(DriverResult::kSuccess);
    scene.ExpectRescued(kGranuleBytes);
  }
}

TEST_P(SpillPoolTest, WhatIsInUseStays) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  // Idle alone will not do, nor read-only.
  for (const FilledBlock& block : scene.blocks()) {
    FIRN_ASSERT_OK(scene.pool().MarkIdle(block.ptr, nullptr));
  }
  FIRN_ASSERT_OK(scene.pool().MarkReadOnly(scene.blocks()[0].ptr, nullptr));
  scene.ExpectFails(2 * kGranuleBytes, "nothing may be spilled (AllowSpill)");
  // Nor what was in use again, or never was idle for sure.
  scene.AllowAll();
  for (const FilledBlock& block : scene.blocks()) {
    FIRN_ASSERT_OK(scene.pool().MarkActive(block.ptr));
  }
  scene.ExpectFails(3 * kGranuleBytes, "nothing may be spilled (AllowSpill)");
  scene.AllowAll();
  for (const FilledBlock& block : scene.blocks()) {
    FIRN_ASSERT_OK(scene.pool().RecordUse(block.ptr, nullptr));
  }
  scene.ExpectFails(4 * kGranuleBytes, "nothing may be spilled (AllowSpill)");
  EXPECT_EQ(scene.ledger().peak_bytes(), 0u);
}

TEST_P(SpillPoolTest, WhatSharesAGranuleWithABlockInUseStays) {
  SpillPool scene(GetParam());
  scene.FillUp(4 * kKiB);
  scene.AllowAll();
  // One block of each virtual granule.
  std::set<uintptr_t> vgs;
  for (const FilledBlock& block : scene.blocks()) {
    const uintptr_t vg = reinterpret_cast<uintptr_t>(block.ptr) / kGranuleBytes;
    if (vgs.insert(vg).second) {
      FIRN_ASSERT_OK(scene.pool().MarkActive(block.ptr));
    }
  }
  scene.ExpectFails(4 * kKiB, "no granule holds nothing but idle blocks");
}

TEST_P(SpillPoolTest, WhatIsPinnedStays) {
  SpillPool scene(GetParam());
  ASSERT_TRUE(scene.Add(5 * kGranuleBytes));
  scene.FillUp(4 * kKiB);
  scene.AllowAll();
  std::vector<Pin> pins;
  for (const FilledBlock& block : scene.blocks()) {
    FIRN_ASSERT_OK_AND_ASSIGN(Pin pin, scene.pool().PinBlock(block.ptr, "a"));
    pins.push_back(std::move(pin));
  }
  scene.ExpectFails(kGranuleBytes, "no granule holds nothing but idle blocks");
  pins.clear();
  scene.ExpectRescued(kGranuleBytes);
}

TEST_P(SpillPoolTest, OtherMemoryClassesStay) {
  PoolOptions options = SpillPool::Options();
  options.export_type = ShareableHandleType::kPosixFileDescriptor;
  SpillPool scene(GetParam(), options);
  AllocateOptions exportable;
  exportable.memory_class = MemoryClass::kExportable;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(scene.Add(kGranuleBytes, exportable));
  AllocateOptions pinned;
  pinned.memory_class = MemoryClass::kPinned;
  scene.FillUp(kGranuleBytes, pinned);
  scene.AllowAll();
  scene.ExpectFails(kGranuleBytes, "no granule holds nothing but idle blocks");
}

TEST_P(SpillPoolTest, BlocksOfGraphPrivatePoolsStay) {
  SpillPool scene(GetParam());
  const GraphPoolId id{1};
  FIRN_ASSERT_OK(scene.pool().BeginPool(id));
  scene.FillUp(kGranuleBytes);
  EXPECT_THAT(scene.pool().AllowSpill(scene.blocks()[0].ptr, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  FIRN_ASSERT_OK(scene.pool().EndPool(id));
  scene.ExpectFails(kGranuleBytes, "nothing may be spilled (AllowSpill)");
  FIRN_ASSERT_OK(scene.pool().ReleasePool(id));
}

TEST_P(SpillPoolTest, ErrorsAreThoseOfMarkIdle) {
  SpillPool scene(GetParam());
  ASSERT_TRUE(scene.Add(kKiB));
  char* const ptr = static_cast<char*>(scene.blocks()[0].ptr);
  EXPECT_THAT(scene.pool().AllowSpill(ptr + 512, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
  int no_stream = 0;
  EXPECT_FALSE(scene.pool()
                   .AllowSpill(ptr, reinterpret_cast<StreamHandle>(&no_stream))
                   .ok());
  EXPECT_EQ(scene.pool().GetStats().spillable_blocks, 0u);
  FIRN_EXPECT_OK(scene.pool().AllowSpill(ptr, nullptr));
  EXPECT_EQ(scene.pool().GetStats().spillable_blocks, 1u);
  EXPECT_EQ(scene.pool().GetStats().spillable_bytes, kKiB);
  EXPECT_EQ(scene.pool().GetStats().idle_blocks, 1u);
  FIRN_EXPECT_OK(scene.pool().MarkActive(ptr));
  EXPECT_EQ(scene.pool().GetStats().spillable_blocks, 0u);
}

TEST_P(SpillPoolTest, ALimitOfLessThanAGranuleIsRefused) {
  CpuDriverOptions driver_options;
  driver_options.granularity_bytes = kGranuleBytes;
  driver_options.device_bytes = kCapacityBytes;
  FIRN_ASSERT_OK_AND_ASSIGN(const auto cpu, CpuDriver::Create(driver_options));
  PoolOptions options = SpillPool::Options();
  options.driver = std::shared_ptr<Driver>(cpu.get(), [](Driver*) {});
  options.host_spill_limit_bytes = kGranuleBytes - 1;
  EXPECT_THAT(Pool::Create(options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("host_spill_limit_bytes")));
  options.granule_bytes = kGranuleBytes;
  EXPECT_THAT(options.Validate(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("host_spill_limit_bytes")));
}

// --- What may go only later ---

TEST_P(SpillPoolTest, ItTakesEffectWhenItsStreamIsDone) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  HeldStream held(&scene.cpu());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  for (const FilledBlock& block : scene.blocks()) {
    FIRN_ASSERT_OK(scene.pool().AllowSpill(block.ptr, held.stream()));
  }
  {
    const LaunchScope scope(scene.pool(), held.stream());
    EXPECT_FALSE(scene.pool().Allocate(kGranuleBytes).ok());
  }
  held.Release();
  ASSERT_EQ(held.Wait(), DriverResult::kSuccess);
  scene.ExpectRescued(kGranuleBytes);
}

TEST_P(SpillPoolTest, AFailureIsNotRememberedOnceMoreMayGo) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  EXPECT_FALSE(scene.pool().Allocate(kGranuleBytes).ok());
  EXPECT_FALSE(scene.pool().Allocate(kGranuleBytes).ok());
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
}

TEST_P(SpillPoolTest, WhatWasInVainIsNotTriedAgain) {
  SpillPool scene(GetParam());
  scene.FillUp(4 * kKiB);
  FIRN_ASSERT_OK(scene.pool().AllowSpill(scene.blocks()[0].ptr, nullptr));
  EXPECT_FALSE(scene.pool().Allocate(kGranuleBytes).ok());
  EXPECT_FALSE(scene.pool().Allocate(kGranuleBytes).ok());
  const uint64_t tried = scene.StatsOf(Rung::kSpill).tried;
  EXPECT_FALSE(scene.pool().Allocate(kGranuleBytes).ok());
  EXPECT_EQ(scene.StatsOf(Rung::kSpill).tried, tried);
}

}  // namespace
}  // namespace firn::testing
