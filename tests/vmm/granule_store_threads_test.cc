// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Granule stores used by several threads at once: budgets hold, no granule is
// given to two, nobody waits for the driver without need, nothing is lost.

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
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

using ::testing::SizeIs;

class GranuleStoreThreadsTest : public GranuleStoreScene {
 protected:
  GranuleStore& MakeWatchedStore(const GranuleStoreOptions& options) {
    return MakeStoreOn(&watching_, options);
  }
  // For as long as a thread needs to come to where it would wait.
  static void GiveTime() { absl::SleepFor(absl::Milliseconds(20)); }

  WatchingDriver watching_{&driver_};
};

// --- One thread in the driver ---

TEST_F(GranuleStoreThreadsTest, TheFastPathGoesOnWhileGranulesAreCreated) {
  GranuleStore& store = MakeWatchedStore(Options(6));
  const std::vector<GranuleId> cached = FillCache(2);
  watching_.Hold(DriverCall::kMemCreate);
  Acquisition acquisition;
  std::thread creator([&] {
    FIRN_EXPECT_OK(
        store.AcquireAtMost(2, &acquisition, GranuleKind::kExportable));
  });
  watching_.AwaitHeldCall();
  EXPECT_EQ(store.held_granules(), 4u) << "what is being created counts (I9)";
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.Get(), cached[1]);
  store.Put(cached[1]);
  watching_.LetGo();
  creator.join();
  EXPECT_THAT(acquisition.granules, SizeIs(2));
}

TEST_F(GranuleStoreThreadsTest, TheFastPathGoesOnWhileGranulesAreReleased) {
  GranuleStore& store = MakeWatchedStore(Options(6));
  const std::vector<GranuleId> cached = FillCache(3);
  watching_.Hold(DriverCall::kMemRelease);
  std::thread releaser(
      [&] { EXPECT_THAT(store.ReleaseCached(1), IsOkAndHolds(2u)); });
  watching_.AwaitHeldCall();
  EXPECT_EQ(store.held_granules(), 3u) << "they are still there";
  EXPECT_FALSE(store.is_cached(cached[0]));
  EXPECT_TRUE(store.is_held(cached[0]));
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.Get(), cached[2]);
  EXPECT_TRUE(store.Get().is_none()) << "the others are on their way out";
  watching_.LetGo();
  releaser.join();
  EXPECT_EQ(store.held_granules(), 1u);
}

TEST_F(GranuleStoreThreadsTest, AGranuleQuarantinedWhileItIsReleasedStaysSo) {
  GranuleStore& store = MakeWatchedStore(Options(6));
  const std::vector<GranuleId> cached = FillCache(2);
  driver_.Reset();
  driver_.FailNthOf(DriverCall::kMemRelease, 0, DriverResult::kUnknown);
  watching_.Hold(DriverCall::kMemRelease);
  std::thread releaser([&] {
    EXPECT_THAT(store.ReleaseCached(0), StatusIs(absl::StatusCode::kInternal));
  });
  watching_.AwaitHeldCall();
  store.Quarantine(cached[0]);
  watching_.LetGo();
  releaser.join();
  EXPECT_TRUE(store.is_quarantined(cached[0]));
  EXPECT_TRUE(store.is_cached(cached[1]));
}

TEST_F(GranuleStoreThreadsTest, AnAcquisitionWaitsForWhatARefillBrings) {
  GranuleStoreOptions options = Options(2);
  options.low_water_granules = 2;
  GranuleStore& store = MakeWatchedStore(options);
  watching_.Hold(DriverCall::kMemCreate);
  std::thread refiller(
      [&] { FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch())); });
  watching_.AwaitHeldCall();
  // The whole budget is on its way into the cache.
  Acquisition acquisition;
  std::thread acquirer(
      [&] { FIRN_EXPECT_OK(store.AcquireAtMost(2, &acquisition)); });
  GiveTime();
  watching_.LetGo();
  refiller.join();
  acquirer.join();
  EXPECT_THAT(acquisition.granules, SizeIs(2));
  EXPECT_EQ(acquisition.created, 0u);
}

TEST_F(GranuleStoreThreadsTest, AnAcquisitionWaitsForWhatAReleaseLeaves) {
  GranuleStore& store = MakeWatchedStore(Options(2));
  FillCache(2);
  watching_.Hold(DriverCall::kMemRelease);
  std::thread releaser(
      [&] { EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(2u)); });
  watching_.AwaitHeldCall();
  Acquisition acquisition;
  std::thread acquirer(
      [&] { FIRN_EXPECT_OK(store.AcquireAtMost(2, &acquisition)); });
  GiveTime();
  watching_.LetGo();
  releaser.join();
  acquirer.join();
  EXPECT_THAT(acquisition.granules, SizeIs(2));
  EXPECT_EQ(acquisition.created, 2u);
  EXPECT_EQ(watching_.most_handles(), 2u);
}

TEST_F(GranuleStoreThreadsTest, ThreadsThatCreateAtOnceShareTheBudget) {
  constexpr int kThreads = 4;
  constexpr uint32_t kBudget = 10;
  capped_.set_most_handles(kThreads * kBudget);
  GranuleStore& store = MakeWatchedStore(Options(kBudget));
  std::array<Acquisition, kThreads> acquisitions;
  watching_.Hold(DriverCall::kMemCreate);
  std::vector<std::thread> threads;
  for (Acquisition& acquisition : acquisitions) {
    threads.emplace_back(
        [&] { FIRN_EXPECT_OK(store.AcquireAtMost(4, &acquisition)); });
  }
  watching_.AwaitHeldCall();
  GiveTime();
  EXPECT_LE(store.held_granules(), kBudget);
  watching_.LetGo();
  for (std::thread& thread : threads) thread.join();
  size_t granules = 0;
  for (const Acquisition& acquisition : acquisitions) {
    granules += acquisition.granules.size();
  }
  EXPECT_EQ(granules, kBudget);
  EXPECT_EQ(watching_.most_handles(), kBudget);
}

// --- All at once ---

constexpr uint32_t kStormBudget = 48;
constexpr uint32_t kStormIds = 4 * kStormBudget;

// One thread's random use of a store. No granule may come to it that another
// one has.
class StormUser {
 public:
  StormUser(GranuleStore* store,
            std::array<std::atomic<bool>, kStormIds>* taken, uint64_t seed)
      : store_(store), taken_(taken), random_(seed) {}

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) Step();
    while (!granules_.empty()) PutOne();
  }

 private:
  void Step() {
    switch (random_.Below(10)) {
      case 0:
      case 1:
      case 2: {
        const GranuleId granule = store_->Get();
        if (!granule.is_none()) Take(granule);
        break;
      }
      case 3:
      case 4:
      case 5:
        if (!granules_.empty()) PutOne();
        break;
      case 6:
      case 7:
        AcquireSome();
        break;
      case 8:
        store_->ReleaseCached(random_.Below(kStormBudget)).IgnoreError();
        break;
      case 9:
        store_->Maintain(absl::Now()).IgnoreError();
        FIRN_EXPECT_OK(store_->CheckInvariants());
        break;
    }
  }

  void AcquireSome() {
    const GranuleKind kind =
        random_.OneIn(3) ? GranuleKind::kExportable : GranuleKind::kMovable;
    Acquisition acquisition;
    const bool ok =
        store_->AcquireAtMost(random_.Between(1, 12), &acquisition, kind).ok();
    for (const GranuleId granule : acquisition.granules) {
      EXPECT_EQ(store_->kind(granule), kind);
      Take(granule);
    }
    if (!ok || random_.OneIn(2)) {
      for (const GranuleId granule : acquisition.granules) Leave(granule);
      granules_.resize(granules_.size() - acquisition.granules.size());
      store_->GiveBack(acquisition);
    } else if (kind == GranuleKind::kExportable && random_.OneIn(2) &&
               !acquisition.granules.empty()) {
      FIRN_EXPECT_OK(store_->MarkShared(acquisition.granules[0]));
    }
  }

  void PutOne() {
    std::swap(granules_[random_.Below(static_cast<uint32_t>(granules_.size()))],
              granules_.back());
    const GranuleId granule = granules_.back();
    granules_.pop_back();
    Leave(granule);
    store_->Put(granule);
  }

  void Take(GranuleId granule) {
    EXPECT_FALSE((*taken_)[granule.value()].exchange(true))
        << "granule " << granule.value() << " was given to two";
    granules_.push_back(granule);
  }
  void Leave(GranuleId granule) {
    EXPECT_TRUE((*taken_)[granule.value()].exchange(false));
  }

  GranuleStore* const store_;
  std::array<std::atomic<bool>, kStormIds>* const taken_;
  SmallRandom random_;
  std::vector<GranuleId> granules_;
};

TEST_F(GranuleStoreThreadsTest, RandomUseByFourThreadsAndAKeeperLosesNothing) {
  constexpr int kThreads = 4;
  constexpr int kSteps = kUnderThreadSanitizer ? 1500 : 4000;
  capped_.set_most_handles(std::numeric_limits<uint32_t>::max());
  GranuleStoreOptions options = Options(kStormBudget);
  options.low_water_granules = 6;
  options.high_water_granules = 20;
  options.max_idle = absl::Milliseconds(3);
  GranuleStore& store = MakeWatchedStore(options);
  driver_.FailRandomlyOf(DriverCall::kMemCreate, 0.02, /*seed=*/1,
                         DriverResult::kOutOfMemory);
  driver_.FailRandomlyOf(DriverCall::kMemCreate, 0.01, /*seed=*/2,
                         DriverResult::kUnknown);
  driver_.FailRandomlyOf(DriverCall::kMemRelease, 0.02, /*seed=*/3,
                         DriverResult::kUnknown);
  StoreKeeperOptions keeper_options;
  keeper_options.period = absl::Milliseconds(1);
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<StoreKeeper> keeper,
      StoreKeeper::Start(&driver_, &store, keeper_options));
  std::array<std::atomic<bool>, kStormIds> taken = {};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < kThreads; ++seed) {
    threads.emplace_back(
        [&, seed] { StormUser(&store, &taken, seed).Run(kSteps); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(keeper->rounds(), 0u);
  keeper.reset();

  driver_.Reset();
  EXPECT_LE(watching_.most_handles(), kStormBudget);
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.quarantined_granules(), 0u);
  EXPECT_EQ(watching_.handles(), store.held_granules());
  // All came back: nothing is left but what is cached or retires.
  FIRN_EXPECT_OK(store.ReleaseCached(0));
  EXPECT_EQ(store.held_granules(), 0u);
  EXPECT_EQ(store.created_total(), store.released_total());
  EXPECT_EQ(watching_.handles(), 0u);
}

}  // namespace
}  // namespace firn::testing
