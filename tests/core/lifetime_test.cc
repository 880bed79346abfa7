// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that are said to live long or not are kept apart, as far as there is
// room.

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "tests/core/domain_scene.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::DomainScene;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::kDomainGranule;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::HasSubstr;

constexpr uint64_t kGranule = kDomainGranule;

class LifetimeTest : public DomainScene {
 protected:
  absl::StatusOr<void*> AllocateFor(Lifetime lifetime, uint64_t bytes) {
    AllocateOptions options;
    options.lifetime = lifetime;
    return pool().Allocate(bytes, options);
  }

  // Short-lived and long-lived blocks in turn; those that are left when the
  // short-lived ones are gone.
  std::vector<FilledBlock> LongLivedAmongShort(bool with_hints) {
    std::vector<FilledBlock> left;
    std::vector<void*> gone;
    for (uint64_t i = 0; i < 96; ++i) {
      const bool is_long = i % 8 == 0;
      const Lifetime lifetime = !with_hints ? Lifetime::kUnknown
                                : is_long   ? Lifetime::kLong
                                            : Lifetime::kShort;
      const absl::StatusOr<void*> ptr = AllocateFor(lifetime, kGranule / 4);
      FIRN_EXPECT_OK(ptr.status());
      if (!ptr.ok()) continue;
      if (is_long) {
        left.push_back({*ptr, kGranule / 4, i});
        Fill(left.back());
      } else {
        gone.push_back(*ptr);
      }
    }
    for (void* const ptr : gone) FIRN_EXPECT_OK(pool().Free(ptr));
    return left;
  }
};

TEST_P(LifetimeTest, WhatLivesLongKeepsNoGranuleOfTheRest) {
  std::vector<FilledBlock> left = LongLivedAmongShort(/*with_hints=*/false);
  EXPECT_EQ(pool().GetStats().used_bytes, left.size() * kGranule);
  FreeAll(left);
  left = LongLivedAmongShort(/*with_hints=*/true);
  EXPECT_EQ(pool().GetStats().used_bytes, left.size() / 4 * kGranule);
  EXPECT_EQ(CountDamaged(left), 0u);
}

TEST_P(LifetimeTest, WhereThereIsNoRoomTheyShare) {
  // Two and a half granules of long-lived blocks, and short-lived ones in all
  // the rest.
  std::vector<FilledBlock> blocks;
  const auto allocate = [&](Lifetime lifetime, uint64_t most) {
    uint64_t count = 0;
    for (; count < most; ++count) {
      const absl::StatusOr<void*> ptr = AllocateFor(lifetime, kGranule / 4);
      if (!ptr.ok()) break;
      blocks.push_back({*ptr, kGranule / 4, ++last_seed_});
      Fill(blocks.back());
    }
    return count;
  };
  EXPECT_EQ(allocate(Lifetime::kLong, 10), 10u);
  EXPECT_EQ(allocate(Lifetime::kShort, 1000), 32 * 4 - 10u);
  EXPECT_EQ(pool().GetStats().live_bytes, 32 * kGranule);
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FreeAll(blocks);
  EXPECT_EQ(pool().GetStats().used_bytes, 0u);
}

TEST_P(LifetimeTest, PassesGoOverAllOfThem) {
  std::vector<FilledBlock> left;
  for (const Lifetime lifetime :
       {Lifetime::kShort, Lifetime::kLong, Lifetime::kUnknown}) {
    std::vector<FilledBlock> all;
    for (int i = 0; i < 32; ++i) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                                AllocateFor(lifetime, kGranule / 4));
      all.push_back({ptr, kGranule / 4, ++last_seed_});
      Fill(all.back());
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 4 == 0) {
        left.push_back(all[i]);
      } else {
        FIRN_EXPECT_OK(pool().Free(all[i].ptr));
      }
    }
  }
  CompactOptions dry;
  dry.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport plan, pool().Compact(dry));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GE(report.granules_recovered, 9u);
  EXPECT_EQ(plan.granules_recovered, report.granules_recovered);
  EXPECT_EQ(plan.moves, report.moves);
  EXPECT_EQ(report.granules_after * kGranule, pool().GetStats().used_bytes);
  EXPECT_GE(report.granules_after, report.lower_bound_granules);
  EXPECT_EQ(CountDamaged(left), 0u);
}

TEST_P(LifetimeTest, BudgetsOfAPassAreOfAllArenasTogether) {
  for (const Lifetime lifetime : {Lifetime::kShort, Lifetime::kLong}) {
    std::vector<void*> all;
    for (int i = 0; i < 32; ++i) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                                AllocateFor(lifetime, kGranule / 4));
      all.push_back(ptr);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 4 == 0) continue;
      FIRN_EXPECT_OK(pool().Free(all[i]));
    }
  }
  CompactOptions options;
  options.max_moves = 3;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport few,
                            pool().Compact(options));
  EXPECT_LE(few.moves, 3u);
  EXPECT_GT(few.moves, 0u);
  options.max_moves = 0;
  options.wanted_granules = 1;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport one,
                            pool().Compact(options));
  EXPECT_EQ(one.granules_recovered, 1u);
}

TEST_P(LifetimeTest, AnUnknownHintIsNamed) {
  EXPECT_THAT(
      AllocateFor(Lifetime{9}, 100),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lifetime: 9")));
}

INSTANTIATE_TEST_SUITE_P(Extremes, LifetimeTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn
