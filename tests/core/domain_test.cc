// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Domains share no granule, and leave no contents to each other.

#include "firn/core/domain.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/launch_scope.h"
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

static_assert(std::is_move_constructible_v<Domain> &&
              !std::is_copy_constructible_v<Domain>);

using DomainTest = DomainScene;

constexpr uint64_t kGranule = kDomainGranule;

std::set<PhysicalHandle> Common(const std::set<PhysicalHandle>& a,
                                const std::set<PhysicalHandle>& b) {
  std::set<PhysicalHandle> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(),
                        std::inserter(common, common.begin()));
  return common;
}

TEST_P(DomainTest, BlocksOfDifferentDomainsShareNoGranule) {
  const Domain a = MustCreate("a");
  const Domain b = MustCreate("b");
  const Domain none{};
  std::vector<std::vector<FilledBlock>> blocks(3);
  // Small, medium and large ones with remainders that like to share.
  for (const uint64_t bytes : {uint64_t{512}, uint64_t{3000}, kGranule / 2,
                               kGranule + 5000, 512 + kGranule / 4}) {
    for (const auto& [domain, list] :
         {std::make_pair(&a, &blocks[0]), std::make_pair(&b, &blocks[1]),
          std::make_pair(&none, &blocks[2])}) {
      for (FilledBlock& block : FillUp(*domain, bytes, 2)) {
        Fill(block);
        list->push_back(block);
      }
    }
  }
  for (const auto& [i, j] :
       {std::make_pair(0, 1), std::make_pair(0, 2), std::make_pair(1, 2)}) {
    EXPECT_TRUE(Common(HandlesOf(blocks[static_cast<size_t>(i)]),
                       HandlesOf(blocks[static_cast<size_t>(j)]))
                    .empty());
  }
  for (const std::vector<FilledBlock>& list : blocks) {
    EXPECT_EQ(list.size(), 10u);
    EXPECT_EQ(CountDamaged(list), 0u);
  }
}

TEST_P(DomainTest, APassMergesNothingAcrossDomains) {
  const Domain a = MustCreate("a");
  const Domain b = MustCreate("b");
  std::vector<FilledBlock> kept_a;
  std::vector<FilledBlock> kept_b;
  for (const auto& [domain, kept] :
       {std::make_pair(&a, &kept_a), std::make_pair(&b, &kept_b)}) {
    std::vector<FilledBlock> all = FillUp(*domain, kGranule / 4, 40);
    ASSERT_EQ(all.size(), 40u);
    for (size_t i = 0; i < all.size(); ++i) {
      Fill(all[i]);
      if (i % 5 == 0) {
        kept->push_back(all[i]);
      } else {
        FIRN_EXPECT_OK(pool().Free(all[i].ptr));
      }
    }
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.granules_recovered, 4u);
  // Eight quarters each: two granules would hold them, and do not quite, as
  // their offsets are what they are.
  EXPECT_LE(report.granules_after, 2 * report.lower_bound_granules);
  EXPECT_TRUE(Common(HandlesOf(kept_a), HandlesOf(kept_b)).empty());
  EXPECT_EQ(CountDamaged(kept_a), 0u);
  EXPECT_EQ(CountDamaged(kept_b), 0u);
  // What a pass has emptied is zeroed for another domain as well.
  const Domain c = MustCreate("c");
  for (const FilledBlock& block : FillUp(c, 3 * kGranule)) {
    EXPECT_TRUE(IsZero(block));
  }
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(DomainTest, MemoryThatComesFromAnotherDomainIsZeroed) {
  const Domain a = MustCreate("a");
  const Domain b = MustCreate("b");
  const Domain c = MustCreate("c");
  const Domain none{};
  // None of them twice: what was its own may still be.
  const Domain* const owners[] = {&none, &a, &b, &c};
  for (size_t turn = 0; turn < std::size(owners); ++turn) {
    SCOPED_TRACE(absl::StrCat("turn ", turn));
    const uint64_t bytes = turn % 2 == 0 ? 1000 : 2 * kGranule + 3000;
    const std::vector<FilledBlock> blocks = FillUp(*owners[turn], bytes);
    ASSERT_GE(blocks.size(), 12u);
    for (const FilledBlock& block : blocks) {
      // Fresh memory is not zero here, but what others have had is.
      EXPECT_TRUE(turn == 0 || IsZero(block)) << "at " << block.ptr;
      Fill(block);
    }
    EXPECT_EQ(CountDamaged(blocks), 0u);
    FreeAll(blocks);
  }
  EXPECT_GT(StatsOf(a.id()).zeroed_bytes, 10 * kGranule);
}

TEST_P(DomainTest, WhatADomainHadIsNotZeroedForItself) {
  const Domain a = MustCreate("a");
  const std::vector<FilledBlock> first = FillUp(a, kGranule / 2, 8);
  const uint64_t zeroed_bytes = pool().GetStats().zeroed_bytes;
  FreeAll(first);
  const std::vector<FilledBlock> second = FillUp(a, kGranule / 2, 8);
  EXPECT_EQ(second.size(), 8u);
  EXPECT_EQ(pool().GetStats().zeroed_bytes, zeroed_bytes);
}

TEST_P(DomainTest, WithoutDomainsNothingIsZeroed) {
  const Domain none{};
  for (const uint64_t bytes : {uint64_t{700}, 3 * kGranule, kGranule / 2}) {
    FreeAll(FillUp(none, bytes));
  }
  EXPECT_EQ(pool().GetStats().zeroed_bytes, 0u);
}

TEST_P(DomainTest, BlocksThatThreadsKeepReadyStayWithTheirDomain) {
  const Domain a = MustCreate("a");
  const Domain none{};
  std::set<void*> parked;
  for (int i = 0; i < 200; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(4096));
    parked.insert(ptr);
    FIRN_EXPECT_OK(pool().Free(ptr));
  }
  for (const FilledBlock& block : FillUp(a, 4096, 50)) {
    EXPECT_EQ(parked.count(block.ptr), 0u);
    // And back, on the same thread.
    FIRN_EXPECT_OK(pool().Free(block.ptr));
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(4096));
    EXPECT_NE(ptr, block.ptr);
    FIRN_EXPECT_OK(pool().Free(ptr));
  }
}

TEST_P(DomainTest, InsideAScopeMemoryIsNotZeroedButRefused) {
  const Domain a = MustCreate("a");
  const Domain none{};
  FreeAll(FillUp(none, kGranule));
  {
    const LaunchScope scope(pool(), nullptr);
    EXPECT_THAT(AllocateIn(a, 100),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  FIRN_EXPECT_OK(AllocateIn(a, 100).status());
}

// --- A domain's end ---

TEST_P(DomainTest, AClosedDomainTakesNothingMoreAndItsBlocksStayValid) {
  std::optional<Domain> a = MustCreate("a");
  const DomainId id = a->id();
  std::vector<FilledBlock> blocks = FillUp(*a, 3000, 20);
  for (const FilledBlock& block : blocks) Fill(block);
  a.reset();
  AllocateOptions options;
  options.domain = id;
  EXPECT_THAT(pool().Allocate(100, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("domain: 1 has been given up")));
  EXPECT_TRUE(StatsOf(id).is_closed);
  const Domain none{};
  std::vector<FilledBlock> others = FillUp(none, kGranule);
  for (const FilledBlock& block : others) Fill(block);
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FreeAll(blocks);
  // What it had serves others now.
  EXPECT_FALSE(FillUp(none, kGranule).empty());
  EXPECT_EQ(CountDamaged(others), 0u);
}

TEST_P(DomainTest, DomainsComeAndGo) {
  std::set<DomainId> ids;
  for (int i = 0; i < 500; ++i) {
    const Domain domain = MustCreate("tenant");
    EXPECT_TRUE(ids.insert(domain.id()).second);
    const std::vector<FilledBlock> blocks = FillUp(domain, 2000, 3);
    EXPECT_EQ(blocks.size(), 3u);
    for (const FilledBlock& block : blocks) {
      EXPECT_TRUE(i == 0 || IsZero(block));
      Fill(block);
    }
    FreeAll(blocks);
  }
  EXPECT_LE(pool().GetDomainStats().size(), 3u);
}

TEST_P(DomainTest, ADomainMayOutliveItsPool) {
  Domain a = MustCreate("a");
  FIRN_EXPECT_OK(AllocateIn(a, 1000).status());
  on_cpu_.reset();
  EXPECT_NE(a.id(), DomainId::kDefault);
  a.Close();
  EXPECT_EQ(a.id(), DomainId::kDefault);
}

TEST_P(DomainTest, ADomainMoves) {
  Domain a = MustCreate("a");
  const DomainId id = a.id();
  Domain b = std::move(a);
  EXPECT_EQ(b.id(), id);
  b = MustCreate("c");
  EXPECT_NE(b.id(), id);
  AllocateOptions options;
  options.domain = id;
  EXPECT_THAT(pool().Allocate(100, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_EXPECT_OK(AllocateIn(b, 100).status());
}

// --- Errors and figures ---

TEST_P(DomainTest, BadOptionsAreNamed) {
  DomainOptions options;
  EXPECT_THAT(pool().CreateDomain(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  options.name = "a";
  options.limit.hard_bytes = kGranule - 1;
  EXPECT_THAT(pool().CreateDomain(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("limit.hard_bytes: 65535; must be 0 or at "
                                 "least a granule of 65536 bytes")));
  options.limit.hard_bytes = 4 * kGranule;
  options.limit.soft_bytes = 5 * kGranule;
  EXPECT_THAT(pool().CreateDomain(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("limit.soft_bytes")));
  options.limit = MemoryLimit();
  FIRN_ASSERT_OK_AND_ASSIGN(const Domain a, pool().CreateDomain(options));
  EXPECT_THAT(pool().CreateDomain(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there is a domain \"a\"")));
  options.name = "default";
  EXPECT_THAT(pool().CreateDomain(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  AllocateOptions unknown;
  unknown.domain = DomainId{77};
  EXPECT_THAT(pool().Allocate(100, unknown),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("domain: 77 is no domain of this pool")));
  EXPECT_THAT(
      pool().SetDomainLimit(DomainId{77}, MemoryLimit()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("domain: 77")));
}

TEST_P(DomainTest, ThereAreOnlySoMany) {
  std::vector<Domain> domains;
  for (int i = 0; i < 64; ++i) {
    domains.push_back(MustCreate(absl::StrCat("domain ", i)));
  }
  DomainOptions options;
  options.name = "one more";
  EXPECT_THAT(pool().CreateDomain(options),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("64")));
  domains.pop_back();
  FIRN_EXPECT_OK(pool().CreateDomain(options).status());
}

TEST_P(DomainTest, TheFiguresOfAllDomainsAddUp) {
  const Domain a = MustCreate("a");
  const Domain none{};
  std::vector<FilledBlock> in_a = FillUp(a, 5000, 7);
  const std::vector<FilledBlock> in_none = FillUp(none, 3 * kGranule, 2);
  FIRN_EXPECT_OK(pool().Free(in_a.back().ptr));
  EXPECT_FALSE(AllocateIn(a, uint64_t{1} << 40).ok());
  const DomainStats stats = StatsOf(a.id());
  EXPECT_EQ(stats.name, "a");
  EXPECT_EQ(stats.live_bytes, 6 * 5000u);
  EXPECT_EQ(stats.live_allocations, 6u);
  EXPECT_EQ(stats.allocations, 7u);
  EXPECT_EQ(stats.failed_allocations, 1u);
  EXPECT_EQ(stats.used_bytes, HandlesOf(in_a).size() * kGranule);
  const PoolStats all = pool().GetStats();
  DomainStats sum;
  for (const DomainStats& each : pool().GetDomainStats()) {
    sum.live_bytes += each.live_bytes;
    sum.live_allocations += each.live_allocations;
    sum.used_bytes += each.used_bytes;
    sum.mapped_bytes += each.mapped_bytes;
    sum.allocations += each.allocations;
    sum.failed_allocations += each.failed_allocations;
    sum.zeroed_bytes += each.zeroed_bytes;
  }
  EXPECT_EQ(sum.live_bytes, all.live_bytes);
  EXPECT_EQ(sum.live_allocations, all.live_allocations);
  EXPECT_EQ(sum.used_bytes, all.used_bytes);
  EXPECT_EQ(sum.mapped_bytes + all.cached_bytes, all.held_bytes);
  EXPECT_EQ(sum.allocations, all.allocations);
  EXPECT_EQ(sum.failed_allocations, all.failed_allocations);
  EXPECT_EQ(sum.zeroed_bytes, all.zeroed_bytes);
}

INSTANTIATE_TEST_SUITE_P(Extremes, DomainTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn
