// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/granule_store.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint32_t kDeviceGranules = 8;

class GranuleStoreTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (store_.has_value()) {
      FIRN_EXPECT_OK(store_->CheckInvariants());
    }
    store_.reset();
    EXPECT_EQ(FreeBytesOf(device_.get()), kDeviceGranules * kTestGranuleBytes)
        << "the store kept memory";
  }

  GranuleStore& MakeStore(uint32_t budget_granules) {
    store_.emplace(&driver_, MovableProp(0), kTestGranuleBytes,
                   budget_granules);
    return *store_;
  }
  Acquisition Acquire(uint32_t count) {
    Acquisition acquisition;
    FIRN_EXPECT_OK(store_->AcquireAtMost(count, &acquisition));
    FIRN_EXPECT_OK(store_->CheckInvariants());
    return acquisition;
  }
  uint64_t device_granules_held() {
    return kDeviceGranules - FreeBytesOf(device_.get()) / kTestGranuleBytes;
  }

  std::unique_ptr<CpuDriver> device_ =
      MakeTestDevice(CpuStorage::kGhost, kDeviceGranules);
  FaultingDriver driver_{device_.get()};
  std::optional<GranuleStore> store_;
};

TEST_F(GranuleStoreTest, MovableMemoryIsPinnedToItsDeviceAndNotExportable) {
  const AllocationProp prop = MovableProp(3);
  EXPECT_EQ(prop.type, AllocationType::kPinned);
  EXPECT_EQ(prop.location.type, LocationType::kDevice);
  EXPECT_EQ(prop.location.id, 3);
  EXPECT_EQ(prop.requested_handle_types, ShareableHandleType::kNone);
  EXPECT_EQ(prop.alloc_flags.gpu_direct_rdma_capable, 0);
  EXPECT_EQ(prop.win32_handle_metadata, nullptr);
}

TEST_F(GranuleStoreTest, ANewStoreHoldsNothing) {
  const GranuleStore& store = MakeStore(4);
  EXPECT_EQ(store.budget_granules(), 4u);
  EXPECT_EQ(store.granule_bytes(), kTestGranuleBytes);
  EXPECT_EQ(store.held_granules(), 0u);
  EXPECT_EQ(store.cached_granules(), 0u);
  EXPECT_EQ(store.id_limit(), 0u);
  EXPECT_EQ(driver_.calls(), 0u);
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
  store.Cache(first.granules[0]);
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
  store.Cache(Acquire(1).granules[0]);
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
  store.Cache(first.granules[0]);
  store.Cache(first.granules[1]);
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
  const GranuleId early = Acquire(1).granules[0];
  store.Cache(early);
  Acquisition acquisition;
  FIRN_ASSERT_OK(store.AcquireAtMost(2, &acquisition));
  const GranuleId late = Acquire(1).granules[0];
  store.Cache(late);
  FIRN_ASSERT_OK(store.AcquireAtMost(2, &acquisition));
  EXPECT_THAT(acquisition.granules, SizeIs(4));
  store.GiveBack(acquisition);
  // What came from the cache is there again, and nothing else is held.
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_EQ(store.cached_granules(), 2u);
  EXPECT_TRUE(store.is_cached(early));
  EXPECT_TRUE(store.is_cached(late));
  EXPECT_EQ(device_granules_held(), 2u);
}

TEST_F(GranuleStoreTest, GiveBackRestoresCacheAndDeviceExactly) {
  GranuleStore& store = MakeStore(6);
  const Acquisition first = Acquire(3);
  for (const GranuleId granule : first.granules) store.Cache(granule);
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
  for (uint32_t i = 0; i < 3; ++i) store.Cache(acquisition.granules[i]);
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
  for (const GranuleId granule : acquisition.granules) store.Cache(granule);
  driver_.FailNthOf(DriverCall::kMemRelease, 1, DriverResult::kUnknown);
  EXPECT_THAT(store.ReleaseCached(0),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemRelease")));
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.held_granules(), 3u);
  EXPECT_EQ(store.cached_granules(), 3u);
  EXPECT_EQ(device_granules_held(), 3u);
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(3u));
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
  store.Cache(acquisition.granules[1]);
  store.Cache(acquisition.granules[3]);
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
          store.Cache(out.back());
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
