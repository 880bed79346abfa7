// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Granule stores of a device that share a budget: what one does not use,
// another one gets, and the budget knows at all times what they hold.

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/shared_budget.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"
#include "tests/vmm/watching_driver.h"

namespace firn::testing {
namespace {

using ::testing::SizeIs;

// The scene's store and two others, each with room for all that the budget
// allows.
class GranuleStoreSharedTest : public GranuleStoreScene {
 protected:
  void TearDown() override {
    driver_.Reset();
    ExpectSumsAgree();
    second_.reset();
    third_.reset();
    store_.reset();
    if (budget_ != nullptr) {
      EXPECT_EQ(budget_->held_bytes(), 0u);
      FIRN_EXPECT_OK(budget_->CheckInvariants());
    }
    GranuleStoreScene::TearDown();
  }

  GranuleStoreOptions SharedOptions() const {
    GranuleStoreOptions options = Options(kDeviceGranules);
    options.shared_budget = budget_;
    return options;
  }
  void MakeStores(uint32_t limit_granules) {
    budget_ = *SharedBudget::Create(limit_granules * granule_bytes());
    store_.emplace(&watching_, SharedOptions());
    second_.emplace(&watching_, SharedOptions());
    third_.emplace(&watching_, SharedOptions());
  }
  // What the budget says is the sum of what the stores say, and that is what
  // there is.
  void ExpectSumsAgree() {
    if (budget_ == nullptr) return;
    uint64_t granules = 0;
    for (const std::optional<GranuleStore>* store :
         {&store_, &second_, &third_}) {
      if (!store->has_value()) continue;
      granules += (*store)->held_granules();
      FIRN_EXPECT_OK((*store)->CheckInvariants());
    }
    EXPECT_EQ(budget_->held_bytes(), granules * granule_bytes());
    EXPECT_EQ(device_granules_held(), granules);
  }

  static std::vector<GranuleId> AcquireFrom(
      GranuleStore* store, uint32_t count,
      GranuleKind kind = GranuleKind::kMovable) {
    Acquisition acquisition;
    FIRN_EXPECT_OK(store->AcquireAtMost(count, &acquisition, kind));
    return acquisition.granules;
  }
  static std::vector<GranuleId> FillCacheOf(
      GranuleStore* store, uint32_t count,
      GranuleKind kind = GranuleKind::kMovable) {
    const std::vector<GranuleId> granules = AcquireFrom(store, count, kind);
    EXPECT_THAT(granules, SizeIs(count));
    for (const GranuleId granule : granules) store->Put(granule);
    return granules;
  }

  std::shared_ptr<SharedBudget> budget_;
  WatchingDriver watching_{&driver_};
  std::optional<GranuleStore> second_;
  std::optional<GranuleStore> third_;
};

TEST_F(GranuleStoreSharedTest, StoresHoldNoMoreThanTheLimitTogether) {
  MakeStores(6);
  EXPECT_EQ(store_->free_budget_granules(), 6u);
  EXPECT_THAT(AcquireFrom(&*store_, 4), SizeIs(4));
  EXPECT_EQ(second_->free_budget_granules(), 2u);
  EXPECT_THAT(AcquireFrom(&*second_, 4), SizeIs(2));
  EXPECT_EQ(budget_->held_bytes(), budget_->limit_bytes());
  EXPECT_EQ(budget_->shortfalls(), 1u);
  EXPECT_THAT(AcquireFrom(&*third_, 1, GranuleKind::kExportable), SizeIs(0));
  EXPECT_EQ(budget_->shortfalls(), 2u);
}

TEST_F(GranuleStoreSharedTest, AStoresOwnBudgetHoldsAsWell) {
  MakeStores(8);
  FIRN_EXPECT_OK(store_->SetBudget(3));
  FillCacheOf(&*second_, 5);
  EXPECT_THAT(AcquireFrom(&*store_, 8), SizeIs(3));
  EXPECT_EQ(second_->cached_granules(), 5u) << "no use in releasing them";
  EXPECT_EQ(budget_->shortfalls(), 0u);
}

TEST_F(GranuleStoreSharedTest, OneGetsWhatAnotherHasCachedAndNoMoreThanThat) {
  MakeStores(6);
  const std::vector<GranuleId> cached = FillCacheOf(&*store_, 5);
  EXPECT_THAT(AcquireFrom(&*second_, 4), SizeIs(4));
  EXPECT_EQ(store_->held_granules(), 2u) << "one was free, three had to go";
  EXPECT_TRUE(store_->is_cached(cached[4])) << "the oldest go first";
  EXPECT_EQ(watching_.most_handles(), 6u) << "never both at once";
  EXPECT_EQ(budget_->shortfalls(), 0u);
  // And back.
  ExpectSumsAgree();
  EXPECT_THAT(AcquireFrom(&*store_, 6), SizeIs(2));
  EXPECT_EQ(budget_->shortfalls(), 1u);
}

TEST_F(GranuleStoreSharedTest, TheLargestCacheGoesFirst) {
  MakeStores(8);
  FillCacheOf(&*second_, 2);
  FillCacheOf(&*third_, 4);
  EXPECT_THAT(AcquireFrom(&*store_, 5), SizeIs(5));
  EXPECT_EQ(second_->cached_granules(), 2u);
  EXPECT_EQ(third_->cached_granules(), 1u);
}

TEST_F(GranuleStoreSharedTest, WhatRetiresAndExportableCachesAreIdleToo) {
  MakeStores(6);
  const std::vector<GranuleId> shared =
      AcquireFrom(&*second_, 2, GranuleKind::kExportable);
  for (const GranuleId granule : shared) {
    FIRN_ASSERT_OK(second_->MarkShared(granule));
    second_->Put(granule);
  }
  FillCacheOf(&*second_, 2, GranuleKind::kExportable);
  FillCacheOf(&*second_, 2);
  EXPECT_THAT(AcquireFrom(&*store_, 1), SizeIs(1));
  EXPECT_EQ(second_->retiring_granules(), 1u) << "one is enough";
  EXPECT_THAT(AcquireFrom(&*store_, 4), SizeIs(4));
  EXPECT_EQ(second_->held_granules(), 1u);
}

TEST_F(GranuleStoreSharedTest, OwnersAreAskedForWhatNoCacheHas) {
  MakeStores(8);
  std::vector<GranuleId> idle = AcquireFrom(&*second_, 5);
  FillCacheOf(&*third_, 2);
  std::vector<uint32_t> wanted;
  second_->SetReleaseIdle([&](uint32_t wanted_granules) {
    wanted.push_back(wanted_granules);
    ExpectSumsAgree();  // it is called without a lock
    uint32_t put = 0;
    for (; put < wanted_granules && !idle.empty(); ++put) {
      second_->Put(idle.back());
      idle.pop_back();
    }
    return put;
  });
  EXPECT_THAT(AcquireFrom(&*store_, 3), SizeIs(3));
  EXPECT_THAT(wanted, SizeIs(0)) << "the cache has what it takes";
  EXPECT_THAT(AcquireFrom(&*store_, 2), SizeIs(2));
  EXPECT_THAT(wanted, ::testing::ElementsAre(2u));
  EXPECT_EQ(second_->held_granules(), 3u);
  EXPECT_EQ(second_->cached_granules(), 0u);
  second_->SetReleaseIdle(nullptr);
  EXPECT_THAT(AcquireFrom(&*store_, 1), SizeIs(0));
  EXPECT_THAT(wanted, SizeIs(1));
}

TEST_F(GranuleStoreSharedTest, AnOwnerMayReleaseByItself) {
  MakeStores(4);
  std::vector<GranuleId> idle = AcquireFrom(&*second_, 4);
  second_->SetReleaseIdle([&](uint32_t wanted_granules) {
    for (const GranuleId granule : idle) second_->Put(granule);
    FIRN_EXPECT_OK(second_->ReleaseCached(4 - wanted_granules));
    return wanted_granules;
  });
  EXPECT_THAT(AcquireFrom(&*store_, 1), SizeIs(1));
  EXPECT_EQ(second_->cached_granules(), 3u) << "not another one";
}

TEST_F(GranuleStoreSharedTest, AnOwnerThatIsBusyIsAskedNoMoreThanAFewTimes) {
  MakeStores(4);
  AcquireFrom(&*second_, 4);
  int calls = 0;
  second_->SetReleaseIdle([&](uint32_t) {
    ++calls;
    return 1u;  // and yet nothing comes of it
  });
  EXPECT_THAT(AcquireFrom(&*store_, 2), SizeIs(0));
  EXPECT_GE(calls, 1);
  EXPECT_LE(calls, 4);
  EXPECT_EQ(budget_->shortfalls(), 1u);
}

TEST_F(GranuleStoreSharedTest, HostMemoryDoesNotCount) {
  budget_ = *SharedBudget::Create(2 * granule_bytes());
  GranuleStoreOptions options = SharedOptions();
  options.host = HostProp({LocationType::kHost, 0});
  options.host_budget_granules = 3;
  store_.emplace(&watching_, options);
  PhysicalHandle probe = 0;
  if (driver_.MemCreate(&probe, granule_bytes(), &options.host, 0) !=
      DriverResult::kSuccess) {
    GTEST_SKIP() << "the device has no host memory of its own";
  }
  EXPECT_EQ(driver_.MemRelease(probe), DriverResult::kSuccess);
  const std::vector<GranuleId> host =
      AcquireFrom(&*store_, 3, GranuleKind::kHost);
  EXPECT_THAT(host, SizeIs(3));
  EXPECT_EQ(budget_->held_bytes(), 0u);
  ExpectSumsAgree();
  EXPECT_THAT(AcquireFrom(&*store_, 3), SizeIs(2));
}

TEST_F(GranuleStoreSharedTest, WhatIsImportedDoesNotCount) {
  MakeStores(2);
  const GranuleId exported =
      AcquireFrom(&*store_, 1, GranuleKind::kExportable)[0];
  int descriptor = -1;
  constexpr auto kType = ShareableHandleType::kPosixFileDescriptor;
  FIRN_ASSERT_OK(store_->Export(exported, kType, &descriptor));
  FIRN_ASSERT_OK_AND_ASSIGN(
      const GranuleId imported,
      second_->Import(
          reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor)), kType));
  EXPECT_EQ(close(descriptor), 0);
  EXPECT_EQ(budget_->held_bytes(), granule_bytes());
  FIRN_EXPECT_OK(second_->CheckInvariants());
  second_->Put(imported);
  FIRN_EXPECT_OK(second_->ReleaseCached(0));
  EXPECT_EQ(budget_->held_bytes(), granule_bytes());
  ExpectSumsAgree();
}

TEST_F(GranuleStoreSharedTest, AStoreThatIsDestroyedGivesAllBack) {
  MakeStores(6);
  FillCacheOf(&*second_, 2);
  const std::vector<GranuleId> out = AcquireFrom(&*second_, 4);
  second_->Quarantine(out[0]);
  ExpectSumsAgree();
  second_.reset();
  EXPECT_EQ(budget_->held_bytes(), 0u);
  EXPECT_THAT(AcquireFrom(&*store_, 8), SizeIs(6));
}

TEST_F(GranuleStoreSharedTest, ALimitBelowWhatIsHeldTakesNothingAway) {
  MakeStores(8);
  FillCacheOf(&*store_, 3);
  const std::vector<GranuleId> out = AcquireFrom(&*second_, 4);
  driver_.Reset();
  FIRN_EXPECT_OK(budget_->SetLimit(2 * granule_bytes()));
  EXPECT_EQ(driver_.calls(), 0u);
  ExpectSumsAgree();
  EXPECT_EQ(store_->free_budget_granules(), 0u);
  EXPECT_THAT(AcquireFrom(&*store_, 4), SizeIs(3)) << "what is cached";
  EXPECT_THAT(AcquireFrom(&*third_, 1), SizeIs(0));
  for (const GranuleId granule : out) second_->Put(granule);
  budget_->ReleaseExcess();
  EXPECT_EQ(second_->held_granules(), 0u);
  EXPECT_EQ(budget_->held_bytes(), 3 * granule_bytes()) << "in use";
  FIRN_EXPECT_OK(budget_->SetLimit(5 * granule_bytes()));
  EXPECT_THAT(AcquireFrom(&*third_, 3), SizeIs(2));
}

TEST_F(GranuleStoreSharedTest,
       ARefillTakesNothingFromOthersNorIsAskedForInVain) {
  budget_ = *SharedBudget::Create(5 * granule_bytes());
  GranuleStoreOptions options = SharedOptions();
  options.low_water_granules = 3;
  store_.emplace(&watching_, options);
  second_.emplace(&watching_, SharedOptions());
  const std::vector<GranuleId> cached = FillCacheOf(&*second_, 4);
  FIRN_EXPECT_OK(store_->Maintain(absl::UnixEpoch()));
  EXPECT_EQ(store_->cached_granules(), 1u);
  EXPECT_EQ(second_->cached_granules(), 4u);
  int asked = 0;
  store_->SetMaintenanceWanted([&asked] { ++asked; });
  store_->Put(store_->Get());
  EXPECT_EQ(asked, 0);
  FIRN_EXPECT_OK(second_->ReleaseCached(2));
  store_->Put(store_->Get());
  EXPECT_EQ(asked, 1);
}

TEST_F(GranuleStoreSharedTest, ARefillLeavesWhatAnAcquisitionIsShortOf) {
  budget_ = *SharedBudget::Create(4 * granule_bytes());
  store_.emplace(&watching_, SharedOptions());
  GranuleStoreOptions options = SharedOptions();
  options.low_water_granules = 2;
  second_.emplace(&watching_, options);
  const std::vector<GranuleId> idle = AcquireFrom(&*second_, 4);
  second_->SetReleaseIdle([&](uint32_t) {
    for (const GranuleId granule : idle) second_->Put(granule);
    FIRN_EXPECT_OK(second_->ReleaseCached(0));
    // A keeper that would have all of it at once.
    FIRN_EXPECT_OK(second_->Maintain(absl::UnixEpoch()));
    EXPECT_EQ(second_->held_granules(), 0u);
    return 4u;
  });
  EXPECT_THAT(AcquireFrom(&*store_, 3), SizeIs(3));
  FIRN_EXPECT_OK(second_->Maintain(absl::UnixEpoch()));
  EXPECT_EQ(second_->cached_granules(), 1u) << "nobody is short any more";
}

// --- Failures ---

TEST_F(GranuleStoreSharedTest, WhatTheOtherStoreCannotReleaseIsGoneWithout) {
  MakeStores(4);
  FillCacheOf(&*second_, 4);
  driver_.FailNthOf(DriverCall::kMemRelease, 1, DriverResult::kUnknown);
  // One went before; what is refused is tried again.
  EXPECT_THAT(AcquireFrom(&*store_, 3), SizeIs(3));
  EXPECT_EQ(second_->cached_granules(), 1u);
  ExpectSumsAgree();
  driver_.FailRandomlyOf(DriverCall::kMemRelease, 1, /*seed=*/1,
                         DriverResult::kUnknown);
  EXPECT_THAT(AcquireFrom(&*store_, 1), SizeIs(0));
  EXPECT_EQ(second_->cached_granules(), 1u);
  EXPECT_EQ(budget_->shortfalls(), 1u);
}

TEST_F(GranuleStoreSharedTest, EachDriverCallFailsInTurnAndTheSumsAgree) {
  for (const DriverResult result :
       {DriverResult::kOutOfMemory, DriverResult::kUnknown}) {
    bool failed = true;
    uint32_t n = 0;
    for (; failed; ++n) {
      SCOPED_TRACE(
          absl::StrCat("result ", static_cast<int>(result), " of call ", n));
      MakeStores(6);
      std::vector<GranuleId> idle = AcquireFrom(&*second_, 2);
      second_->SetReleaseIdle([&](uint32_t) {
        for (const GranuleId granule : idle) second_->Put(granule);
        return static_cast<uint32_t>(std::exchange(idle, {}).size());
      });
      FillCacheOf(&*third_, 3);
      driver_.Reset();
      driver_.FailNth(n, result);
      // One is free, three are cached, one is idle: created, given back, and
      // some more.
      Acquisition acquisition;
      store_->AcquireAtMost(5, &acquisition).IgnoreError();
      ExpectSumsAgree();
      store_->GiveBack(acquisition);
      ExpectSumsAgree();
      FIRN_EXPECT_OK(store_->SetBudget(2));
      store_->Maintain(absl::UnixEpoch()).IgnoreError();
      ExpectSumsAgree();
      FIRN_EXPECT_OK(budget_->SetLimit(3 * granule_bytes()));
      budget_->ReleaseExcess();
      ExpectSumsAgree();
      failed = driver_.failures() > 0;
      driver_.Reset();
      budget_->ReleaseExcess();
      EXPECT_LE(budget_->held_bytes(), budget_->limit_bytes());
      ExpectSumsAgree();
      second_.reset();
      third_.reset();
      EXPECT_EQ(budget_->held_bytes(),
                store_->held_granules() * granule_bytes());
      store_.reset();
      EXPECT_EQ(budget_->held_bytes(), 0u);
      EXPECT_EQ(device_granules_held(), 0u);
      if (HasFailure()) return;
    }
    EXPECT_GT(n, 12u) << "creations and releases of all three";
  }
}

// --- One thread in the driver ---

TEST_F(GranuleStoreSharedTest, AnAcquisitionWaitsForWhatAnotherIsReleasing) {
  MakeStores(2);
  FillCacheOf(&*second_, 2);
  watching_.Hold(DriverCall::kMemRelease);
  std::thread releaser(
      [&] { EXPECT_THAT(second_->ReleaseCached(0), IsOkAndHolds(2u)); });
  watching_.AwaitHeldCall();
  std::vector<GranuleId> granules;
  std::thread acquirer([&] { granules = AcquireFrom(&*store_, 2); });
  absl::SleepFor(absl::Milliseconds(20));
  FIRN_EXPECT_OK(second_->CheckInvariants());
  watching_.LetGo();
  releaser.join();
  acquirer.join();
  EXPECT_THAT(granules, SizeIs(2));
  EXPECT_EQ(watching_.most_handles(), 2u);
}

TEST_F(GranuleStoreSharedTest, AStoreIsDestroyedAfterThoseWhoAskIt) {
  MakeStores(2);
  FillCacheOf(&*second_, 2);
  watching_.Hold(DriverCall::kMemRelease);
  std::vector<GranuleId> granules;
  std::thread acquirer([&] { granules = AcquireFrom(&*store_, 2); });
  watching_.AwaitHeldCall();
  // It waits for the thread that is at its granules, and releases none twice.
  std::thread destroyer([&] { second_.reset(); });
  absl::SleepFor(absl::Milliseconds(20));
  watching_.LetGo();
  acquirer.join();
  destroyer.join();
  EXPECT_THAT(granules, SizeIs(2));
  ExpectSumsAgree();
}

TEST_F(GranuleStoreSharedTest, ACallbackIsReplacedAfterItsCallsHaveEnded) {
  MakeStores(2);
  AcquireFrom(&*second_, 2);
  std::atomic<bool> called{false};
  std::atomic<bool> go_on{false};
  std::atomic<bool> replaced{false};
  second_->SetReleaseIdle([&](uint32_t) {
    called = true;
    while (!go_on) std::this_thread::yield();
    EXPECT_FALSE(replaced);
    return 0u;
  });
  std::thread acquirer(
      [&] { EXPECT_THAT(AcquireFrom(&*store_, 1), SizeIs(0)); });
  while (!called) std::this_thread::yield();
  std::thread replacer([&] {
    second_->SetReleaseIdle(nullptr);
    replaced = true;
  });
  absl::SleepFor(absl::Milliseconds(20));
  go_on = true;
  acquirer.join();
  replacer.join();
  EXPECT_TRUE(replaced);
}

}  // namespace
}  // namespace firn::testing
