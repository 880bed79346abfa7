// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/shared_budget.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kUnit = 100;
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

// A member whose memory is in use, cached, or idle with its owner, and that
// writes down what it is asked for.
class FakeMember final : public SharedBudget::Member {
 public:
  FakeMember(SharedBudget* budget, std::string name,
             std::vector<std::string>* asked)
      : budget_(budget), name_(std::move(name)), asked_(asked) {
    budget_->Join(this);
  }
  ~FakeMember() {
    budget_->StopAsking(this);
    budget_->Leave(this);
  }

  uint64_t TakeUnits(uint64_t units) {
    return budget_->Take(this, kUnit, units);
  }
  void Cache(uint64_t bytes) { cached_ = bytes; }
  void LeaveIdle(uint64_t bytes) { idle_ = bytes; }
  void DoWhenAsked(std::function<void()> action) { action_ = action; }
  uint64_t held_bytes() const { return budget_->held_bytes_of(this); }

  uint64_t CachedBytes() override { return cached_; }
  bool ReleaseCachedBytes(uint64_t bytes) override {
    asked_->push_back(name_ + " cache " + std::to_string(bytes));
    if (action_ != nullptr) action_();
    const uint64_t released = std::min(bytes, cached_);
    cached_ -= released;
    budget_->Give(this, released);
    return released > 0;
  }
  bool AskOwnerForBytes(uint64_t bytes) override {
    asked_->push_back(name_ + " owner " + std::to_string(bytes));
    const uint64_t idle = std::min(bytes, idle_);
    idle_ -= idle;
    cached_ += idle;
    return idle > 0;
  }

 private:
  SharedBudget* const budget_;
  const std::string name_;
  std::vector<std::string>* const asked_;
  std::function<void()> action_;
  uint64_t cached_ = 0;
  uint64_t idle_ = 0;
};

class SharedBudgetTest : public ::testing::Test {
 protected:
  void TearDown() override {
    FIRN_EXPECT_OK(budget_->CheckInvariants());
    a_.reset();
    b_.reset();
    c_.reset();
    EXPECT_EQ(budget_->held_bytes(), 0u);
    FIRN_EXPECT_OK(budget_->CheckInvariants());
  }

  const std::shared_ptr<SharedBudget> budget_ =
      *SharedBudget::Create(10 * kUnit);
  std::vector<std::string> asked_;
  std::optional<FakeMember> a_{std::in_place, budget_.get(), "a", &asked_};
  std::optional<FakeMember> b_{std::in_place, budget_.get(), "b", &asked_};
  std::optional<FakeMember> c_{std::in_place, budget_.get(), "c", &asked_};
};

// --- Limits ---

TEST_F(SharedBudgetTest, ALimitOfZeroIsRefusedByName) {
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("limit_bytes of a shared budget is 0: it must be"));
  EXPECT_THAT(SharedBudget::Create(0), refused);
  EXPECT_THAT(budget_->SetLimit(0), refused);
  EXPECT_EQ(budget_->limit_bytes(), 10 * kUnit);
}

TEST_F(SharedBudgetTest, MembersTakeWholeUnitsWhileThereIsRoom) {
  FIRN_ASSERT_OK(budget_->SetLimit(7 * kUnit + kUnit / 2));
  EXPECT_EQ(a_->TakeUnits(3), 3u);
  EXPECT_EQ(b_->TakeUnits(9), 4u);
  EXPECT_EQ(budget_->held_bytes(), 7 * kUnit);
  EXPECT_EQ(budget_->room_bytes(), kUnit / 2);
  EXPECT_EQ(c_->TakeUnits(1), 0u);
  budget_->Give(&*b_, 2 * kUnit);
  EXPECT_EQ(c_->TakeUnits(3), 2u);
  EXPECT_EQ(a_->held_bytes(), 3 * kUnit);
  EXPECT_EQ(b_->held_bytes(), 2 * kUnit);
  EXPECT_THAT(asked_, IsEmpty()) << "Take asks nobody";
}

TEST_F(SharedBudgetTest, TheLargestLimitOverflowsNothing) {
  FIRN_ASSERT_OK(budget_->SetLimit(kMost));
  EXPECT_EQ(a_->TakeUnits(5), 5u);
  EXPECT_EQ(budget_->room_bytes(), kMost - 5 * kUnit);
  EXPECT_EQ(b_->TakeUnits(kMost), (kMost - 5 * kUnit) / kUnit);
  EXPECT_EQ(c_->TakeUnits(1), 0u);
}

TEST_F(SharedBudgetTest, ALimitBelowWhatIsHeldStopsTakingUntilLessIsHeld) {
  EXPECT_EQ(a_->TakeUnits(8), 8u);
  FIRN_ASSERT_OK(budget_->SetLimit(4 * kUnit));
  EXPECT_EQ(budget_->held_bytes(), 8 * kUnit);
  EXPECT_EQ(budget_->room_bytes(), 0u);
  FIRN_EXPECT_OK(budget_->CheckInvariants());
  EXPECT_EQ(b_->TakeUnits(1), 0u);
  budget_->Give(&*a_, 4 * kUnit);
  EXPECT_EQ(b_->TakeUnits(1), 0u);
  budget_->Give(&*a_, kUnit);
  FIRN_EXPECT_OK(budget_->CheckInvariants());
  EXPECT_EQ(b_->TakeUnits(2), 1u);
  FIRN_ASSERT_OK(budget_->SetLimit(6 * kUnit));
  EXPECT_EQ(b_->TakeUnits(5), 2u);
}

TEST_F(SharedBudgetTest, AMemberThatLeavesGivesBackWhatItHeld) {
  EXPECT_EQ(a_->TakeUnits(3), 3u);
  EXPECT_EQ(b_->TakeUnits(7), 7u);
  a_.reset();
  EXPECT_EQ(budget_->held_bytes(), 7 * kUnit);
  EXPECT_EQ(b_->held_bytes(), 7 * kUnit);
  EXPECT_EQ(c_->TakeUnits(9), 3u);
}

// --- Reclaiming ---

TEST_F(SharedBudgetTest, NobodyIsAskedWhileThereIsRoom) {
  EXPECT_EQ(b_->TakeUnits(8), 8u);
  b_->Cache(8 * kUnit);
  EXPECT_TRUE(budget_->Reclaim(&*a_, 2 * kUnit));
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(SharedBudgetTest, TheLargestCacheIsAskedFirstAndForNoMoreThanNeeded) {
  EXPECT_EQ(a_->TakeUnits(4), 4u);
  EXPECT_EQ(b_->TakeUnits(2), 2u);
  EXPECT_EQ(c_->TakeUnits(3), 3u);
  a_->Cache(4 * kUnit);
  b_->Cache(kUnit);
  c_->Cache(3 * kUnit);
  // One unit is free.
  EXPECT_TRUE(budget_->Reclaim(&*a_, 3 * kUnit));
  EXPECT_THAT(asked_, ElementsAre("c cache 200"));
  EXPECT_EQ(budget_->room_bytes(), 3 * kUnit);
  asked_.clear();
  EXPECT_TRUE(budget_->Reclaim(&*a_, 5 * kUnit));
  EXPECT_THAT(asked_, ElementsAre("b cache 200", "c cache 100"))
      << "caches of the same size in the order of joining";
  EXPECT_EQ(a_->held_bytes(), 4 * kUnit) << "not of the one that asks";
}

TEST_F(SharedBudgetTest, OwnersAreAskedForWhatNoCacheHas) {
  EXPECT_EQ(a_->TakeUnits(1), 1u);
  EXPECT_EQ(b_->TakeUnits(4), 4u);
  EXPECT_EQ(c_->TakeUnits(5), 5u);
  b_->Cache(kUnit);
  c_->LeaveIdle(4 * kUnit);
  EXPECT_TRUE(budget_->Reclaim(&*a_, 3 * kUnit));
  EXPECT_THAT(asked_, ElementsAre("b cache 300", "c cache 200", "b owner 200",
                                  "c owner 200", "c cache 200"));
  EXPECT_EQ(budget_->room_bytes(), 3 * kUnit);
  EXPECT_EQ(c_->held_bytes(), 3 * kUnit);
}

TEST_F(SharedBudgetTest, WithNothingIdleThereIsNoUseInTryingAgain) {
  EXPECT_EQ(b_->TakeUnits(10), 10u);
  EXPECT_FALSE(budget_->Reclaim(&*a_, kUnit));
  EXPECT_EQ(asked_.size(), 4u) << "both others, twice";
}

TEST_F(SharedBudgetTest, WhatIsHeldBeyondTheLimitHasToGoAsWell) {
  EXPECT_EQ(b_->TakeUnits(10), 10u);
  b_->Cache(10 * kUnit);
  FIRN_ASSERT_OK(budget_->SetLimit(6 * kUnit));
  EXPECT_TRUE(budget_->Reclaim(&*a_, 2 * kUnit));
  EXPECT_EQ(b_->held_bytes(), 4 * kUnit);
  EXPECT_EQ(a_->TakeUnits(3), 2u);
}

TEST_F(SharedBudgetTest, ReleaseExcessAsksAllUntilTheLimitHolds) {
  EXPECT_EQ(a_->TakeUnits(4), 4u);
  EXPECT_EQ(b_->TakeUnits(6), 6u);
  a_->Cache(2 * kUnit);
  b_->Cache(5 * kUnit);
  budget_->ReleaseExcess();
  EXPECT_THAT(asked_, IsEmpty());
  FIRN_ASSERT_OK(budget_->SetLimit(4 * kUnit));
  budget_->ReleaseExcess();
  EXPECT_THAT(asked_, ElementsAre("b cache 600", "a cache 100"));
  EXPECT_EQ(budget_->held_bytes(), 4 * kUnit);
}

TEST_F(SharedBudgetTest, AMemberThatLeavesWaitsForThoseWhoAskIt) {
  EXPECT_EQ(b_->TakeUnits(10), 10u);
  b_->Cache(10 * kUnit);
  std::atomic<bool> asking{false};
  std::atomic<bool> go_on{false};
  std::atomic<bool> gone{false};
  b_->DoWhenAsked([&] {
    asking = true;
    while (!go_on) std::this_thread::yield();
    EXPECT_FALSE(gone);
  });
  std::thread asker([&] { EXPECT_TRUE(budget_->Reclaim(&*a_, kUnit)); });
  while (!asking) std::this_thread::yield();
  std::thread leaver([&] {
    budget_->StopAsking(&*b_);
    gone = true;
  });
  // The lock is free meanwhile.
  EXPECT_EQ(c_->TakeUnits(1), 0u);
  absl::SleepFor(absl::Milliseconds(20));
  go_on = true;
  asker.join();
  leaver.join();
  asked_.clear();
  EXPECT_FALSE(budget_->Reclaim(&*a_, 5 * kUnit));
  EXPECT_THAT(asked_, ElementsAre("c cache 400", "c owner 400"))
      << "the one that is leaving is asked no more";
}

TEST_F(SharedBudgetTest, ThreadsThatTakeAtOnceStayWithinAChangingLimit) {
  constexpr int kSteps = 20000;
  std::array<FakeMember*, 3> members = {&*a_, &*b_, &*c_};
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  for (FakeMember* const member : members) {
    threads.emplace_back([this, member, &running] {
      for (int step = 0; step < kSteps; ++step) {
        const uint64_t units = member->TakeUnits(4);
        EXPECT_LE(budget_->held_bytes(), 10 * kUnit);
        FIRN_EXPECT_OK(budget_->CheckInvariants());
        budget_->Give(member, units * kUnit);
      }
      --running;
    });
  }
  uint64_t limit_units = 10;
  while (running > 0) {
    limit_units = limit_units == 10 ? 3 : 10;
    FIRN_EXPECT_OK(budget_->SetLimit(limit_units * kUnit));
    const uint64_t held = budget_->held_bytes();
    std::this_thread::yield();
    EXPECT_LE(budget_->held_bytes(), std::max(limit_units * kUnit, held))
        << "what is held beyond the limit only falls";
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget_->held_bytes(), 0u);
}

}  // namespace
}  // namespace firn::testing
