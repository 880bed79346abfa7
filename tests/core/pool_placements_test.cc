// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools whose blocks a classical structure places: what they promise is the
// same as ever.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/buffer.h"
#include "firn/core/pin.h"
#include "firn/core/placement_kind.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGranule = 64 * kKiB;
constexpr uint32_t kGranules = 24;

std::unique_ptr<PoolOnCpu> MakePool(PlacementKind placement, CpuSync sync,
                                    PoolOptions options = PoolOptions()) {
  CpuDriverOptions driver_options;
  driver_options.sync = sync;
  driver_options.granularity_bytes = kGranule;
  options.capacity_bytes = kGranules * kGranule;
  driver_options.device_bytes = 2 * options.capacity_bytes;
  options.placement = placement;
  // So that each tier has blocks.
  options.tiers.small_bytes = 8 * kKiB;
  options.tiers.large_bytes = kGranule;
  absl::StatusOr<std::unique_ptr<PoolOnCpu>> pool =
      PoolOnCpu::Create(driver_options, options);
  FIRN_EXPECT_OK(pool.status());
  return *std::move(pool);
}

DomainOptions Named(absl::string_view name) {
  DomainOptions options;
  options.name = std::string(name);
  return options;
}

using Case = std::tuple<PlacementKind, CpuSync>;

class PoolPlacementsTest : public ::testing::TestWithParam<Case> {
 protected:
  PlacementKind placement() const { return std::get<0>(GetParam()); }
  CpuSync sync() const { return std::get<1>(GetParam()); }

  void Start(PoolOptions options = PoolOptions()) {
    device_ = MakePool(placement(), sync(), std::move(options));
  }
  Pool& pool() { return device_->pool(); }

  bool Allocate(uint64_t bytes,
                const AllocateOptions& options = AllocateOptions()) {
    const absl::StatusOr<void*> ptr = pool().Allocate(bytes, options);
    if (!ptr.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(ptr.status())) << ptr.status();
      return false;
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*ptr) % options.alignment_bytes, 0u);
    blocks_.push_back({*ptr, bytes, ++last_seed_});
    Fill(blocks_.back());
    return true;
  }
  // Of all sizes from a quantum to several granules.
  uint64_t DrawBytes() {
    const uint64_t most = uint64_t{512} << random_() % 9;
    return 1 + random_() % most;
  }
  void FillUp() {
    for (int failures = 0; failures < 8;)
      failures += Allocate(DrawBytes()) ? 0 : 1;
  }
  void FreeAt(size_t i) {
    EXPECT_TRUE(IsIntact(blocks_[i])) << blocks_[i].bytes;
    FIRN_EXPECT_OK(pool().Free(blocks_[i].ptr));
    blocks_[i] = blocks_.back();
    blocks_.pop_back();
  }
  // Each block stays with a chance of one in `one_in`.
  void Thin(uint64_t one_in) {
    for (size_t i = blocks_.size(); i-- > 0;) {
      if (random_() % one_in != 0) FreeAt(i);
    }
  }
  void ExpectAllIsWell() {
    EXPECT_EQ(CountDamaged(blocks_), 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    uint64_t live_bytes = 0;
    for (const FilledBlock& block : blocks_) live_bytes += block.bytes;
    EXPECT_EQ(pool().GetStats().live_bytes, live_bytes);
  }
  void ExpectNothingIsLeft() {
    while (!blocks_.empty()) FreeAt(blocks_.size() - 1);
    EXPECT_EQ(device_->cpu().CtxSynchronize(), DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool().Trim().status());
    const PoolStats stats = pool().GetStats();
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_EQ(stats.held_bytes, 0u);
    ExpectAllIsWell();
  }

  std::unique_ptr<PoolOnCpu> device_;
  std::vector<FilledBlock> blocks_;
  std::mt19937_64 random_{7};
  uint64_t last_seed_ = 0;
};

TEST_P(PoolPlacementsTest, BlocksKeepTheirContentsThroughPasses) {
  Start();
  uint64_t moved = 0;
  for (int round = 0; round < 6; ++round) {
    FillUp();
    ExpectAllIsWell();
    Thin(/*one_in=*/8);
    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
    EXPECT_LE(report.granules_after, report.granules_before);
    moved += report.moves;
    ExpectAllIsWell();
  }
  EXPECT_GT(moved, 0u);
  ExpectNothingIsLeft();
}

TEST_P(PoolPlacementsTest, AFailingAllocationMergesGranules) {
  PoolOptions options;
  options.move_on_failure = true;
  Start(options);
  // Those that stay are at other offsets from granule to granule.
  blocks_ = FragmentPool(&pool(), /*bytes=*/4 * kKiB, /*keep=*/7);
  last_seed_ = blocks_.back().seed;
  const uint64_t live = pool().GetStats().live_bytes;
  // More than is free without moves, in whole granules.
  while (Allocate(kGranule)) {
  }
  EXPECT_GT(pool().GetStats().granules_moved, 0u);
  EXPECT_GT(pool().GetStats().live_bytes, live);
  ExpectAllIsWell();
  ExpectNothingIsLeft();
}

TEST_P(PoolPlacementsTest, WhatIsPinnedStays) {
  Start();
  FillUp();
  std::vector<Pin> pins;
  std::vector<std::pair<FilledBlock, uint64_t>> pinned;
  for (size_t i = 0; i < blocks_.size(); i += 5) {
    FIRN_ASSERT_OK_AND_ASSIGN(Pin pin, pool().PinBlock(blocks_[i].ptr, "test"));
    pins.push_back(std::move(pin));
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                              pool().Generation(blocks_[i].ptr));
    pinned.emplace_back(blocks_[i], generation);
  }
  const auto is_pinned = [&pinned](const FilledBlock& block) {
    for (const auto& [each, generation] : pinned) {
      if (each.ptr == block.ptr) return true;
    }
    return false;
  };
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (!is_pinned(blocks_[i]) && random_() % 8 != 0) FreeAt(i);
  }
  FIRN_ASSERT_OK(pool().Compact().status());
  for (const auto& [block, generation] : pinned) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t now, pool().Generation(block.ptr));
    EXPECT_EQ(now, generation) << block.bytes;
  }
  ExpectAllIsWell();
  pins.clear();
  ExpectNothingIsLeft();
}

TEST_P(PoolPlacementsTest, WhatIsDeclaredIdleMovesWhileTheRestStays) {
  Start();
  FillUp();
  Thin(/*one_in=*/8);
  std::vector<uint64_t> generations;
  std::vector<FilledBlock> busy;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (i % 4 != 0) {
      FIRN_ASSERT_OK(pool().MarkIdle(blocks_[i].ptr, nullptr));
      continue;
    }
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                              pool().Generation(blocks_[i].ptr));
    busy.push_back(blocks_[i]);
    generations.push_back(generation);
  }
  CompactOptions options;
  options.level = CompactionLevel::kDeclaredIdle;
  FIRN_ASSERT_OK(pool().Compact(options).status());
  for (size_t i = 0; i < busy.size(); ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t now,
                              pool().Generation(busy[i].ptr));
    EXPECT_EQ(now, generations[i]);
  }
  ExpectAllIsWell();
  FillUp();
  ExpectAllIsWell();
  ExpectNothingIsLeft();
}

TEST_P(PoolPlacementsTest, DomainsShareNoGranuleAndSeeOnlyZeros) {
  Start();
  FIRN_ASSERT_OK_AND_ASSIGN(const Domain first,
                            pool().CreateDomain(Named("first")));
  FIRN_ASSERT_OK_AND_ASSIGN(const Domain second,
                            pool().CreateDomain(Named("second")));
  AllocateOptions options;
  options.domain = first.id();
  while (Allocate(5 * kKiB, options)) {
  }
  while (!blocks_.empty()) FreeAt(blocks_.size() - 1);
  options.domain = second.id();
  const absl::StatusOr<void*> ptr = pool().Allocate(5 * kKiB, options);
  FIRN_ASSERT_OK(ptr.status());
  const char* const bytes = static_cast<const char*>(*ptr);
  for (uint64_t i = 0; i < 5 * kKiB; ++i) ASSERT_EQ(bytes[i], 0) << i;
  FIRN_EXPECT_OK(pool().Free(*ptr));
  ExpectAllIsWell();
}

TEST_P(PoolPlacementsTest, WhatIsExportableHasGranulesOfItsOwn) {
  PoolOptions options;
  options.export_type = ShareableHandleType::kPosixFileDescriptor;
  Start(options);
  ASSERT_TRUE(Allocate(1 * kKiB));
  AllocateOptions exportable;
  exportable.memory_class = MemoryClass::kExportable;
  ASSERT_TRUE(Allocate(1 * kKiB, exportable));
  FIRN_EXPECT_OK(pool().Export(blocks_.back().ptr).status());
  ExpectAllIsWell();
}

TEST_P(PoolPlacementsTest, AddressesKeepToTheirAlignment) {
  Start();
  AllocateOptions options;
  for (uint64_t alignment = 512; alignment <= 4 * kGranule; alignment *= 2) {
    options.alignment_bytes = alignment;
    Allocate(3 * kKiB, options);
    Allocate(512, options);
    Allocate(700);
  }
  EXPECT_GT(blocks_.size(), 20u);
  ExpectAllIsWell();
  ExpectNothingIsLeft();
}

TEST_P(PoolPlacementsTest, ASnapshotHasEveryBlockOnce) {
  Start();
  FillUp();
  Thin(/*one_in=*/3);
  const MemorySnapshot snapshot = pool().TakeMemorySnapshot();
  size_t blocks = 0;
  uint64_t bytes = 0;
  for (const MemorySegment& segment : snapshot.segments) {
    for (const MemoryBlock& block : segment.blocks) {
      if (block.state != MemoryBlockState::kAllocated) continue;
      ++blocks;
      bytes += block.requested_bytes;
      EXPECT_GE(block.address, segment.address);
      EXPECT_LE(block.address + block.bytes, segment.address + segment.bytes);
    }
  }
  EXPECT_EQ(blocks, blocks_.size());
  EXPECT_EQ(bytes, pool().GetStats().live_bytes);
}

TEST_P(PoolPlacementsTest, ARequestThatCannotFitSaysWhy) {
  Start();
  const absl::StatusOr<void*> ptr = pool().Allocate((kGranules + 1) * kGranule);
  EXPECT_THAT(ptr, StatusIs(absl::StatusCode::kResourceExhausted,
                            HasSubstr("capacity")));
  while (Allocate(kGranule)) {
  }
  const absl::StatusOr<void*> more = pool().Allocate(kGranule);
  EXPECT_THAT(more, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("1 of 1 granules missing")));
  EXPECT_EQ(blocks_.size(), kGranules);
  ExpectNothingIsLeft();
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  return absl::StrCat(
      PlacementKindName(std::get<0>(info.param)),
      std::get<1>(info.param) == CpuSync::kLazy ? "Lazy" : "Draining");
}

INSTANTIATE_TEST_SUITE_P(
    Structures, PoolPlacementsTest,
    ::testing::Combine(
        ::testing::Values(PlacementKind::kFreeList, PlacementKind::kBestFit,
                          PlacementKind::kSizeHash, PlacementKind::kSlab,
                          PlacementKind::kBuddy, PlacementKind::kTiered),
        ::testing::Values(CpuSync::kLazy, CpuSync::kDraining)),
    CaseName);

// --- What tells them apart ---

TEST(PoolPlacementTest, TheFreeListSharesGranulesBetweenLargeBlocks) {
  const std::unique_ptr<PoolOnCpu> device =
      MakePool(PlacementKind::kFreeList, CpuSync::kLazy);
  for (int i = 0; i < 4; ++i) {
    FIRN_ASSERT_OK(device->pool().Allocate(kGranule * 3 / 2).status());
  }
  EXPECT_EQ(device->pool().GetStats().used_bytes, 6 * kGranule);
}

TEST(PoolPlacementTest, BuddiesRoundUpToPowersOfTwo) {
  const std::unique_ptr<PoolOnCpu> device =
      MakePool(PlacementKind::kBuddy, CpuSync::kLazy);
  for (int i = 0; i < 4; ++i) {
    FIRN_ASSERT_OK(device->pool().Allocate(kGranule * 3 / 2).status());
  }
  EXPECT_EQ(device->pool().GetStats().used_bytes, 8 * kGranule);
}

TEST(PoolPlacementTest, SlabsKeepSizesApart) {
  const std::unique_ptr<PoolOnCpu> device =
      MakePool(PlacementKind::kSlab, CpuSync::kLazy);
  FIRN_ASSERT_OK(device->pool().Allocate(4 * kKiB).status());
  FIRN_ASSERT_OK(device->pool().Allocate(8 * kKiB).status());
  EXPECT_EQ(device->pool().GetStats().used_bytes, 2 * kGranule);
}

TEST(PoolPlacementTest, OptionsNameWhatIsWrong) {
  PoolOptions options;
  options.placement = static_cast<PlacementKind>(9);
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("placement: 9")));
  options.placement = PlacementKind::kTiered;
  options.tiers.large_bytes = 3 * kGranule;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("large_bytes")));
}

TEST(PoolPlacementTest, TiersMustSuitTheGranulesOfTheDevice) {
  CpuDriverOptions driver_options;
  driver_options.granularity_bytes = 2 * kMiB;
  driver_options.device_bytes = 64 * kMiB;
  PoolOptions options;
  options.placement = PlacementKind::kTiered;
  options.tiers.small_bytes = 64 * kKiB;
  options.tiers.large_bytes = 1 * kMiB;
  EXPECT_THAT(
      PoolOnCpu::Create(driver_options, options).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("large_bytes")));
}

}  // namespace
}  // namespace firn::testing
