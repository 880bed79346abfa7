// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/deadlock_watch.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

class DeadlockWatchTest : public ::testing::Test {
 protected:
  absl::Duration PatienceAfter(int seconds) {
    return watch_.Patience(start_ + absl::Seconds(seconds), progress_);
  }

  const absl::Time start_ = absl::UnixEpoch();
  cpu::WorkProgress progress_;
  // Parked for 5 seconds, nothing completed for 20.
  cpu::DeadlockWatch watch_{absl::Seconds(5), absl::Seconds(20), start_,
                            progress_};
};

TEST_F(DeadlockWatchTest, WhatRunsHasTheLongTime) {
  EXPECT_EQ(PatienceAfter(0), absl::Seconds(20));
  EXPECT_EQ(PatienceAfter(19), absl::Seconds(1));
  EXPECT_EQ(PatienceAfter(20), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, WhatIsParkedHasTheShortTime) {
  progress_.all_parked = true;
  EXPECT_EQ(PatienceAfter(0), absl::Seconds(5));
  EXPECT_EQ(PatienceAfter(4), absl::Seconds(1));
  EXPECT_EQ(PatienceAfter(6), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, ActivityStartsTheShortTimeAgainButNotTheLongOne) {
  progress_.all_parked = true;
  PatienceAfter(4);
  ++progress_.activity;
  EXPECT_EQ(PatienceAfter(8), absl::Seconds(5));
  ++progress_.activity;
  EXPECT_EQ(PatienceAfter(18), absl::Seconds(2));
  EXPECT_EQ(PatienceAfter(20), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, CompletedWorkStartsTheLongTimeAgain) {
  ++progress_.completed;
  EXPECT_EQ(PatienceAfter(15), absl::Seconds(20));
  EXPECT_EQ(PatienceAfter(34), absl::Seconds(1));
}

TEST_F(DeadlockWatchTest, AnEndlessTimeNeverPasses) {
  cpu::DeadlockWatch endless(absl::InfiniteDuration(), absl::InfiniteDuration(),
                             start_, progress_);
  progress_.all_parked = true;
  EXPECT_EQ(endless.Patience(start_ + absl::Hours(1'000'000), progress_),
            absl::InfiniteDuration());
}

}  // namespace
}  // namespace firn::cpu_testing
