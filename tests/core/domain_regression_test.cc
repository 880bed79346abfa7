// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What once went wrong with domains and limits.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "firn/core/move_hooks.h"
#include "gmock/gmock.h"
#include "tests/core/domain_scene.h"

namespace firn {
namespace {

using ::firn::testing::DomainScene;
using ::firn::testing::FilledBlock;
using ::firn::testing::kDomainGranule;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;

constexpr uint64_t kGranule = kDomainGranule;

class DomainRegressionTest : public DomainScene {
 protected:
  // Blocks of a quarter of a granule, of which every fifth stays.
  void Fragment(uint64_t blocks) {
    const std::vector<FilledBlock> all = FillUp(none_, kGranule / 4, blocks);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 5 == 0) continue;
      FIRN_EXPECT_OK(pool().Free(all[i].ptr));
    }
  }

  // Of the next unmaps the second one fails, and the first cannot be undone.
  void LoseAnAddress() {
    on_cpu_->faults().FailNthOf(DriverCall::kMemUnmap, 1,
                                DriverResult::kUnknown);
    on_cpu_->faults().FailRandomlyOf(DriverCall::kMemMap, 1.0, 1,
                                     DriverResult::kUnknown);
  }

  // Every block that is handed out has memory beneath it.
  void ExpectMapped(const Domain& domain, int blocks) {
    for (int i = 0; i < blocks; ++i) {
      const absl::StatusOr<void*> ptr = AllocateIn(domain, kGranule);
      if (!ptr.ok()) continue;
      EXPECT_EQ(HandlesOf({{*ptr, kGranule, 0}}).count(0), 0u);
    }
  }

  const Domain none_{};
};

TEST_P(DomainRegressionTest, ANewHandleUnderAnOldIdIsZeroed) {
  const Domain a = MustCreate("a");
  FreeAll(FillUp(a, kGranule, 4));
  FIRN_EXPECT_OK(pool().Trim().status());
  for (const FilledBlock& block : FillUp(a, kGranule, 4)) {
    EXPECT_TRUE(IsZero(block));
  }
}

TEST_P(DomainRegressionTest, IdleMemoryOfItsOwnDomainComesFirstAtALimit) {
  FreeAll(FillUp(none_, kGranule, 10));
  MemoryLimit limit;
  limit.hard_bytes = 8 * kGranule;
  const Domain a = MustCreate("a", limit);
  AllocateOptions pinned;
  pinned.domain = a.id();
  pinned.memory_class = MemoryClass::kPinned;
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                            pool().Allocate(5 * kGranule, pinned));
  FIRN_ASSERT_OK(pool().Free(ptr));
  // Three granules of the limit are left, and five are idle.
  FIRN_EXPECT_OK(AllocateIn(a, 4 * kGranule).status());
}

TEST_P(DomainRegressionTest, WhatAPassEmptiesInOneArenaServesAnother) {
  MakePool(16, /*move_on_failure=*/true);
  const Domain a = MustCreate("a");
  Fragment(64);
  FIRN_EXPECT_OK(AllocateIn(a, 4 * kGranule).status());
  FIRN_EXPECT_OK(AllocateIn(a, 4 * kGranule).status());
}

TEST_P(DomainRegressionTest, AnAllocationNeverEndsInAnotherDomain) {
  MakePool(16, /*move_on_failure=*/true);
  std::optional<Domain> a = MustCreate("a");
  AllocateOptions in_a;
  in_a.domain = a->id();
  Fragment(64);
  std::optional<Domain> b;
  MoveHook hook;
  hook.before_move = [&](absl::Span<const MovingBlock>) {
    if (b.has_value()) return absl::OkStatus();
    // Its owner gives the domain up, and another takes the place of its arena.
    a.reset();
    b = MustCreate("b");
    FIRN_EXPECT_OK(AllocateIn(*b, 100).status());
    return absl::OkStatus();
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration registration,
                            pool().AddMoveHook(std::move(hook)));
  EXPECT_THAT(pool().Allocate(3 * kGranule + 100, in_a),
              StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(StatsOf(b->id()).live_bytes, 100u);
}

TEST_P(DomainRegressionTest, AHookThatAllocatesTakesNoLeaveFromItsPass) {
  MakePool(16, /*move_on_failure=*/true);
  Fragment(48);
  MemoryLimit limit;
  limit.soft_bytes = 8 * kGranule;
  FIRN_ASSERT_OK(pool().SetLimit(limit));
  int calls = 0;
  MoveHook hook;
  hook.before_move = [&](absl::Span<const MovingBlock>) {
    // The first pass, within the soft limit, recovers nothing.
    if (pool().GetStats().compaction_passes == 0) {
      return absl::InternalError("not yet");
    }
    ++calls;
    EXPECT_FALSE(pool().Allocate(15 * kGranule).ok());
    return absl::OkStatus();
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration registration,
                            pool().AddMoveHook(std::move(hook)));
  FIRN_EXPECT_OK(pool().Allocate(9 * kGranule).status());
  EXPECT_GT(calls, 0);
}

TEST_P(DomainRegressionTest, APassInVainOverADomainAtItsLimitStopsNoOther) {
  MakePool(16, /*move_on_failure=*/true);
  MemoryLimit limit;
  limit.hard_bytes = 2 * kGranule;
  const Domain a = MustCreate("a", limit);
  EXPECT_EQ(FillUp(a, kGranule / 2).size(), 4u);
  // Fragments in all the rest.
  Fragment(14 * 4);
  EXPECT_FALSE(AllocateIn(a, kGranule / 2).ok());
  const uint64_t passes = pool().GetStats().compaction_passes;
  EXPECT_GT(passes, 0u);
  EXPECT_EQ(pool().GetStats().granules_moved, 0u);
  // Nor is it made again and again.
  EXPECT_FALSE(AllocateIn(a, kGranule / 2).ok());
  EXPECT_FALSE(AllocateIn(a, kGranule).ok());
  EXPECT_LE(pool().GetStats().compaction_passes, passes + 1);
  FIRN_EXPECT_OK(AllocateIn(none_, 4 * kGranule).status());
  EXPECT_GT(pool().GetStats().granules_moved, 0u);
}

TEST_P(DomainRegressionTest, AFailedZeroingIsNotRemembered) {
  const Domain a = MustCreate("a");
  FreeAll(FillUp(none_, kGranule));
  on_cpu_->faults().FailRandomlyOf(DriverCall::kMemsetD8Async, 1.0, 1,
                                   DriverResult::kOutOfMemory);
  EXPECT_FALSE(AllocateIn(a, 5 * kGranule).ok());
  on_cpu_->faults().Reset();
  FIRN_EXPECT_OK(AllocateIn(a, 5 * kGranule).status());
}

// These end with a pool that has lost addresses, which CheckInvariants reports.
class LostAddressesTest : public DomainRegressionTest {
 protected:
  void TearDown() override {}
};

TEST_P(LostAddressesTest, WhatSetLimitLosesIsHandedOutToNobody) {
  const std::vector<FilledBlock> all = FillUp(none_, kGranule, 9);
  for (const size_t i : {size_t{0}, size_t{1}, size_t{4}, size_t{5}}) {
    FIRN_EXPECT_OK(pool().Free(all[i].ptr));
  }
  LoseAnAddress();
  MemoryLimit limit;
  limit.soft_bytes = kGranule;
  EXPECT_FALSE(pool().SetLimit(limit).ok());
  on_cpu_->faults().Reset();
  EXPECT_FALSE(pool().CheckInvariants().ok());
  ExpectMapped(none_, 4);
}

TEST_P(LostAddressesTest, WhatClearingAwayADomainLosesIsHandedOutToNobody) {
  std::optional<Domain> c = MustCreate("c");
  const std::vector<FilledBlock> all = FillUp(*c, kGranule, 9);
  for (const size_t i : {size_t{0}, size_t{1}, size_t{4}, size_t{5}}) {
    FIRN_EXPECT_OK(pool().Free(all[i].ptr));
  }
  c.reset();
  LoseAnAddress();
  const Domain d = MustCreate("d");
  on_cpu_->faults().Reset();
  for (const size_t i :
       {size_t{2}, size_t{3}, size_t{6}, size_t{7}, size_t{8}}) {
    FIRN_EXPECT_OK(pool().Free(all[i].ptr));
  }
  EXPECT_FALSE(pool().CheckInvariants().ok());
  const Domain e = MustCreate("e");
  ExpectMapped(e, 4);
  ExpectMapped(none_, 4);
}

INSTANTIATE_TEST_SUITE_P(Extremes, DomainRegressionTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);
INSTANTIATE_TEST_SUITE_P(Extremes, LostAddressesTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn
