// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Granule stores that take from each other's caches while threads use all of
// them, one is destroyed and made again, and the limit changes.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/shared_budget.h"
#include "firn/vmm/store_keeper.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"
#include "tests/vmm/watching_driver.h"

namespace firn::testing {
namespace {

// Uses a store as a pool does: under a lock of its own, with granules that are
// idle but not cached, which it spares when asked.
class Owner {
 public:
  Owner(Driver* driver, const GranuleStoreOptions& options)
      : store_(driver, options) {
    store_.SetReleaseIdle([this](uint32_t wanted) { return Spare(wanted); });
    StoreKeeperOptions keeper_options;
    keeper_options.period = absl::Milliseconds(1);
    absl::StatusOr<std::unique_ptr<StoreKeeper>> keeper =
        StoreKeeper::Start(driver, &store_, keeper_options);
    FIRN_EXPECT_OK(keeper.status());
    if (keeper.ok()) keeper_ = *std::move(keeper);
  }
  ~Owner() {
    store_.SetReleaseIdle(nullptr);
    keeper_.reset();
    FIRN_EXPECT_OK(store_.CheckInvariants());
  }

  void Use(SmallRandom* random) {
    MutexLock lock(&mutex_);
    Acquisition acquisition;
    FIRN_EXPECT_OK(store_.AcquireAtMost(random->Between(1, 12), &acquisition));
    if (random->OneIn(3)) {
      store_.GiveBack(acquisition);
      return;
    }
    for (const GranuleId granule : acquisition.granules) {
      if (random->OneIn(2)) {
        idle_.push_back(granule);
      } else {
        store_.Put(granule);
      }
    }
    while (idle_.size() > 6) PutOne();
    if (random->OneIn(8)) {
      FIRN_EXPECT_OK(store_.CheckInvariants());
    }
  }

 private:
  uint32_t Spare(uint32_t wanted) {
    if (!mutex_.TryLock()) return 0;
    uint32_t put = 0;
    for (; put < wanted && !idle_.empty(); ++put) PutOne();
    mutex_.Unlock();
    return put;
  }
  void PutOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    store_.Put(idle_.back());
    idle_.pop_back();
  }

  Mutex mutex_;
  std::vector<GranuleId> idle_ ABSL_GUARDED_BY(mutex_);
  GranuleStore store_;
  std::unique_ptr<StoreKeeper> keeper_;
};

class GranuleStoreSharedThreadsTest : public GranuleStoreScene {
 protected:
  WatchingDriver watching_{&driver_};
};

TEST_F(GranuleStoreSharedThreadsTest, StoresThatTakeFromEachOtherLoseNothing) {
  constexpr uint32_t kLimit = 20;
  constexpr int kSteps = kUnderThreadSanitizer ? 300 : 1000;
  capped_.set_most_handles(std::numeric_limits<uint32_t>::max());
  FIRN_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<SharedBudget> budget,
                            SharedBudget::Create(kLimit * granule_bytes()));
  GranuleStoreOptions options = Options(kLimit);
  options.shared_budget = budget;
  options.low_water_granules = 2;
  options.high_water_granules = 8;
  driver_.FailRandomlyOf(DriverCall::kMemCreate, 0.02, /*seed=*/5,
                         DriverResult::kOutOfMemory);
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  {
    Owner first(&watching_, options);
    Owner second(&watching_, options);
    const auto use = [&running](Owner* owner, uint64_t seed) {
      SmallRandom random(seed);
      for (int step = 0; step < kSteps; ++step) {
        owner->Use(&random);
        std::this_thread::yield();  // or one does all before others begin
      }
      --running;
    };
    threads.emplace_back(use, &first, 1);
    threads.emplace_back(use, &second, 2);
    // One that comes and goes.
    threads.emplace_back([&] {
      SmallRandom random(3);
      for (int round = 0; round < kSteps / 20; ++round) {
        Owner third(&watching_, options);
        for (int step = 0; step < 10; ++step) third.Use(&random);
      }
      --running;
    });
    SmallRandom random(4);
    while (running > 0) {
      const uint64_t limit = random.Between(1, kLimit) * granule_bytes();
      FIRN_EXPECT_OK(budget->SetLimit(limit));
      const uint64_t held = budget->held_bytes();
      std::this_thread::yield();
      EXPECT_LE(budget->held_bytes(), std::max(limit, held))
          << "what is held beyond the limit only falls";
      EXPECT_LE(watching_.handles() * granule_bytes(), std::max(limit, held));
      if (random.OneIn(4)) budget->ReleaseExcess();
      FIRN_EXPECT_OK(budget->CheckInvariants());
    }
    for (std::thread& thread : threads) thread.join();
    driver_.Reset();
  }
  EXPECT_LE(watching_.most_handles(), kLimit);
  EXPECT_EQ(budget->held_bytes(), 0u);
}

}  // namespace
}  // namespace firn::testing
