// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/store_keeper.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

// Long enough for a loaded machine, short enough for a test that fails.
constexpr absl::Duration kPatience = absl::Seconds(20);

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

class StoreKeeperTest : public GranuleStoreScene {
 protected:
  void TearDown() override {
    keeper_.reset();
    GranuleStoreScene::TearDown();
  }

  GranuleStoreOptions OptionsWithMarks(uint32_t low, uint32_t high) const {
    GranuleStoreOptions options = Options(kDeviceGranules);
    options.low_water_granules = low;
    options.high_water_granules = high;
    return options;
  }
  void StartKeeper(absl::Duration period) {
    StoreKeeperOptions options;
    options.period = period;
    FIRN_ASSERT_OK_AND_ASSIGN(keeper_,
                              StoreKeeper::Start(&driver_, &*store_, options));
  }

  std::unique_ptr<StoreKeeper> keeper_;
};

TEST_F(StoreKeeperTest, FillsTheCacheWhenItStarts) {
  GranuleStore& store = MakeStore(OptionsWithMarks(3, 8));
  StartKeeper(absl::InfiniteDuration());
  EXPECT_TRUE(Eventually([&] { return store.cached_granules() == 3; }));
  FIRN_EXPECT_OK(keeper_->first_failure());
}

TEST_F(StoreKeeperTest, RefillsAsSoonAsTheCacheIsBelowItsMark) {
  GranuleStore& store = MakeStore(OptionsWithMarks(3, 8));
  StartKeeper(absl::InfiniteDuration());
  ASSERT_TRUE(Eventually([&] { return store.cached_granules() == 3; }));
  store.Get();
  EXPECT_TRUE(Eventually([&] { return store.cached_granules() == 3; }));
  EXPECT_EQ(store.created_total(), 4u);
}

TEST_F(StoreKeeperTest, ReleasesWhatIsBeyondTheMarkOrRetires) {
  GranuleStore& store = MakeStore(OptionsWithMarks(0, 2));
  const std::vector<GranuleId> movable = Acquire(4).granules;
  const GranuleId shared = Acquire(1, GranuleKind::kExportable).granules[0];
  FIRN_ASSERT_OK(store.MarkShared(shared));
  StartKeeper(absl::InfiniteDuration());
  store.Put(shared);
  for (const GranuleId granule : movable) store.Put(granule);
  EXPECT_TRUE(Eventually([&] { return store.held_granules() == 2; }));
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 1u);
}

TEST_F(StoreKeeperTest, ReleasesIdleGranulesWithoutBeingAsked) {
  GranuleStoreOptions options = OptionsWithMarks(1, 8);
  options.max_idle = absl::Milliseconds(5);
  GranuleStore& store = MakeStore(options);
  FillCache(4);
  StartKeeper(absl::Milliseconds(2));
  EXPECT_TRUE(Eventually([&] { return store.held_granules() == 1; }));
  EXPECT_GE(keeper_->rounds(), 2u);
}

TEST_F(StoreKeeperTest, WakeMeansARoundNow) {
  MakeStore(OptionsWithMarks(0, 8));
  StartKeeper(absl::InfiniteDuration());
  ASSERT_TRUE(Eventually([&] { return keeper_->rounds() == 1; }));
  keeper_->Wake();
  EXPECT_TRUE(Eventually([&] { return keeper_->rounds() == 2; }));
}

TEST_F(StoreKeeperTest, AFailureIsKeptAndTriedAgainAfterAPeriod) {
  GranuleStore& store = MakeStore(OptionsWithMarks(2, 8));
  driver_.FailNthOf(DriverCall::kMemCreate, 0, DriverResult::kUnknown);
  driver_.FailNthOf(DriverCall::kMemCreate, 1, DriverResult::kNotPermitted);
  StartKeeper(absl::Milliseconds(2));
  EXPECT_TRUE(Eventually([&] { return store.cached_granules() == 2; }));
  EXPECT_THAT(
      keeper_->first_failure(),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("CUDA_ERROR_UNKNOWN")));
  EXPECT_GE(keeper_->rounds(), 3u);
}

TEST_F(StoreKeeperTest, AfterAFailureItIsNotHurried) {
  MakeStore(OptionsWithMarks(2, 8));
  driver_.FailFrom(1, DriverResult::kUnknown);  // not the capture mode
  StartKeeper(absl::InfiniteDuration());
  ASSERT_TRUE(Eventually([&] { return keeper_->rounds() == 1; }));
  for (int i = 0; i < 10; ++i) {
    keeper_->Wake();
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(keeper_->rounds(), 1u);
  keeper_.reset();  // does not wait for the period
  driver_.Reset();
}

TEST_F(StoreKeeperTest, AStoreGoesOnWithoutItsKeeper) {
  GranuleStore& store = MakeStore(OptionsWithMarks(2, 8));
  StartKeeper(absl::InfiniteDuration());
  ASSERT_TRUE(Eventually([&] { return store.cached_granules() == 2; }));
  keeper_.reset();
  store.Get();
  EXPECT_EQ(store.cached_granules(), 1u);
  StartKeeper(absl::InfiniteDuration());  // and with another one
  EXPECT_TRUE(Eventually([&] { return store.cached_granules() == 2; }));
}

TEST_F(StoreKeeperTest, APeriodMustBePositive) {
  GranuleStore& store = MakeStore(OptionsWithMarks(2, 8));
  StoreKeeperOptions options;
  options.period = absl::ZeroDuration();
  EXPECT_THAT(StoreKeeper::Start(&driver_, &store, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(driver_.calls(), 0u);
}

// A capture in the mode kGlobal, on another thread, is neither broken by the
// keeper nor in its way.
TEST_F(StoreKeeperTest, WorksWhileAnotherThreadCaptures) {
  GranuleStore& store = MakeStore(OptionsWithMarks(3, 8));
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver_.StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  ASSERT_EQ(driver_.StreamBeginCapture(stream, CaptureMode::kGlobal),
            DriverResult::kSuccess);
  StartKeeper(absl::InfiniteDuration());
  EXPECT_TRUE(Eventually([&] { return store.cached_granules() == 3; }));
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(driver_.StreamIsCapturing(stream, &status), DriverResult::kSuccess);
  EXPECT_EQ(status, CaptureStatus::kActive);
  GraphHandle graph = nullptr;
  EXPECT_EQ(driver_.StreamEndCapture(stream, &graph), DriverResult::kSuccess);
  EXPECT_NE(graph, nullptr);
  EXPECT_EQ(driver_.GraphDestroy(graph), DriverResult::kSuccess);
  EXPECT_EQ(driver_.StreamDestroy(stream), DriverResult::kSuccess);
  FIRN_EXPECT_OK(keeper_->first_failure());
}

}  // namespace
}  // namespace firn::testing
