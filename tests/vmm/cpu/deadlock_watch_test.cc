// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/deadlock_watch.h"

#include <algorithm>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

constexpr absl::Duration kSlice = cpu::DeadlockWatch::kLongestSlice;

class DeadlockWatchTest : public ::testing::Test {
 protected:
  // In slices, as long as it is not a deadlock before.
  absl::Duration PatienceAfter(absl::Duration passed) {
    absl::Duration patience = watch_.Patience(absl::ZeroDuration(), progress_);
    while (passed > absl::ZeroDuration() && patience > absl::ZeroDuration()) {
      const absl::Duration slice = std::min(passed, kSlice);
      patience = watch_.Patience(slice, progress_);
      passed -= slice;
    }
    return patience;
  }

  cpu::WorkProgress progress_;
  // Parked for 5 slices, nothing completed for 20.
  cpu::DeadlockWatch watch_{5 * kSlice, 20 * kSlice, progress_};
};

TEST_F(DeadlockWatchTest, WhatRunsHasTheLongTime) {
  EXPECT_EQ(PatienceAfter(absl::ZeroDuration()), kSlice);
  EXPECT_EQ(PatienceAfter(19.75 * kSlice), kSlice / 4);
  EXPECT_EQ(PatienceAfter(kSlice / 4), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, WhatIsParkedHasTheShortTime) {
  progress_.all_parked = true;
  EXPECT_EQ(PatienceAfter(4.75 * kSlice), kSlice / 4);
  EXPECT_EQ(PatienceAfter(kSlice), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, ActivityStartsTheShortTimeAgainButNotTheLongOne) {
  progress_.all_parked = true;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(PatienceAfter(4.75 * kSlice), kSlice / 4);
    ++progress_.activity;
    EXPECT_EQ(PatienceAfter(absl::ZeroDuration()), kSlice);
  }
  // 19 slices so far.
  EXPECT_EQ(PatienceAfter(kSlice / 2), kSlice / 2);
  EXPECT_EQ(PatienceAfter(kSlice / 2), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, CompletedWorkStartsTheLongTimeAgain) {
  PatienceAfter(15 * kSlice);
  ++progress_.completed;
  EXPECT_EQ(PatienceAfter(absl::ZeroDuration()), kSlice);
  EXPECT_EQ(PatienceAfter(19.5 * kSlice), kSlice / 2);
  EXPECT_EQ(PatienceAfter(kSlice), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, TimeForWhichTheProcessStoodStillIsOneSliceAtMost) {
  progress_.all_parked = true;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(watch_.Patience(absl::Hours(1), progress_), kSlice);
  }
  EXPECT_EQ(watch_.Patience(absl::Hours(1), progress_), absl::ZeroDuration());
}

TEST_F(DeadlockWatchTest, AnEndlessTimeNeverPasses) {
  cpu::DeadlockWatch endless(absl::InfiniteDuration(), absl::InfiniteDuration(),
                             progress_);
  progress_.all_parked = true;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(endless.Patience(absl::InfiniteDuration(), progress_), kSlice);
  }
}

}  // namespace
}  // namespace firn::cpu_testing
