// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What GranuleStore::Maintain does, and when the store asks for it.

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr uint32_t kNoMark = std::numeric_limits<uint32_t>::max();

// Any time will do: only differences matter.
absl::Time At(int64_t seconds) {
  return absl::FromUnixSeconds(1000) + absl::Seconds(seconds);
}

auto Reports(uint32_t created, uint32_t released) {
  return IsOkAndHolds(
      AllOf(Field(&MaintenanceReport::created_granules, created),
            Field(&MaintenanceReport::released_granules, released)));
}

class GranuleStoreUpkeepTest : public GranuleStoreScene {
 protected:
  GranuleStore& MakeStoreWithMarks(
      uint32_t budget_granules, uint32_t low, uint32_t high,
      absl::Duration max_idle = absl::InfiniteDuration()) {
    GranuleStoreOptions options = Options(budget_granules);
    options.low_water_granules = low;
    options.high_water_granules = high;
    options.max_idle = max_idle;
    return MakeStore(options);
  }
  // Counts how often the store asks; checks that it does so without its lock.
  void CountAsking() {
    store_->SetMaintenanceWanted([this] {
      ++asked_;
      FIRN_EXPECT_OK(store_->CheckInvariants());
    });
  }
  // A granule that retires once it is put back.
  GranuleId SharedGranule() {
    const GranuleId granule = Acquire(1, GranuleKind::kExportable).granules[0];
    FIRN_EXPECT_OK(store_->MarkShared(granule));
    return granule;
  }

  int asked_ = 0;
};

TEST_F(GranuleStoreUpkeepTest, MaintainRefillsTheCacheToItsLowWaterMark) {
  GranuleStore& store = MakeStoreWithMarks(8, 3, kNoMark);
  EXPECT_THAT(store.Maintain(At(0)), Reports(3, 0));
  EXPECT_EQ(store.cached_granules(), 3u);
  EXPECT_EQ(store.Get().is_none(), false);
  EXPECT_THAT(store.Maintain(At(0)), Reports(1, 0));
  EXPECT_EQ(device_granules_held(), 4u);
}

TEST_F(GranuleStoreUpkeepTest, ARefillOfManyGranulesEndsAtTheMark) {
  capped_.set_most_handles(kNoMark);
  GranuleStore& store = MakeStoreWithMarks(200, 100, kNoMark);
  EXPECT_THAT(store.Maintain(At(0)), Reports(100, 0));
  EXPECT_EQ(store.cached_granules(), 100u);
  EXPECT_EQ(store.created_total(), 100u);
}

TEST_F(GranuleStoreUpkeepTest, ARefillKeepsToTheBudget) {
  GranuleStore& store = MakeStoreWithMarks(5, 4, kNoMark);
  Acquire(3);
  EXPECT_THAT(store.Maintain(At(0)), Reports(2, 0));
  EXPECT_EQ(store.held_granules(), 5u);
}

TEST_F(GranuleStoreUpkeepTest,
       MaintainReleasesTheOldestBeyondTheHighWaterMark) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, 3);
  const std::vector<GranuleId> cached = FillCache(6);
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 3));
  EXPECT_THAT(CacheContents(), ElementsAre(cached[5], cached[4], cached[3]));
  EXPECT_EQ(device_granules_held(), 3u);
}

TEST_F(GranuleStoreUpkeepTest, TheHighWaterMarkIsNeverBelowTheLowOne) {
  GranuleStore& store = MakeStoreWithMarks(8, 4, 1);
  FillCache(6);
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 2));
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 0));
  EXPECT_EQ(store.cached_granules(), 4u);
}

TEST_F(GranuleStoreUpkeepTest, TheHighWaterMarkHoldsForEachCache) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, 1);
  FillCache(3);
  FillCache(3, GranuleKind::kExportable);
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 4));
  EXPECT_EQ(store.cached_granules(), 1u);
  EXPECT_EQ(store.held_granules(), 2u);
}

TEST_F(GranuleStoreUpkeepTest, MaintainWithNothingToDoMakesNoDriverCall) {
  GranuleStore& store = MakeStoreWithMarks(8, 2, 4, absl::Seconds(10));
  FillCache(3);
  driver_.Reset();
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 0));
  EXPECT_THAT(store.Maintain(At(5)), Reports(0, 0));
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(GranuleStoreUpkeepTest, IdleGranulesAreReleasedButForTheLowWaterMark) {
  GranuleStore& store = MakeStoreWithMarks(8, 2, kNoMark, absl::Seconds(10));
  const std::vector<GranuleId> cached = FillCache(5);
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 0));
  EXPECT_THAT(store.Maintain(At(10)), Reports(0, 0)) << "not for longer";
  EXPECT_THAT(store.Maintain(At(11)), Reports(0, 3));
  EXPECT_THAT(CacheContents(), ElementsAre(cached[4], cached[3]));
}

TEST_F(GranuleStoreUpkeepTest, AgesAreCountedFromTheFirstMaintainAfterPut) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, kNoMark, absl::Seconds(10));
  const std::vector<GranuleId> early = FillCache(2);
  FIRN_EXPECT_OK(store.Maintain(At(0)));
  // Used in between: its age begins anew.
  store.Put(store.Get());
  const GranuleId late = Acquire(3).granules[2];
  store.Put(early[0]);
  store.Put(early[1]);
  FIRN_EXPECT_OK(store.Maintain(At(6)));
  store.Put(late);
  EXPECT_THAT(store.Maintain(At(12)), Reports(0, 0));
  EXPECT_THAT(store.Maintain(At(17)), Reports(0, 2));
  EXPECT_THAT(CacheContents(), ElementsAre(late));
  EXPECT_THAT(store.Maintain(At(22)), Reports(0, 0));
  EXPECT_THAT(store.Maintain(At(23)), Reports(0, 1));
}

TEST_F(GranuleStoreUpkeepTest, AnAcquisitionGivenBackLeavesAgesAsTheyWere) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, kNoMark, absl::Seconds(10));
  FillCache(3);
  FIRN_EXPECT_OK(store.Maintain(At(0)));
  store.GiveBack(Acquire(3));
  FIRN_EXPECT_OK(store.Maintain(At(9)));
  EXPECT_THAT(store.Maintain(At(11)), Reports(0, 3));
}

TEST_F(GranuleStoreUpkeepTest, AClockThatGoesBackReleasesNothingEarly) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, kNoMark, absl::Seconds(10));
  const std::vector<GranuleId> early = FillCache(2);
  FIRN_EXPECT_OK(store.Maintain(At(100)));
  Acquisition acquisition = Acquire(3);
  const GranuleId late = acquisition.granules[2];
  acquisition.granules.pop_back();
  acquisition.created = 0;
  store.GiveBack(acquisition);
  store.Put(late);
  EXPECT_THAT(store.Maintain(At(50)), Reports(0, 0));
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_THAT(store.Maintain(At(61)), Reports(0, 0));
  EXPECT_THAT(CacheContents(), ElementsAre(late, early[1], early[0]));
  EXPECT_THAT(store.Maintain(At(111)), Reports(0, 3));
}

TEST_F(GranuleStoreUpkeepTest, MaintainReleasesWhatRetires) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, kNoMark);
  store.Put(SharedGranule());
  FillCache(2);
  EXPECT_EQ(store.retiring_granules(), 1u);
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 1));
  EXPECT_EQ(store.retiring_granules(), 0u);
  EXPECT_EQ(store.held_granules(), 2u);
}

TEST_F(GranuleStoreUpkeepTest, WhatRetiresMakesRoomForARefill) {
  GranuleStore& store = MakeStoreWithMarks(2, 2, kNoMark);
  store.Put(SharedGranule());
  store.Put(SharedGranule());
  EXPECT_THAT(store.Maintain(At(0)), Reports(2, 2));
}

TEST_F(GranuleStoreUpkeepTest, ADeviceWithoutMemoryEndsARefillWithoutAnError) {
  capped_.set_most_handles(2);
  GranuleStore& store = MakeStoreWithMarks(8, 4, kNoMark);
  EXPECT_THAT(store.Maintain(At(0)), Reports(2, 0));
  EXPECT_EQ(store.held_granules(), 2u);
}

TEST_F(GranuleStoreUpkeepTest, AnotherRefusalOfARefillIsAnError) {
  GranuleStore& store = MakeStoreWithMarks(8, 4, kNoMark);
  driver_.FailNthOf(DriverCall::kMemCreate, 2, DriverResult::kUnknown);
  EXPECT_THAT(store.Maintain(At(0)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemCreate")));
  EXPECT_EQ(store.cached_granules(), 2u);
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_THAT(store.Maintain(At(0)), Reports(2, 0));
}

TEST_F(GranuleStoreUpkeepTest, ARefusedReleaseIsAnErrorButRefillsAllTheSame) {
  GranuleStore& store = MakeStoreWithMarks(8, 2, kNoMark);
  store.Put(SharedGranule());
  driver_.FailNthOf(DriverCall::kMemRelease, 0, DriverResult::kUnknown);
  EXPECT_THAT(store.Maintain(At(0)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemRelease")));
  EXPECT_EQ(store.retiring_granules(), 1u);
  EXPECT_EQ(store.cached_granules(), 2u);
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 1));
}

// --- When it asks ---

TEST_F(GranuleStoreUpkeepTest, GetBelowTheLowWaterMarkAsksOnceUntilMaintained) {
  GranuleStore& store = MakeStoreWithMarks(8, 3, kNoMark);
  FillCache(4);
  CountAsking();
  store.Get();
  EXPECT_EQ(asked_, 0);
  const GranuleId out = store.Get();
  EXPECT_EQ(asked_, 1);
  for (int i = 0; i < 10; ++i) {
    store.Put(out);
    store.Get();
  }
  store.Get();
  EXPECT_EQ(asked_, 1);
  FIRN_EXPECT_OK(store.Maintain(At(0)));
  store.Get();
  EXPECT_EQ(asked_, 2);
}

TEST_F(GranuleStoreUpkeepTest, AnAcquisitionBelowTheLowWaterMarkAsks) {
  GranuleStore& store = MakeStoreWithMarks(8, 3, kNoMark);
  FillCache(4);
  CountAsking();
  const Acquisition acquisition = Acquire(2);
  EXPECT_EQ(asked_, 1);
  store.GiveBack(acquisition);
}

TEST_F(GranuleStoreUpkeepTest, NothingIsAskedForThatTheBudgetForbids) {
  GranuleStore& store = MakeStoreWithMarks(4, 3, kNoMark);
  FillCache(4);
  CountAsking();
  for (int i = 0; i < 4; ++i) store.Get();
  EXPECT_EQ(asked_, 0);
}

TEST_F(GranuleStoreUpkeepTest, PutBeyondTheHighWaterMarkAsks) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, 2);
  const std::vector<GranuleId> out = Acquire(4).granules;
  CountAsking();
  store.Put(out[0]);
  store.Put(out[1]);
  EXPECT_EQ(asked_, 0);
  store.Put(out[2]);
  EXPECT_EQ(asked_, 1);
  store.Put(out[3]);
  EXPECT_EQ(asked_, 1);
}

TEST_F(GranuleStoreUpkeepTest, PutOfASharedGranuleAsks) {
  GranuleStore& store = MakeStoreWithMarks(8, 0, kNoMark);
  const GranuleId shared = SharedGranule();
  CountAsking();
  store.Put(shared);
  EXPECT_EQ(asked_, 1);
}

TEST_F(GranuleStoreUpkeepTest, AfterARefusedMaintainItIsNotAskedForAtOnce) {
  capped_.set_most_handles(4);
  GranuleStore& store = MakeStoreWithMarks(8, 3, kNoMark);
  FillCache(4);
  CountAsking();
  store.Get();
  const GranuleId out = store.Get();
  EXPECT_EQ(asked_, 1);
  EXPECT_THAT(store.Maintain(At(0)), Reports(0, 0)) << "no memory";
  store.Put(out);
  store.Get();
  EXPECT_EQ(asked_, 1);
  capped_.set_most_handles(8);
  EXPECT_THAT(store.Maintain(At(1)), Reports(1, 0));
  store.Get();
  EXPECT_EQ(asked_, 2);
}

TEST_F(GranuleStoreUpkeepTest, WithoutAnybodyToAskAllGoesOn) {
  GranuleStore& store = MakeStoreWithMarks(8, 3, 3);
  FillCache(4);
  CountAsking();
  store.SetMaintenanceWanted(nullptr);
  store.Get();
  store.Get();
  EXPECT_EQ(asked_, 0);
  EXPECT_THAT(store.Maintain(At(0)), Reports(1, 0));
}

}  // namespace
}  // namespace firn::testing
