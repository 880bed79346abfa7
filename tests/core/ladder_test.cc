// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each rung of the ladder saves an allocation that no other rung does, and says
// why it cannot.

#include "firn/core/ladder.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/domain.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/side_thread.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

class LadderTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  static constexpr uint64_t kGranuleBytes = 64 * kKiB;
  static constexpr uint64_t kGranules = 16;
  static constexpr uint64_t kCapacityBytes = kGranules * kGranuleBytes;

  void MakePool(bool move_on_failure, uint32_t max_mapped_vgs = 0) {
    CpuDriverOptions driver_options;
    driver_options.sync = GetParam();
    driver_options.device_bytes = 2 * kCapacityBytes;
    driver_options.granularity_bytes = kGranuleBytes;
    PoolOptions options;
    options.capacity_bytes = kCapacityBytes;
    options.move_on_failure = move_on_failure;
    options.max_mapped_vgs = max_mapped_vgs;
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_,
                              PoolOnCpu::Create(driver_options, options));
  }
  Pool& pool() { return on_cpu_->pool(); }
  CpuDriver& cpu() { return on_cpu_->cpu(); }

  // Blocks of so many bytes until nothing fits.
  std::vector<void*> FillPool(uint64_t bytes,
                              const AllocateOptions& options = {}) {
    std::vector<void*> blocks;
    while (true) {
      const absl::StatusOr<void*> block = pool().Allocate(bytes, options);
      if (!block.ok()) return blocks;
      blocks.push_back(*block);
    }
  }
  void FreeAll(const std::vector<void*>& blocks,
               StreamHandle stream = nullptr) {
    for (void* const block : blocks) {
      FIRN_EXPECT_OK(pool().Free(block, stream));
    }
  }

  // Full of blocks of 4 KiB but for one in five, at random.
  std::vector<FilledBlock> KeepMost() {
    std::mt19937 random(1);
    std::vector<FilledBlock> kept;
    for (void* const block : FillPool(4 * kKiB)) {
      if (random() % 100 >= 80) {
        FIRN_EXPECT_OK(pool().Free(block));
        continue;
      }
      kept.push_back({block, 4 * kKiB, kept.size()});
      Fill(kept.back());
    }
    return kept;
  }

  RungStats StatsOf(Rung rung) {
    return pool().GetLadderStats()[static_cast<size_t>(rung)];
  }
  // The allocation succeeds, by this rung alone.
  void ExpectRescuedBy(Rung rung, uint64_t bytes,
                       const AllocateOptions& options = {}) {
    const LadderStats before = pool().GetLadderStats();
    const absl::StatusOr<void*> block = pool().Allocate(bytes, options);
    FIRN_EXPECT_OK(block.status());
    const LadderStats after = pool().GetLadderStats();
    for (size_t i = 0; i < kRungCount; ++i) {
      const bool is_it = i == static_cast<size_t>(rung);
      EXPECT_EQ(after[i].rescued - before[i].rescued, is_it ? 1u : 0u)
          << RungName(static_cast<Rung>(i));
    }
    if (block.ok()) {
      FIRN_EXPECT_OK(pool().Free(*block));
    }
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }
  // It fails, and says so of the rung.
  void ExpectFails(Rung rung, const std::string& why, uint64_t bytes,
                   const AllocateOptions& options = {}) {
    const RungStats before = StatsOf(rung);
    EXPECT_THAT(pool().Allocate(bytes, options).status(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr(absl::StrCat(RungName(rung), ": ", why))));
    const RungStats after = StatsOf(rung);
    EXPECT_EQ(after.rescued, before.rescued);
    EXPECT_GT(after.tried, before.tried);
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

INSTANTIATE_TEST_SUITE_P(Extremes, LadderTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(LadderTest, ParkedBlocks) {
  MakePool(/*move_on_failure=*/false);
  const std::vector<void*> blocks = FillPool(4 * kKiB);
  ExpectFails(Rung::kParkedBlocks, "none that may be taken", kGranuleBytes);
  FreeAll(blocks);
  ExpectRescuedBy(Rung::kParkedBlocks, kCapacityBytes);
}

TEST_P(LadderTest, PendingFrees) {
  MakePool(/*move_on_failure=*/false);
  // From now on the pool knows several streams.
  StreamHandle other = nullptr;
  ASSERT_EQ(cpu().StreamCreate(&other, kStreamNonBlocking),
            DriverResult::kSuccess);
  FIRN_ASSERT_OK_AND_ASSIGN(void* const used, pool().Allocate(kKiB));
  FIRN_ASSERT_OK(pool().RecordUse(used, other));
  FIRN_ASSERT_OK(pool().Free(used));
  const std::vector<void*> blocks = FillPool(kGranuleBytes);
  ExpectFails(Rung::kPendingFrees, "there are none", 2 * kGranuleBytes);
  HeldStream held(&cpu());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  FreeAll(blocks, held.stream());
  {
    const LaunchScope scope(pool(), nullptr);
    ExpectFails(Rung::kPendingFrees, "not waited for inside a LaunchScope",
                2 * kGranuleBytes);
  }
  SideThread releaser([&held] {
    absl::SleepFor(absl::Milliseconds(20));
    held.Release();
  });
  ExpectRescuedBy(Rung::kPendingFrees, 2 * kGranuleBytes);
}

TEST_P(LadderTest, OtherArenas) {
  MakePool(/*move_on_failure=*/false);
  AllocateOptions long_lived;
  long_lived.lifetime = Lifetime::kLong;
  const std::vector<void*> blocks = FillPool(2 * kGranuleBytes, long_lived);
  ExpectFails(Rung::kOtherArenas, "there are none", 2 * kGranuleBytes);
  FreeAll(blocks);
  // Parked blocks of others are granules of others after the first attempt.
  pool().GetStats();
  ExpectRescuedBy(Rung::kOtherArenas, 2 * kGranuleBytes);
}

TEST_P(LadderTest, Unmapping) {
  // As many mappings as granules.
  MakePool(/*move_on_failure=*/false, kGranules);
  // One block is left in every granule, each at another offset.
  std::map<uintptr_t, std::vector<void*>> blocks_of;
  for (void* const block : FillPool(4 * kKiB)) {
    blocks_of[reinterpret_cast<uintptr_t>(block) / kGranuleBytes].push_back(
        block);
  }
  std::vector<FilledBlock> kept;
  for (auto& [vg, blocks] : blocks_of) {
    const size_t index = kept.size() % blocks.size();
    kept.push_back({blocks[index], 4 * kKiB, kept.size()});
    Fill(kept.back());
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
    FreeAll(blocks);
  }
  ASSERT_EQ(kept.size(), kGranules);
  ExpectFails(Rung::kUnmapping, "too few granules", 2 * kGranuleBytes);
  // A pass leaves a few granules with all the mappings, and then hardly any of
  // them holds anything.
  FIRN_ASSERT_OK(pool().Compact().status());
  while (kept.size() > 1) {
    FIRN_ASSERT_OK(pool().Free(kept.back().ptr));
    kept.pop_back();
  }
  pool().GetStats();
  ExpectRescuedBy(Rung::kUnmapping, (kGranules - 1) * kGranuleBytes);
  EXPECT_EQ(CountDamaged(kept), 0u);
}

TEST_P(LadderTest, Merging) {
  for (const bool moves : {false, true}) {
    MakePool(moves);
    const std::vector<FilledBlock> kept =
        FragmentPool(&pool(), 4 * kKiB, /*keep=*/8);
    const uint64_t bytes = kCapacityBytes / 2;
    if (moves) {
      ExpectRescuedBy(Rung::kMerging, bytes);
      EXPECT_GE(StatsOf(Rung::kMerging).recovered_bytes, bytes);
      ExpectFails(Rung::kMerging, "recovered", kCapacityBytes);
    } else {
      ExpectFails(Rung::kMerging, "move_on_failure is off", bytes);
      EXPECT_THAT(pool().Allocate(bytes).status(),
                  StatusIs(absl::StatusCode::kResourceExhausted,
                           HasSubstr("It might fit with move_on_failure")));
    }
    EXPECT_EQ(CountDamaged(kept), 0u);
  }
}

TEST_P(LadderTest, ScatteredHoles) {
  MakePool(/*move_on_failure=*/false);
  const std::vector<FilledBlock> kept = KeepMost();
  ExpectFails(Rung::kScatteredHoles, "tried", 16 * kKiB);
  ExpectRescuedBy(Rung::kScatteredHoles, 8 * kKiB);
  EXPECT_EQ(CountDamaged(kept), 0u);
}

TEST_P(LadderTest, OpenedHole) {
  for (const bool moves : {false, true}) {
    MakePool(moves);
    const std::vector<FilledBlock> kept = KeepMost();
    if (moves) {
      ExpectRescuedBy(Rung::kOpenedHole, 16 * kKiB);
      ExpectFails(Rung::kOpenedHole, "only for less than a granule",
                  kGranuleBytes);
    } else {
      ExpectFails(Rung::kOpenedHole, "move_on_failure is off", 16 * kKiB);
    }
    EXPECT_EQ(CountDamaged(kept), 0u);
  }
}

TEST_P(LadderTest, OtherLifetimes) {
  MakePool(/*move_on_failure=*/false);
  AllocateOptions long_lived;
  long_lived.lifetime = Lifetime::kLong;
  std::vector<void*> blocks = FillPool(4 * kKiB, long_lived);
  ExpectFails(Rung::kOtherLifetimes, "they have no room", 4 * kKiB);
  FIRN_ASSERT_OK(pool().Free(blocks.back()));
  blocks.pop_back();
  ExpectRescuedBy(Rung::kOtherLifetimes, 4 * kKiB);
}

TEST_P(LadderTest, EveryCallOfAClimbMayFail) {
  // What leads to the request, and the request: each is saved by one rung.
  struct Scene {
    const char* name;
    bool moves;
    std::function<std::vector<FilledBlock>()> arrange;
    uint64_t bytes;
  };
  AllocateOptions in_domain;
  std::optional<Domain> domain;
  const Scene scenes[] = {
      {"parked_blocks", false,
       [&] {
         FreeAll(FillPool(4 * kKiB));
         return std::vector<FilledBlock>();
       },
       kCapacityBytes},
      // Another domain's memory is zeroed.
      {"other_arenas", false,
       [&] {
         DomainOptions options;
         options.name = "other";
         absl::StatusOr<Domain> created = pool().CreateDomain(options);
         FIRN_EXPECT_OK(created.status());
         if (created.ok()) domain.emplace(*std::move(created));
         in_domain.domain = domain->id();
         FreeAll(FillPool(4 * kKiB, in_domain));
         return std::vector<FilledBlock>();
       },
       2 * kGranuleBytes},
      {"merging", true,
       [&] { return FragmentPool(&pool(), 4 * kKiB, /*keep=*/8); },
       kCapacityBytes / 2},
      {"scattered_holes", false, [&] { return KeepMost(); }, 8 * kKiB},
      {"opened_hole", true, [&] { return KeepMost(); }, 16 * kKiB},
  };
  for (const Scene& scene : scenes) {
    uint64_t n = 0;
    for (;; ++n) {
      SCOPED_TRACE(absl::StrCat(scene.name, ", call ", n));
      domain.reset();
      MakePool(scene.moves);
      const std::vector<FilledBlock> kept = scene.arrange();
      FaultingDriver& faults = on_cpu_->faults();
      faults.Reset();
      faults.FailNth(n, DriverResult::kUnknown);
      const absl::StatusOr<void*> block = pool().Allocate(scene.bytes);
      const bool reached = faults.failures() > 0;
      faults.Reset();
      EXPECT_TRUE(block.ok() || reached) << block.status();
      EXPECT_EQ(CountDamaged(kept), 0u);
      FIRN_EXPECT_OK(pool().CheckInvariants());
      if (block.ok()) {
        Fill({*block, scene.bytes, 99});
        FIRN_EXPECT_OK(pool().Free(*block));
      }
      const absl::StatusOr<void*> again = pool().Allocate(scene.bytes);
      FIRN_EXPECT_OK(again.status());
      EXPECT_EQ(CountDamaged(kept), 0u);
      if (HasFailure()) return;
      if (!reached) break;
    }
    // Holes take no call of the driver.
    EXPECT_TRUE(n > 1 || scene.bytes < kGranuleBytes) << scene.name;
  }
}

TEST_P(LadderTest, AFailureTellsWhoHasPinnedWhatAndWhatWouldHelp) {
  MakePool(/*move_on_failure=*/true);
  const std::vector<FilledBlock> kept =
      FragmentPool(&pool(), 4 * kKiB, /*keep=*/16);
  std::vector<Pin> pins;
  for (const FilledBlock& block : kept) {
    FIRN_ASSERT_OK_AND_ASSIGN(Pin pin, pool().PinBlock(block.ptr, "a card"));
    pins.push_back(std::move(pin));
  }
  const absl::Status failed = pool().Allocate(kCapacityBytes / 2).status();
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("16 blocks: \"a card\"")));
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("It might fit with nothing pinned")));
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("largest hole 61440")));
  EXPECT_THAT(failed,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("It would fit with 524288 bytes more")));
  pins.clear();
  FIRN_EXPECT_OK(pool().Allocate(kCapacityBytes / 2));
}

TEST_P(LadderTest, WhatFailsAgainAtOnceClimbsNoRung) {
  MakePool(/*move_on_failure=*/false);
  FillPool(kGranuleBytes);
  EXPECT_FALSE(pool().Allocate(2 * kGranuleBytes).ok());
  const LadderStats before = pool().GetLadderStats();
  EXPECT_FALSE(pool().Allocate(2 * kGranuleBytes).ok());
  EXPECT_EQ(pool().GetLadderStats()[0].tried, before[0].tried);
}

}  // namespace
}  // namespace firn::testing
