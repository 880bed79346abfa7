// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The budget of a granule store changes while it is in use.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/store_keeper.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"
#include "tests/vmm/watching_driver.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class GranuleStoreLimitsTest : public GranuleStoreScene {
 protected:
  // Counts how often the store asks for maintenance.
  void CountAsking() {
    store_->SetMaintenanceWanted([this] {
      ++asked_;
      FIRN_EXPECT_OK(store_->CheckInvariants());
    });
  }

  WatchingDriver watching_{&driver_};
  int asked_ = 0;
};

TEST_F(GranuleStoreLimitsTest, ABudgetOutOfRangeIsRefusedAndChangesNothing) {
  GranuleStore& store = MakeStore(5);
  EXPECT_THAT(store.SetBudget(0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("budget_granules is 0: it must be from 1 to "
                                 "5, the budget that the store was made")));
  EXPECT_THAT(store.SetBudget(6), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("budget_granules is 6")));
  EXPECT_EQ(store.budget_granules(), 5u);
  EXPECT_THAT(Acquire(6).granules, SizeIs(5));
  FIRN_EXPECT_OK(store.SetBudget(1));
  FIRN_EXPECT_OK(store.SetBudget(5));
  EXPECT_EQ(store.most_budget_granules(), 5u);
}

TEST_F(GranuleStoreLimitsTest, ALowerBudgetHoldsForAllDeviceMemory) {
  GranuleStore& store = MakeStore(8);
  FIRN_ASSERT_OK(store.SetBudget(3));
  EXPECT_EQ(store.budget_granules(), 3u);
  EXPECT_EQ(store.most_budget_granules(), 8u);
  EXPECT_EQ(store.free_budget_granules(), 3u);
  EXPECT_THAT(Acquire(2, GranuleKind::kExportable).granules, SizeIs(2));
  EXPECT_THAT(Acquire(2).granules, SizeIs(1));
  EXPECT_EQ(store.free_budget_granules(), 0u);
  EXPECT_EQ(device_granules_held(), 3u);
}

TEST_F(GranuleStoreLimitsTest, ABudgetBelowWhatIsHeldTakesNothingAway) {
  GranuleStore& store = MakeStore(8);
  const std::vector<GranuleId> out = Acquire(4).granules;
  const std::vector<GranuleId> cached = FillCache(2);
  driver_.Reset();
  FIRN_ASSERT_OK(store.SetBudget(2));
  EXPECT_EQ(driver_.calls(), 0u);
  EXPECT_EQ(store.held_granules(), 6u);
  EXPECT_EQ(store.free_budget_granules(), 0u);
  FIRN_EXPECT_OK(store.CheckInvariants());
  // What is cached can be had, and nothing else.
  EXPECT_THAT(Acquire(4).granules, ElementsAre(cached[1], cached[0]));
  for (const GranuleId granule : cached) store.Put(granule);
  for (const GranuleId granule : out) store.Put(granule);
  EXPECT_EQ(store.cached_granules(), 6u);
}

TEST_F(GranuleStoreLimitsTest, GranulesAreCreatedAgainOnceLessIsHeld) {
  GranuleStore& store = MakeStore(8);
  FillCache(6);
  FIRN_ASSERT_OK(store.SetBudget(3));
  EXPECT_THAT(store.ReleaseCached(4), IsOkAndHolds(2u));
  FIRN_EXPECT_OK(store.CheckInvariants());
  Acquisition four = Acquire(5);
  EXPECT_THAT(four.granules, SizeIs(4)) << "nothing but what is cached";
  store.Put(four.granules[0]);
  store.Put(four.granules[1]);
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(2u));
  const Acquisition created = Acquire(5);
  EXPECT_THAT(created.granules, SizeIs(1));
  EXPECT_EQ(created.created, 1u);
}

TEST_F(GranuleStoreLimitsTest, ARaisedBudgetIsUsedAtOnce) {
  GranuleStore& store = MakeStore(8);
  FIRN_ASSERT_OK(store.SetBudget(2));
  EXPECT_THAT(Acquire(8).granules, SizeIs(2));
  FIRN_ASSERT_OK(store.SetBudget(5));
  EXPECT_THAT(Acquire(8).granules, SizeIs(3));
}

TEST_F(GranuleStoreLimitsTest, AFailedCreationUnderALoweredBudgetIsUndone) {
  GranuleStore& store = MakeStore(8);
  Acquire(2);
  FIRN_ASSERT_OK(store.SetBudget(4));
  driver_.FailNthOf(DriverCall::kMemCreate, 0, DriverResult::kUnknown);
  Acquisition acquisition;
  EXPECT_THAT(store.AcquireAtMost(4, &acquisition),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_THAT(Acquire(4).granules, SizeIs(2));
}

TEST_F(GranuleStoreLimitsTest,
       ABudgetLoweredWhileGranulesAreCreatedHoldsAfter) {
  GranuleStore& store = MakeStoreOn(&watching_, Options(6));
  watching_.Hold(DriverCall::kMemCreate);
  Acquisition acquisition;
  std::thread creator(
      [&] { FIRN_EXPECT_OK(store.AcquireAtMost(4, &acquisition)); });
  watching_.AwaitHeldCall();
  FIRN_EXPECT_OK(store.SetBudget(2));
  FIRN_EXPECT_OK(store.CheckInvariants());
  // One of the four fails: what was set aside for it does not come back.
  driver_.Reset();
  driver_.FailNthOf(DriverCall::kMemCreate, 3, DriverResult::kOutOfMemory);
  watching_.LetGo();
  creator.join();
  EXPECT_THAT(acquisition.granules, SizeIs(3));
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_THAT(Acquire(4).granules, SizeIs(0));
}

// --- Maintenance ---

TEST_F(GranuleStoreLimitsTest, ARefillKeepsToALoweredBudgetAndIsNotAskedFor) {
  GranuleStoreOptions options = Options(8);
  options.low_water_granules = 4;
  GranuleStore& store = MakeStore(options);
  FIRN_ASSERT_OK(store.SetBudget(2));
  CountAsking();
  FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
  EXPECT_EQ(store.cached_granules(), 2u);
  for (int i = 0; i < 3; ++i) {
    store.Put(store.Get());
    EXPECT_EQ(asked_, 0) << "the mark is out of reach";
  }
  // Within reach again.
  FIRN_ASSERT_OK(store.SetBudget(3));
  EXPECT_EQ(asked_, 1);
  FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
  EXPECT_EQ(store.cached_granules(), 3u);
  store.Put(store.Get());
  EXPECT_EQ(asked_, 1);
}

TEST_F(GranuleStoreLimitsTest, MaintainReleasesWhatIsCachedBeyondTheBudget) {
  GranuleStoreOptions options = Options(8);
  options.low_water_granules = 3;
  GranuleStore& store = MakeStore(options);
  const GranuleId out = Acquire(1).granules[0];
  const std::vector<GranuleId> cached = FillCache(4);
  const std::vector<GranuleId> other = FillCache(1, GranuleKind::kExportable);
  CountAsking();
  FIRN_ASSERT_OK(store.SetBudget(6));
  EXPECT_EQ(asked_, 0);
  FIRN_ASSERT_OK(store.SetBudget(3));
  EXPECT_EQ(asked_, 1);
  FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
  EXPECT_EQ(store.held_granules(), 3u);
  EXPECT_TRUE(store.is_held(out));
  EXPECT_TRUE(store.is_cached(cached[3])) << "the newest stays";
  FIRN_EXPECT_OK(store.CheckInvariants());
  // More is given out than the budget allows: what comes back is to go.
  const GranuleId second = store.Get();
  FIRN_EXPECT_OK(store.SetBudget(1));
  EXPECT_EQ(asked_, 2);
  FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_TRUE(store.Get().is_none());
  EXPECT_EQ(asked_, 2) << "there is nothing to release, and no room to create";
  store.Put(second);
  EXPECT_EQ(asked_, 3);
  FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
  EXPECT_EQ(store.held_granules(), 1u);
  EXPECT_TRUE(store.is_held(out));
}

TEST_F(GranuleStoreLimitsTest, WhatTheDriverRefusesToReleaseStaysBeyondIt) {
  for (uint32_t n = 0; n < 4; ++n) {
    SCOPED_TRACE(n);
    GranuleStore& store = MakeStore(8);
    FillCache(6);
    FIRN_ASSERT_OK(store.SetBudget(2));
    driver_.Reset();
    driver_.FailNth(n, DriverResult::kUnknown);
    EXPECT_THAT(store.Maintain(absl::UnixEpoch()),
                StatusIs(absl::StatusCode::kInternal));
    EXPECT_EQ(store.held_granules(), 6 - n);
    EXPECT_EQ(device_granules_held(), 6 - n);
    FIRN_ASSERT_OK(store.CheckInvariants());
    FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
    EXPECT_EQ(store.held_granules(), 2u);
  }
}

// --- Threads ---

TEST_F(GranuleStoreLimitsTest, ABudgetThatChangesWhileThreadsAcquireHolds) {
  constexpr uint32_t kMost = 24;
  constexpr int kSteps = kUnderThreadSanitizer ? 400 : 1500;
  capped_.set_most_handles(std::numeric_limits<uint32_t>::max());
  GranuleStoreOptions options = Options(kMost);
  options.low_water_granules = 4;
  GranuleStore& store = MakeStoreOn(&watching_, options);
  driver_.FailRandomlyOf(DriverCall::kMemCreate, 0.02, /*seed=*/1,
                         DriverResult::kOutOfMemory);
  driver_.FailRandomlyOf(DriverCall::kMemRelease, 0.02, /*seed=*/2,
                         DriverResult::kUnknown);
  StoreKeeperOptions keeper_options;
  keeper_options.period = absl::Milliseconds(1);
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<StoreKeeper> keeper,
      StoreKeeper::Start(&driver_, &store, keeper_options));
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&store, &running, seed] {
      SmallRandom random(seed);
      for (int step = 0; step < kSteps; ++step) {
        Acquisition acquisition;
        FIRN_EXPECT_OK(
            store.AcquireAtMost(random.Between(1, 10), &acquisition));
        if (random.OneIn(2)) {
          store.GiveBack(acquisition);
        } else {
          for (const GranuleId granule : acquisition.granules) {
            store.Put(granule);
          }
        }
        if (random.OneIn(8)) store.ReleaseCached(2).IgnoreError();
      }
      --running;
    });
  }
  SmallRandom random(7);
  while (running > 0) {
    const uint32_t budget = random.Between(1, kMost);
    FIRN_EXPECT_OK(store.SetBudget(budget));
    const uint32_t held = store.held_granules();
    for (int i = 0; i < 3; ++i) {
      std::this_thread::yield();
      EXPECT_LE(store.held_granules(), std::max(budget, held))
          << "what is held beyond the budget only falls";
      EXPECT_LE(watching_.handles(), std::max(budget, held));
    }
    FIRN_EXPECT_OK(store.CheckInvariants());
  }
  for (std::thread& thread : threads) thread.join();
  keeper.reset();
  driver_.Reset();
  EXPECT_LE(watching_.most_handles(), kMost);
  EXPECT_THAT(store.ReleaseCached(0), IsOk());
  EXPECT_EQ(store.held_granules(), 0u);
  EXPECT_EQ(watching_.handles(), 0u);
  FIRN_EXPECT_OK(store.CheckInvariants());
}

}  // namespace
}  // namespace firn::testing
