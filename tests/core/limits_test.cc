// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Hard and soft limits of pools and domains, set before and while running.

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/core/domain_scene.h"
#include "tests/support/fixed_pool_on_cpu.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::DomainScene;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::kDomainGranule;
using ::firn::testing::kMiB;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kGranule = kDomainGranule;

MemoryLimit Hard(uint64_t granules) {
  MemoryLimit limit;
  limit.hard_bytes = granules * kGranule;
  return limit;
}

MemoryLimit Soft(uint64_t granules) {
  MemoryLimit limit;
  limit.soft_bytes = granules * kGranule;
  return limit;
}

class LimitsTest : public DomainScene {
 protected:
  uint64_t HeldGranules() { return pool().GetStats().held_bytes / kGranule; }

  // Leaves every `keep`-th of blocks of a quarter of a granule.
  std::vector<FilledBlock> Fragment(const Domain& domain, uint64_t granules,
                                    size_t keep) {
    std::vector<FilledBlock> kept;
    std::vector<FilledBlock> all = FillUp(domain, kGranule / 4, 4 * granules);
    for (size_t i = 0; i < all.size(); ++i) {
      Fill(all[i]);
      if (i % keep == 0) {
        kept.push_back(all[i]);
      } else {
        FIRN_EXPECT_OK(pool().Free(all[i].ptr));
      }
    }
    return kept;
  }

  const Domain none_{};
};

// --- The pool's ---

TEST_P(LimitsTest, TheHardLimitOfAPoolHolds) {
  FIRN_ASSERT_OK(pool().SetLimit(Hard(10)));
  const std::vector<FilledBlock> blocks = FillUp(none_, kGranule);
  EXPECT_EQ(blocks.size(), 10u);
  EXPECT_EQ(HeldGranules(), 10u);
  EXPECT_THAT(pool().Allocate(kGranule),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat("limit ", 10 * kGranule))));
  EXPECT_THAT(pool().Allocate(11 * kGranule),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("more than the limit")));
  const PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.limit_bytes, 10 * kGranule);
  EXPECT_EQ(stats.soft_limit_bytes, 10 * kGranule);
  EXPECT_EQ(stats.capacity_bytes, 32 * kGranule);
}

TEST_P(LimitsTest, ARaisedLimitLetsPassWhatFailedBefore) {
  FIRN_ASSERT_OK(pool().SetLimit(Hard(4)));
  FillUp(none_, kGranule);
  EXPECT_FALSE(pool().Allocate(kGranule).ok());
  EXPECT_FALSE(pool().Allocate(kGranule).ok());
  FIRN_ASSERT_OK(pool().SetLimit(Hard(5)));
  FIRN_EXPECT_OK(pool().Allocate(kGranule).status());
  EXPECT_FALSE(pool().Allocate(kGranule).ok());
  FIRN_ASSERT_OK(pool().SetLimit(MemoryLimit()));
  FIRN_EXPECT_OK(pool().Allocate(27 * kGranule).status());
}

TEST_P(LimitsTest, LoweringTheLimitReleasesWhatIsIdleAndKeepsWhatIsUsed) {
  std::vector<FilledBlock> blocks = FillUp(none_, kGranule, 20);
  for (const FilledBlock& block : blocks) Fill(block);
  for (int i = 0; i < 8; ++i) {
    FIRN_EXPECT_OK(pool().Free(blocks.back().ptr));
    blocks.pop_back();
  }
  FIRN_ASSERT_OK(pool().SetLimit(Hard(5)));
  EXPECT_EQ(HeldGranules(), 12u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_FALSE(pool().Allocate(kGranule).ok());
  EXPECT_EQ(CountDamaged(blocks), 0u);
  // What is freed beyond the limit goes.
  for (int i = 0; i < 9; ++i) {
    FIRN_EXPECT_OK(pool().Free(blocks.back().ptr));
    blocks.pop_back();
  }
  FIRN_EXPECT_OK(pool().Trim(5 * kGranule).status());
  EXPECT_LE(HeldGranules(), 5u);
  EXPECT_EQ(FillUp(none_, kGranule).size(), 2u);
  EXPECT_EQ(HeldGranules(), 5u);
}

TEST_P(LimitsTest, ASoftLimitIsExceededOnlyByWhatIsLive) {
  FIRN_ASSERT_OK(pool().SetLimit(Soft(8)));
  std::vector<FilledBlock> blocks = FillUp(none_, kGranule, 12);
  EXPECT_EQ(blocks.size(), 12u);
  EXPECT_EQ(HeldGranules(), 12u);
  // In use again and again: nothing is created.
  const uint64_t created = pool().GetStats().handles_created;
  for (int i = 0; i < 10; ++i) {
    FIRN_EXPECT_OK(pool().Free(blocks.back().ptr));
    FIRN_ASSERT_OK_AND_ASSIGN(blocks.back().ptr, pool().Allocate(kGranule));
  }
  EXPECT_LE(pool().GetStats().handles_created, created + 10);
  FreeAll(blocks);
  FIRN_EXPECT_OK(pool().SetLimit(Soft(8)));
  EXPECT_LE(HeldGranules(), 8u);
}

TEST_P(LimitsTest, BeyondASoftLimitAPoolCompactsBeforeItGrows) {
  for (const bool is_limited : {false, true}) {
    MakePool(32, /*move_on_failure=*/true);
    const std::vector<FilledBlock> kept = Fragment(none_, 16, 4);
    FIRN_ASSERT_OK(pool().SetLimit(is_limited ? Soft(16) : MemoryLimit()));
    for (int i = 0; i < 8; ++i) {
      FIRN_EXPECT_OK(pool().Allocate(kGranule).status());
    }
    EXPECT_EQ(HeldGranules() <= 16, is_limited) << HeldGranules();
    EXPECT_EQ(pool().GetStats().granules_moved > 0, is_limited);
    EXPECT_EQ(CountDamaged(kept), 0u);
    // And grows when that does not do any more.
    EXPECT_GT(FillUp(none_, kGranule).size(), 8u);
    EXPECT_EQ(HeldGranules(), 32u);
    EXPECT_EQ(CountDamaged(kept), 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }
}

TEST_P(LimitsTest, BadLimitsAreNamedAndChangeNothing) {
  MemoryLimit limit = Hard(33);
  EXPECT_THAT(pool().SetLimit(limit),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("limit.hard_bytes"),
                             HasSubstr("at most the capacity"))));
  limit.hard_bytes = 1000;
  EXPECT_THAT(pool().SetLimit(limit),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("at least a granule")));
  limit = Soft(5);
  limit.hard_bytes = 4 * kGranule;
  EXPECT_THAT(pool().SetLimit(limit),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("limit.soft_bytes"),
                             HasSubstr("at most the hard limit"))));
  EXPECT_EQ(FillUp(none_, kGranule).size(), 32u);
}

TEST_P(LimitsTest, LimitsChangeWhileThreadsAllocate) {
  const Domain a = MustCreate("a");
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> damaged{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<FilledBlock> blocks;
      while (!stop) {
        if (blocks.size() > 6 || (!blocks.empty() && random() % 2 == 0)) {
          const size_t i = random() % blocks.size();
          damaged += CountDamaged({blocks[i]});
          FIRN_EXPECT_OK(pool().Free(blocks[i].ptr));
          blocks[i] = blocks.back();
          blocks.pop_back();
          continue;
        }
        AllocateOptions options;
        if (random() % 2 == 0) options.domain = a.id();
        const uint64_t bytes = 1 + random() % (3 * kGranule);
        const absl::StatusOr<void*> ptr = pool().Allocate(bytes, options);
        if (!ptr.ok()) {
          EXPECT_TRUE(absl::IsResourceExhausted(ptr.status())) << ptr.status();
          continue;
        }
        blocks.push_back({*ptr, bytes, random()});
        Fill(blocks.back());
      }
      for (const FilledBlock& block : blocks) {
        damaged += CountDamaged({block});
        FIRN_EXPECT_OK(pool().Free(block.ptr));
      }
    });
  }
  std::mt19937_64 random(99);
  for (int i = 0; i < 60; ++i) {
    MemoryLimit limit = Hard(1 + random() % 32);
    if (random() % 2 == 0) {
      limit.soft_bytes =
          kGranule * (1 + random() % (limit.hard_bytes / kGranule));
    }
    FIRN_EXPECT_OK(pool().SetLimit(limit));
    FIRN_EXPECT_OK(pool().SetDomainLimit(a.id(), Hard(1 + random() % 32)));
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0u);
  FIRN_EXPECT_OK(pool().Trim().status());
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
}

// --- A domain's ---

TEST_P(LimitsTest, ADomainKeepsToItsHardLimitAndOthersGoOn) {
  const Domain a = MustCreate("tenant a", Hard(6));
  std::vector<FilledBlock> blocks = FillUp(a, kGranule / 2);
  EXPECT_EQ(blocks.size(), 12u);
  EXPECT_EQ(StatsOf(a.id()).mapped_bytes, 6 * kGranule);
  EXPECT_THAT(
      AllocateIn(a, kGranule / 2),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr(absl::StrCat("domain \"tenant a\" has ", 6 * kGranule,
                                      " of its limit of ", 6 * kGranule))));
  EXPECT_THAT(AllocateIn(a, 7 * kGranule),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("more than the limit of its domain")));
  EXPECT_EQ(FillUp(none_, kGranule).size(), 26u);
  // Its own memory it has again.
  FIRN_EXPECT_OK(pool().Free(blocks.back().ptr));
  FIRN_EXPECT_OK(AllocateIn(a, kGranule / 2).status());
}

TEST_P(LimitsTest, LifetimesOfADomainShareItsLimit) {
  const Domain a = MustCreate("a", Hard(6));
  AllocateOptions options;
  options.domain = a.id();
  uint64_t blocks = 0;
  for (int i = 0; i < 20; ++i) {
    options.lifetime = i % 2 == 0 ? Lifetime::kShort : Lifetime::kLong;
    if (pool().Allocate(kGranule, options).ok()) ++blocks;
  }
  EXPECT_EQ(blocks, 6u);
  EXPECT_EQ(StatsOf(a.id()).mapped_bytes, 6 * kGranule);
}

TEST_P(LimitsTest, WhatADomainHoldsForNothingServesOthers) {
  const Domain a = MustCreate("a");
  FreeAll(FillUp(a, kGranule));
  EXPECT_EQ(FillUp(none_, kGranule).size(), 32u);
}

TEST_P(LimitsTest, ADomainCompactsBeforeItExceedsItsSoftLimit) {
  MakePool(32, /*move_on_failure=*/true);
  const Domain a = MustCreate("a", Soft(8));
  const std::vector<FilledBlock> kept = Fragment(a, 8, 4);
  EXPECT_EQ(kept.size(), 8u);
  for (int i = 0; i < 4; ++i) {
    FIRN_EXPECT_OK(AllocateIn(a, kGranule).status());
  }
  EXPECT_LE(StatsOf(a.id()).mapped_bytes, 8 * kGranule);
  EXPECT_GT(pool().GetStats().granules_moved, 0u);
  EXPECT_GT(FillUp(a, kGranule).size(), 20u);
  EXPECT_EQ(CountDamaged(kept), 0u);
}

TEST_P(LimitsTest, ADomainsLimitChangesWhileItRuns) {
  const Domain a = MustCreate("a", Hard(4));
  std::vector<FilledBlock> blocks = FillUp(a, kGranule);
  EXPECT_EQ(blocks.size(), 4u);
  FIRN_ASSERT_OK(pool().SetDomainLimit(a.id(), Hard(7)));
  EXPECT_EQ(FillUp(a, kGranule).size(), 3u);
  FIRN_ASSERT_OK(pool().SetDomainLimit(a.id(), Hard(2)));
  FreeAll(blocks);
  EXPECT_EQ(StatsOf(a.id()).limit.hard_bytes, 2 * kGranule);
  // Idle memory of its own it may use; more it gets not.
  EXPECT_EQ(FillUp(a, kGranule).size(), 4u);
  EXPECT_FALSE(AllocateIn(a, kGranule).ok());
}

INSTANTIATE_TEST_SUITE_P(Extremes, LimitsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

// --- Where nothing can be moved ---

TEST(FixedPoolLimitsTest, LimitsHoldAndDomainsAreRefused) {
  FIRN_ASSERT_OK_AND_ASSIGN(const auto on_cpu,
                            testing::MakeFixedPool(200 * kMiB));
  Pool& pool = on_cpu->pool();
  MemoryLimit limit;
  limit.hard_bytes = 100 * kMiB;
  limit.soft_bytes = 40 * kMiB;
  FIRN_ASSERT_OK(pool.SetLimit(limit));
  std::vector<void*> blocks;
  while (true) {
    const absl::StatusOr<void*> ptr = pool.Allocate(20 * kMiB);
    if (!ptr.ok()) break;
    blocks.push_back(*ptr);
  }
  EXPECT_GE(blocks.size(), 3u);
  EXPECT_LE(pool.GetStats().held_bytes, 100 * kMiB);
  EXPECT_EQ(pool.GetStats().limit_bytes, 100 * kMiB);
  for (void* const ptr : blocks) FIRN_EXPECT_OK(pool.Free(ptr));
  FIRN_ASSERT_OK(pool.SetLimit(limit));
  EXPECT_LE(pool.GetStats().held_bytes, 40 * kMiB);
  FIRN_EXPECT_OK(pool.CheckInvariants());
  limit.hard_bytes = 201 * kMiB;
  EXPECT_THAT(pool.SetLimit(limit), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("limit.hard_bytes")));
  DomainOptions options;
  options.name = "a";
  EXPECT_THAT(pool.CreateDomain(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no virtual memory management")));
  AllocateOptions unknown;
  unknown.domain = DomainId{1};
  EXPECT_THAT(
      pool.Allocate(100, unknown),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("domain: 1")));
  ASSERT_EQ(pool.GetDomainStats().size(), 1u);
  EXPECT_EQ(pool.GetDomainStats().front().name, "default");
}

}  // namespace
}  // namespace firn
