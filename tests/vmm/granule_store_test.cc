// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/granule_store.h"

#include <cstdint>
#include <set>
#include <vector>

#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GranuleStoreTest : public GranuleStoreScene {};

TEST_F(GranuleStoreTest, ANewStoreHoldsNothing) {
  const GranuleStore& store = MakeStore(4);
  EXPECT_EQ(store.budget_granules(), 4u);
  EXPECT_EQ(store.granule_bytes(), granule_bytes());
  EXPECT_EQ(store.held_granules(), 0u);
  EXPECT_EQ(store.cached_granules(), 0u);
  EXPECT_EQ(store.retiring_granules(), 0u);
  EXPECT_EQ(store.quarantined_granules(), 0u);
  EXPECT_EQ(store.id_limit(), 0u);
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(GranuleStoreTest, GetGivesOutTheGranuleThatWasPutLast) {
  GranuleStore& store = MakeStore(4);
  const std::vector<GranuleId> cached = FillCache(3);
  EXPECT_EQ(store.Get(), cached[2]);
  EXPECT_EQ(store.Get(), cached[1]);
  store.Put(cached[2]);
  EXPECT_EQ(store.Get(), cached[2]);
  EXPECT_EQ(store.cached_granules(), 1u);
  EXPECT_EQ(store.kind(cached[2]), GranuleKind::kMovable);
  EXPECT_FALSE(store.is_cached(cached[2]));
}

TEST_F(GranuleStoreTest, GetOfAnEmptyCacheGivesNone) {
  GranuleStore& store = MakeStore(4);
  EXPECT_TRUE(store.Get().is_none());
  const GranuleId only = FillCache(1)[0];
  EXPECT_EQ(store.Get(), only);
  EXPECT_TRUE(store.Get().is_none()) << "the budget has room, the cache not";
}

TEST_F(GranuleStoreTest, GetAndPutMakeNoDriverCall) {
  GranuleStoreOptions options = Options(8);
  options.low_water_granules = 4;
  options.high_water_granules = 4;
  GranuleStore& store = MakeStore(options);
  const std::vector<GranuleId> out = Acquire(7).granules;
  const GranuleId shared = Acquire(1, GranuleKind::kExportable).granules[0];
  FIRN_ASSERT_OK(store.MarkShared(shared));
  driver_.Reset();
  for (const GranuleId granule : out) store.Put(granule);  // beyond the mark
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(store.Get().is_none());  // below it
  store.Put(shared);
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(GranuleStoreTest, PutOfAGranuleThatIsNotGivenOutChangesNothing) {
  GranuleStore& store = MakeStore(4);
  const std::vector<GranuleId> cached = FillCache(3);
  store.Put(cached[0]);  // once more
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_THAT(CacheContents(), ElementsAre(cached[2], cached[1], cached[0]));
  FIRN_EXPECT_OK(store.ReleaseCached(0));
  store.Put(cached[1]);  // which is released
  store.Put(GranuleId());
  EXPECT_EQ(store.cached_granules(), 0u);
}

TEST_F(GranuleStoreTest, CreatesGranulesWithHandlesOfTheirOwn) {
  GranuleStore& store = MakeStore(4);
  const Acquisition acquisition = Acquire(3);
  ASSERT_THAT(acquisition.granules, SizeIs(3));
  EXPECT_EQ(acquisition.created, 3u);
  std::set<PhysicalHandle> handles;
  for (const GranuleId granule : acquisition.granules) {
    EXPECT_LT(granule.value(), store.id_limit());
    EXPECT_TRUE(store.is_held(granule));
    EXPECT_FALSE(store.is_cached(granule));
    handles.insert(store.handle(granule));
  }
  EXPECT_THAT(handles, SizeIs(3));
  EXPECT_EQ(store.held_granules(), 3u);
  EXPECT_EQ(store.created_total(), 3u);
  EXPECT_EQ(device_granules_held(), 3u);
}

TEST_F(GranuleStoreTest, TheBudgetEndsAnAcquisitionWithoutAnError) {
  GranuleStore& store = MakeStore(4);
  EXPECT_THAT(Acquire(3).granules, SizeIs(3));
  EXPECT_THAT(Acquire(3).granules, SizeIs(1));
  const uint64_t calls = driver_.calls();
  EXPECT_THAT(Acquire(3).granules, SizeIs(0));
  EXPECT_EQ(driver_.calls(), calls) << "the driver was asked beyond the budget";
  EXPECT_EQ(store.held_granules(), 4u);
}

TEST_F(GranuleStoreTest, CachedGranulesCountAgainstTheBudget) {
  GranuleStore& store = MakeStore(2);
  const Acquisition first = Acquire(2);
  store.Put(first.granules[0]);
  EXPECT_EQ(store.held_granules(), 2u);
  const Acquisition second = Acquire(2);
  EXPECT_THAT(second.granules, ElementsAre(first.granules[0]));
  EXPECT_EQ(second.created, 0u);
}

TEST_F(GranuleStoreTest, ADeviceWithoutMemoryEndsAnAcquisitionWithoutAnError) {
  GranuleStore& store = MakeStore(kDeviceGranules + 2);
  const Acquisition acquisition = Acquire(kDeviceGranules + 1);
  EXPECT_THAT(acquisition.granules, SizeIs(kDeviceGranules));
  EXPECT_EQ(acquisition.created, kDeviceGranules);
  EXPECT_EQ(store.held_granules(), kDeviceGranules);
}

TEST_F(GranuleStoreTest, OtherRefusalsAreErrorsAndKeepWhatWasAcquired) {
  GranuleStore& store = MakeStore(6);
  store.Put(Acquire(1).granules[0]);
  driver_.FailNthOf(DriverCall::kMemCreate, 2, DriverResult::kUnknown);
  Acquisition acquisition;
  EXPECT_THAT(store.AcquireAtMost(5, &acquisition),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemCreate")));
  EXPECT_THAT(acquisition.granules, SizeIs(3));
  EXPECT_EQ(acquisition.created, 2u);
  FIRN_EXPECT_OK(store.CheckInvariants());
  store.GiveBack(acquisition);
  EXPECT_EQ(store.held_granules(), 1u);
  EXPECT_EQ(store.cached_granules(), 1u);
  EXPECT_EQ(device_granules_held(), 1u);
}

TEST_F(GranuleStoreTest, TheCacheIsEmptiedBeforeAnythingIsCreated) {
  GranuleStore& store = MakeStore(6);
  const Acquisition first = Acquire(2);
  store.Put(first.granules[0]);
  store.Put(first.granules[1]);
  EXPECT_TRUE(store.is_cached(first.granules[0]));
  const Acquisition second = Acquire(3);
  ASSERT_THAT(second.granules, SizeIs(3));
  EXPECT_EQ(second.created, 1u);
  // Cached ones come first, created ones behind them.
  const std::set<uint32_t> from_cache = {second.granules[0].value(),
                                         second.granules[1].value()};
  EXPECT_THAT(from_cache, ElementsAre(first.granules[0].value(),
                                      first.granules[1].value()));
  EXPECT_EQ(store.cached_granules(), 0u);
  EXPECT_EQ(store.created_total(), 3u);
}

TEST_F(GranuleStoreTest, AnAcquisitionThatGrewIsGivenBackLikeAnyOther) {
  GranuleStore& store = MakeStore(6);
  const GranuleId early = FillCache(1)[0];
  Acquisition acquisition;
  FIRN_ASSERT_OK(store.AcquireAtMost(2, &acquisition));
  const GranuleId first_created = acquisition.granules[1];
  const std::vector<GranuleId> late = FillCache(2);
  FIRN_ASSERT_OK(store.AcquireAtMost(3, &acquisition));
  // Those from the cache, in order of their taking, before those created.
  ASSERT_THAT(acquisition.granules, SizeIs(5));
  EXPECT_EQ(acquisition.created, 2u);
  EXPECT_EQ(acquisition.granules[0], early);
  EXPECT_EQ(acquisition.granules[1], late[1]);
  EXPECT_EQ(acquisition.granules[2], late[0]);
  EXPECT_EQ(acquisition.granules[3], first_created);
  store.GiveBack(acquisition);
  // What came from the cache is there again, and nothing else is held.
  EXPECT_EQ(store.held_granules(), 3u);
  EXPECT_THAT(CacheContents(), ElementsAre(early, late[1], late[0]));
  EXPECT_EQ(device_granules_held(), 3u);
}

TEST_F(GranuleStoreTest, GiveBackRestoresCacheAndDeviceExactly) {
  GranuleStore& store = MakeStore(6);
  const Acquisition first = Acquire(3);
  for (const GranuleId granule : first.granules) store.Put(granule);
  const Acquisition second = Acquire(5);
  EXPECT_EQ(second.created, 2u);
  store.GiveBack(second);
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.held_granules(), 3u);
  EXPECT_EQ(store.cached_granules(), 3u);
  EXPECT_EQ(device_granules_held(), 3u);
  EXPECT_EQ(store.created_total(), 5u);
  EXPECT_EQ(store.released_total(), 2u);
  EXPECT_FALSE(store.is_held(second.granules[3]));
  // The same acquisition again takes the same cached granules in the same
  // order.
  const Acquisition third = Acquire(3);
  EXPECT_THAT(
      third.granules,
      ElementsAre(second.granules[0], second.granules[1], second.granules[2]));
}

TEST_F(GranuleStoreTest, GiveBackOfNothingDoesNothing) {
  GranuleStore& store = MakeStore(6);
  store.GiveBack(Acquisition());
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(GranuleStoreTest, WhatTheDriverDoesNotTakeBackIsCached) {
  GranuleStore& store = MakeStore(6);
  const Acquisition acquisition = Acquire(3);
  driver_.FailNthOf(DriverCall::kMemRelease, 1, DriverResult::kUnknown);
  store.GiveBack(acquisition);
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.held_granules(), 1u);
  EXPECT_EQ(store.cached_granules(), 1u);
  EXPECT_EQ(store.released_total(), 2u);
  EXPECT_EQ(device_granules_held(), 1u);
}

TEST_F(GranuleStoreTest, ReleaseCachedStopsAtWhatIsToBeKept) {
  GranuleStore& store = MakeStore(6);
  const Acquisition acquisition = Acquire(5);
  for (uint32_t i = 0; i < 3; ++i) store.Put(acquisition.granules[i]);
  EXPECT_THAT(store.ReleaseCached(5), IsOkAndHolds(0u));
  EXPECT_THAT(store.ReleaseCached(4), IsOkAndHolds(1u));
  EXPECT_EQ(store.cached_granules(), 2u);
  EXPECT_EQ(store.held_granules(), 4u);
  EXPECT_EQ(device_granules_held(), 4u);
  // Granules in use stay, however few are to be kept.
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(2u));
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(0u));
  EXPECT_TRUE(store.is_held(acquisition.granules[3]));
  EXPECT_FALSE(store.is_held(acquisition.granules[0]));
}

TEST_F(GranuleStoreTest, AFailedReleaseLeavesTheRestCached) {
  GranuleStore& store = MakeStore(6);
  const Acquisition acquisition = Acquire(4);
  for (const GranuleId granule : acquisition.granules) store.Put(granule);
  driver_.FailNthOf(DriverCall::kMemRelease, 1, DriverResult::kUnknown);
  EXPECT_THAT(store.ReleaseCached(0),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemRelease")));
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.held_granules(), 3u);
  EXPECT_EQ(store.cached_granules(), 3u);
  EXPECT_EQ(device_granules_held(), 3u);
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(3u));
}

TEST_F(GranuleStoreTest, TheOldestOfTheCacheIsReleasedFirst) {
  GranuleStore& store = MakeStore(6);
  const std::vector<GranuleId> cached = FillCache(5);
  EXPECT_THAT(store.ReleaseCached(3), IsOkAndHolds(2u));
  EXPECT_THAT(CacheContents(), ElementsAre(cached[4], cached[3], cached[2]));
}

TEST_F(GranuleStoreTest, AQuarantinedGranuleIsHeldAndNeverGivenOutAgain) {
  GranuleStore& store = MakeStore(6);
  const std::vector<GranuleId> cached = FillCache(3);
  const GranuleId out = Acquire(4).granules[3];
  for (const GranuleId granule : cached) store.Put(granule);
  store.Quarantine(out);
  store.Quarantine(cached[1]);  // from the middle of the cache
  store.Quarantine(cached[1]);  // once more
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.quarantined_granules(), 2u);
  EXPECT_TRUE(store.is_quarantined(out));
  EXPECT_TRUE(store.is_held(out));
  store.Put(out);
  EXPECT_TRUE(store.is_quarantined(out));
  EXPECT_THAT(CacheContents(), ElementsAre(cached[2], cached[0]));
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(2u));
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_EQ(device_granules_held(), 2u);
}

TEST_F(GranuleStoreTest, QuarantineOfAReleasedGranuleDoesNothing) {
  GranuleStore& store = MakeStore(6);
  const GranuleId gone = FillCache(1)[0];
  FIRN_ASSERT_OK(store.ReleaseCached(0));
  store.Quarantine(gone);
  store.Quarantine(GranuleId());
  EXPECT_EQ(store.quarantined_granules(), 0u);
}

TEST_F(GranuleStoreTest, GiveBackLeavesWhatWasQuarantinedMeanwhile) {
  GranuleStore& store = MakeStore(6);
  FillCache(2);
  const Acquisition acquisition = Acquire(4);
  store.Quarantine(acquisition.granules[0]);
  store.Quarantine(acquisition.granules[3]);
  store.GiveBack(acquisition);
  EXPECT_EQ(store.quarantined_granules(), 2u);
  EXPECT_EQ(store.cached_granules(), 1u);
  EXPECT_EQ(store.held_granules(), 3u);
}

TEST_F(GranuleStoreTest, AKindThatTheStoreHasNotCannotBeAcquired) {
  GranuleStoreOptions options = Options(4);
  options.exportable = AllocationProp();
  GranuleStore& store = MakeStore(options);
  for (const GranuleKind kind :
       {GranuleKind::kExportable, GranuleKind::kHost, GranuleKind::kImported}) {
    Acquisition acquisition;
    EXPECT_THAT(store.AcquireAtMost(1, &acquisition, kind),
                StatusIs(absl::StatusCode::kUnimplemented));
    EXPECT_THAT(acquisition.granules, IsEmpty());
  }
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(GranuleStoreTest, KindsOfDeviceMemoryShareABudgetButNoCache) {
  GranuleStore& store = MakeStore(4);
  const GranuleId movable = FillCache(1)[0];
  const Acquisition exportable = Acquire(4, GranuleKind::kExportable);
  EXPECT_THAT(exportable.granules, SizeIs(3));
  EXPECT_EQ(exportable.created, 3u);
  EXPECT_EQ(store.kind(exportable.granules[0]), GranuleKind::kExportable);
  EXPECT_TRUE(store.is_cached(movable));
  for (const GranuleId granule : exportable.granules) store.Put(granule);
  EXPECT_EQ(store.cached_granules(), 1u);
  EXPECT_TRUE(store.is_cached(exportable.granules[0]));
  EXPECT_THAT(Acquire(4).granules, ElementsAre(movable));
  EXPECT_THAT(Acquire(4, GranuleKind::kExportable).granules,
              ElementsAreArray(Reversed(exportable.granules)));
}

TEST_F(GranuleStoreTest, HostMemoryHasABudgetOfItsOwn) {
  GranuleStoreOptions options = Options(2);
  options.host = HostProp({LocationType::kHost, 0});
  options.host_budget_granules = 3;
  GranuleStore& store = MakeStore(options);
  PhysicalHandle probe = 0;
  if (driver_.MemCreate(&probe, granule_bytes(), &options.host, 0) !=
      DriverResult::kSuccess) {
    GTEST_SKIP() << "the device has no host memory of its own";
  }
  EXPECT_EQ(driver_.MemRelease(probe), DriverResult::kSuccess);
  EXPECT_THAT(Acquire(2).granules, SizeIs(2));
  const Acquisition host = Acquire(4, GranuleKind::kHost);
  EXPECT_THAT(host.granules, SizeIs(3));
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_EQ(store.held_host_granules(), 3u);
  for (const GranuleId granule : host.granules) store.Put(granule);
  EXPECT_EQ(store.cached_granules(), 0u);
  // A trim of device memory leaves it.
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(0u));
  EXPECT_EQ(store.held_host_granules(), 3u);
  const Acquisition again = Acquire(3, GranuleKind::kHost);
  EXPECT_EQ(again.created, 0u);
  store.GiveBack(again);
}

TEST_F(GranuleStoreTest, IdsOfReleasedGranulesAreUsedAgain) {
  GranuleStore& store = MakeStore(6);
  for (int i = 0; i < 10; ++i) {
    const Acquisition acquisition = Acquire(3);
    EXPECT_THAT(acquisition.granules, SizeIs(3));
    store.GiveBack(acquisition);
  }
  EXPECT_EQ(store.id_limit(), 3u);
  EXPECT_EQ(store.created_total(), 30u);
  EXPECT_EQ(store.released_total(), 30u);
}

TEST_F(GranuleStoreTest, DestructionReleasesCachedAndHandedOutGranules) {
  GranuleStore& store = MakeStore(6);
  const Acquisition acquisition = Acquire(5);
  store.Put(acquisition.granules[1]);
  store.Put(acquisition.granules[3]);
  FIRN_EXPECT_OK(store.ReleaseCached(4));
  EXPECT_EQ(device_granules_held(), 4u);
  store_.reset();
  EXPECT_EQ(device_granules_held(), 0u);
}

TEST_F(GranuleStoreTest, RandomUseKeepsCountsInLineWithTheDevice) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SmallRandom random(seed);
    GranuleStore& store = MakeStore(6);
    std::vector<GranuleId> out;
    for (int step = 0; step < 200; ++step) {
      driver_.Reset();
      if (random.OneIn(3))
        driver_.FailNth(random.Below(4), DriverResult::kUnknown);
      switch (random.Below(4)) {
        case 0: {
          Acquisition acquisition;
          const uint32_t wanted = random.Between(1, 4);
          const bool ok = store.AcquireAtMost(wanted, &acquisition).ok();
          if (!ok || random.OneIn(2)) {
            store.GiveBack(acquisition);
            break;
          }
          ASSERT_LE(acquisition.granules.size(), wanted);
          for (const GranuleId granule : acquisition.granules) {
            out.push_back(granule);
          }
          break;
        }
        case 1:
        case 2:
          if (out.empty()) break;
          store.Put(out.back());
          out.pop_back();
          break;
        case 3:
          store.ReleaseCached(random.Below(7)).IgnoreError();
          break;
      }
      FIRN_ASSERT_OK(store.CheckInvariants());
      ASSERT_EQ(store.held_granules(), out.size() + store.cached_granules());
      ASSERT_EQ(store.held_granules(), device_granules_held());
      for (const GranuleId granule : out) {
        ASSERT_TRUE(store.is_held(granule));
        ASSERT_FALSE(store.is_cached(granule));
      }
    }
    driver_.Reset();
    store_.reset();
    ASSERT_EQ(device_granules_held(), 0u);
  }
}

}  // namespace
}  // namespace firn::testing
