// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/pass_policy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGranuleBytes = 2 * kMiB;

// A pool of 10,000 MiB whose figures a test sets, and its policy.
class PassPolicyTest : public ::testing::Test {
 protected:
  PassPolicyTest() {
    heap_.granule_bytes = kGranuleBytes;
    heap_.limit_bytes = 10'000 * kMiB;
  }

  void UseMiB(uint64_t live_mib, uint64_t used_mib) {
    heap_.live_bytes = live_mib * kMiB;
    heap_.used_bytes = used_mib * kMiB;
  }
  PassDecision Decide() {
    return policy_->Decide(now_, heap_, [this] {
      ++censuses_;
      return fragments_;
    });
  }
  // Some looks at a heap at which nothing happens.
  void Rest() {
    for (int i = 0; i < 3; ++i) {
      Decide();
      now_ += absl::Milliseconds(100);
    }
  }
  void NoteResult(const PassDecision& decision, uint64_t recovered_granules,
                  absl::Duration elapsed = absl::Milliseconds(1)) {
    now_ += elapsed;
    heap_.used_bytes -= recovered_granules * kGranuleBytes;
    policy_->NoteResult(now_, decision, elapsed, recovered_granules, heap_);
  }
  void Use(const PassPolicyOptions& options) { policy_.emplace(options); }

  HeapFigures heap_;
  FragmentFigures fragments_;
  int censuses_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  PassPolicyOptions options_;
  std::optional<PassPolicy> policy_{options_};
};

TEST_F(PassPolicyTest, LeavesAFragmentedHeapThatNobodyWantsAlone) {
  UseMiB(1'000, 5'000);
  fragments_.recoverable_bytes = 4'000 * kMiB;
  fragments_.free_pieces = 1'000'000;
  const PassDecision first = Decide();
  EXPECT_EQ(first.trigger, PassTrigger::kNone);
  EXPECT_THAT(first.reason, HasSubstr("fragmented, but nobody wants more"));
  EXPECT_THAT(first.reason, HasSubstr("live 1000 MiB, used 5000 MiB"));
  for (int i = 0; i < 1'000; ++i) {
    now_ += absl::Seconds(1);
    const PassDecision next = Decide();
    ASSERT_EQ(next.trigger, PassTrigger::kNone);
    ASSERT_THAT(next.reason, IsEmpty());  // it has been said
  }
  EXPECT_EQ(censuses_, 0);
}

TEST_F(PassPolicyTest, LeavesAFullHeapThatIsNotFragmentedAlone) {
  UseMiB(9'999, 10'000);
  ++heap_.failed_allocations;
  Rest();
  heap_.failed_allocations += 10;
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  EXPECT_EQ(censuses_, 0);
}

TEST_F(PassPolicyTest, ActsOnWasteOnceLittleIsLeft) {
  options_.scarce_percent = 20;
  Use(options_);
  UseMiB(7'000, 7'999);
  Rest();
  UseMiB(7'000, 8'001);
  now_ += absl::Hours(1);  // it has grown slowly
  const PassDecision decision = Decide();
  EXPECT_EQ(decision.trigger, PassTrigger::kWaste);
  EXPECT_THAT(decision.reason, HasSubstr("a pass by waste: 1001 MiB wasted, "
                                         "700 MiB tolerated, 1999 MiB left"));
  // What is tolerated stays, as hardly anything is wanted.
  EXPECT_EQ(decision.wanted_granules, (1001 - 700) / 2 + 0u);
  EXPECT_EQ(censuses_, 0);
}

TEST_F(PassPolicyTest, ToleratesTheLargerOfBytesAndShare) {
  options_.is_wanted_by_others = true;
  options_.scarce_percent = 0;
  options_.tolerated_waste_bytes = 300 * kMiB;
  Use(options_);
  UseMiB(2'000, 2'300);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  UseMiB(2'000, 2'304);
  EXPECT_EQ(Decide().trigger, PassTrigger::kWaste);
  options_.tolerated_waste_percent = std::numeric_limits<double>::max();
  Use(options_);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
}

TEST_F(PassPolicyTest, AFailureActsAtOnceWithAllThatMayBeDone) {
  UseMiB(3'000, 4'000);
  Rest();
  heap_.failed_allocations += 2;
  const PassDecision decision = Decide();
  EXPECT_EQ(decision.trigger, PassTrigger::kFailure);
  EXPECT_EQ(decision.effort_percent, options_.greatest_effort_percent);
  EXPECT_EQ(decision.wanted_granules, 500u);
  EXPECT_THAT(decision.reason, HasSubstr("2 allocations have failed"));
  // It goes on in slices,
  NoteResult(decision, 100);
  now_ += absl::Seconds(1);
  const PassDecision next = Decide();
  EXPECT_EQ(next.trigger, PassTrigger::kFailure);
  EXPECT_EQ(next.wanted_granules, 400u);
  // until a pass can do no more: each failure counts once.
  NoteResult(next, 3);
  now_ += absl::Seconds(10);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
}

TEST_F(PassPolicyTest, AFailedPassIsTriedAgainWhenItsWaitIsOver) {
  UseMiB(3'000, 4'000);
  Rest();
  ++heap_.failed_allocations;
  for (const int64_t wait_ms : {500, 1'000, 2'000}) {
    const PassDecision decision = Decide();
    ASSERT_EQ(decision.trigger, PassTrigger::kFailure);
    policy_->NoteFailure(now_, decision);
    now_ += absl::Milliseconds(wait_ms - 1);
    EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
    now_ += absl::Milliseconds(1);
  }
}

TEST_F(PassPolicyTest, FailuresFromBeforeItsTimeDoNotCount) {
  UseMiB(3'000, 4'000);
  heap_.failed_allocations = 7;
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
}

TEST_F(PassPolicyTest, ForecastsExhaustionFromTheGrowth) {
  // 100 MiB a second, of which a tenth is waste: the limit comes in 10 s when
  // 1,000 MiB are left.
  bool has_acted = false;
  for (uint64_t used_mib = 1'000; used_mib < 9'900; used_mib += 10) {
    UseMiB(used_mib * 9 / 10, used_mib);
    options_.scarce_percent = 0;
    if (used_mib == 1'000) Use(options_);
    const PassDecision decision = Decide();
    now_ += absl::Milliseconds(100);
    if (decision.trigger == PassTrigger::kNone) continue;
    EXPECT_EQ(decision.trigger, PassTrigger::kForecast);
    EXPECT_NEAR(static_cast<double>(used_mib), 9'000, 30);
    EXPECT_THAT(decision.reason, HasSubstr("s at 100 MiB a second"));
    EXPECT_LT(decision.effort_percent, 2);
    has_acted = true;
    break;
  }
  EXPECT_TRUE(has_acted);
}

TEST_F(PassPolicyTest, EffortRisesAsMemoryRunsOut) {
  double last_percent = 0;
  uint64_t last_wanted = 0;
  for (const uint64_t used_mib : {8'100u, 8'500u, 9'000u, 9'500u, 10'000u}) {
    Use(options_);
    UseMiB(used_mib - 1'000, used_mib);
    const PassDecision decision = Decide();
    EXPECT_EQ(decision.trigger, PassTrigger::kWaste);
    EXPECT_GT(decision.effort_percent, last_percent);
    EXPECT_GT(decision.wanted_granules, last_wanted);
    last_percent = decision.effort_percent;
    last_wanted = decision.wanted_granules;
  }
  EXPECT_EQ(last_percent, options_.greatest_effort_percent);
  EXPECT_EQ(last_wanted, 500u);
}

TEST_F(PassPolicyTest, PassesTakeNoMoreThanTheirShareOfTheTime) {
  UseMiB(9'000, 10'000);  // a quarter of the time
  const PassDecision decision = Decide();
  NoteResult(decision, 30, absl::Milliseconds(200));
  now_ += absl::Milliseconds(550);
  const PassDecision early = Decide();
  EXPECT_EQ(early.trigger, PassTrigger::kNone);
  EXPECT_EQ(early.next_look, now_ + absl::Milliseconds(100));
  now_ += absl::Milliseconds(100);
  EXPECT_NE(Decide().trigger, PassTrigger::kNone);
}

TEST_F(PassPolicyTest, FragmentationEndsBelowWhereItBegins) {
  options_.is_wanted_by_others = true;
  options_.fragmentation_start_percent = 20;
  options_.fragmentation_stop_percent = 10;
  options_.tolerated_waste_percent = 1'000;  // leaves waste to it
  options_.free_fragments = 1'000'000;
  Use(options_);
  // All that is wasted could be recovered.
  const auto decide_at = [this](uint64_t percent) {
    UseMiB(1'000 - 10 * percent, 1'000);
    fragments_.recoverable_bytes = heap_.used_bytes - heap_.live_bytes;
    now_ += absl::Minutes(1);
    return Decide().trigger;
  };
  EXPECT_EQ(decide_at(19), PassTrigger::kNone);
  EXPECT_EQ(decide_at(20), PassTrigger::kFragmentation);
  EXPECT_EQ(decide_at(11), PassTrigger::kFragmentation);
  EXPECT_EQ(decide_at(9), PassTrigger::kNone);
  EXPECT_EQ(decide_at(19), PassTrigger::kNone);
  // It ends as well when a pass recovers nothing.
  EXPECT_EQ(decide_at(20), PassTrigger::kFragmentation);
  NoteResult(Decide(), 0);
  fragments_.recoverable_bytes = 0;
  now_ += absl::Hours(1);
  Decide();
  now_ += absl::Hours(1);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
}

TEST_F(PassPolicyTest, LooksAtAllGranulesMoreAndMoreRarelyInVain) {
  options_.is_wanted_by_others = true;
  options_.tolerated_waste_percent = 1'000;
  Use(options_);
  UseMiB(900, 1'000);
  for (int i = 0; i < 36'000; ++i) {  // an hour
    ASSERT_EQ(Decide().trigger, PassTrigger::kNone);
    now_ += absl::Milliseconds(100);
  }
  EXPECT_GE(censuses_, 3'600 / 32);
  EXPECT_LE(censuses_, 3'600 / 32 + 6);
}

TEST_F(PassPolicyTest, ManyFreePiecesCountIfPassesCouldRecoverAnything) {
  options_.is_wanted_by_others = true;
  Use(options_);
  UseMiB(1'000, 1'080);
  fragments_.free_pieces = 100;
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  fragments_.recoverable_bytes = 2 * kGranuleBytes;
  now_ += absl::Minutes(1);
  const PassDecision decision = Decide();
  EXPECT_EQ(decision.trigger, PassTrigger::kFreeFragments);
  EXPECT_THAT(decision.reason, HasSubstr("100 free pieces"));
  fragments_.free_pieces = 99;
  now_ += absl::Minutes(1);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
}

TEST_F(PassPolicyTest, TheTimerActsAfterItsPeriod) {
  options_.period = absl::Minutes(1);
  Use(options_);
  UseMiB(1'000, 1'080);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  now_ += absl::Seconds(59);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  now_ += absl::Seconds(1);
  const PassDecision decision = Decide();
  EXPECT_EQ(decision.trigger, PassTrigger::kTimer);
  EXPECT_EQ(decision.effort_percent, options_.least_effort_percent);
  NoteResult(decision, 10);
  now_ += absl::Seconds(59);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Decide().trigger, PassTrigger::kTimer);
}

TEST_F(PassPolicyTest, BacksOffTwiceAsLongEachTimeUpTo64Times) {
  UseMiB(8'000, 10'000);
  for (const int64_t wait_ms :
       {500, 1'000, 2'000, 4'000, 8'000, 16'000, 32'000, 32'000}) {
    // Each pass recovers one of a thousand granules.
    const PassDecision decision = Decide();
    ASSERT_EQ(decision.trigger, PassTrigger::kWaste);
    NoteResult(decision, 1);
    const absl::Time pass_time = now_;
    now_ = pass_time + absl::Milliseconds(wait_ms - 1);
    const PassDecision early = Decide();
    EXPECT_EQ(early.trigger, PassTrigger::kNone);
    now_ = pass_time + absl::Milliseconds(wait_ms);
  }
  EXPECT_EQ(policy_->back_off_shift(), 6);
  // One that is worth it ends that.
  NoteResult(Decide(), 100);
  EXPECT_EQ(policy_->back_off_shift(), 0);
}

TEST_F(PassPolicyTest, NextLookIsNoSoonerThanTheWaitIsOver) {
  UseMiB(8'000, 10'000);
  for (int i = 0; i < 5; ++i) {
    NoteResult(Decide(), 0);
    heap_.used_bytes += 1'000 * kMiB;  // worth another try
    heap_.limit_bytes += 1'000 * kMiB;
    now_ += absl::Seconds(40);
  }
  NoteResult(Decide(), 0);
  now_ += absl::Milliseconds(100);
  EXPECT_EQ(Decide().next_look,
            now_ - absl::Milliseconds(100) + absl::Milliseconds(500) * 32);
}

TEST_F(PassPolicyTest, IsNeverInALoopOverWhatCannotMove) {
  UseMiB(8'000, 10'000);
  int passes = 0;
  int looks = 0;
  const absl::Time end = now_ + absl::Hours(1);
  while (now_ < end) {
    ++heap_.failed_allocations;  // again and again
    const PassDecision decision = Decide();
    ++looks;
    if (decision.trigger != PassTrigger::kNone) {
      ++passes;
      NoteResult(decision, 0);
    }
    ASSERT_GT(decision.next_look, now_ - absl::Milliseconds(1));
    now_ = std::max(now_, decision.next_look);
  }
  EXPECT_LE(passes, 3'600 / 32 + 7);
  EXPECT_LE(looks, 2 * passes + 1);
}

TEST_F(PassPolicyTest, TriesHopelessWasteAgainWhenItHasGrown) {
  UseMiB(8'000, 9'600);
  NoteResult(Decide(), 0);
  now_ += absl::Seconds(1);
  heap_.used_bytes += 200 * kMiB;
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);  // by an eighth, no more
  heap_.used_bytes += 2 * kMiB;
  now_ += absl::Milliseconds(100);
  EXPECT_NE(Decide().trigger, PassTrigger::kNone);
}

TEST_F(PassPolicyTest, TriesHopelessWasteAgainWhenAnAllocationFails) {
  UseMiB(8'000, 9'600);
  NoteResult(Decide(), 0);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  ++heap_.failed_allocations;
  now_ += absl::Milliseconds(100);
  EXPECT_EQ(Decide().trigger, PassTrigger::kFailure);
}

TEST_F(PassPolicyTest, TriesHopelessWasteAgainAfterHalfAMinute) {
  UseMiB(8'000, 9'600);
  NoteResult(Decide(), 0);
  now_ += absl::Seconds(31);
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Decide().trigger, PassTrigger::kWaste);
}

TEST_F(PassPolicyTest, ByHandNothingIsWaitedFor) {
  UseMiB(8'000, 10'000);
  NoteResult(Decide(), 0);
  const PassDecision decision = policy_->DecideByHand(now_);
  EXPECT_EQ(decision.trigger, PassTrigger::kByHand);
  EXPECT_EQ(decision.wanted_granules, 0u);
  EXPECT_EQ(decision.max_duration, absl::InfiniteDuration());
}

TEST_F(PassPolicyTest, WhereNothingHasGranulesNothingIsDone) {
  UseMiB(1'000, 10'000);
  heap_.granule_bytes = 0;
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
  heap_.failed_allocations = 3;
  EXPECT_EQ(Decide().trigger, PassTrigger::kNone);
}

TEST(PassTriggerNameTest, NamesEachDifferently) {
  for (size_t i = 0; i < kPassTriggers; ++i) {
    EXPECT_NE(PassTriggerName(static_cast<PassTrigger>(i)), "unknown");
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(PassTriggerName(static_cast<PassTrigger>(i)),
                PassTriggerName(static_cast<PassTrigger>(j)));
    }
  }
}

// --- Options ---

struct BadOption {
  std::string message;
  PassPolicyOptions options;
};

template <typename Change>
BadOption Bad(std::string message, Change change) {
  BadOption bad;
  bad.message = std::move(message);
  change(&bad.options);
  return bad;
}

TEST(PassPolicyOptionsTest, NameTheFieldThatIsWrong) {
  FIRN_EXPECT_OK(PassPolicyOptions().Validate());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  using Options = PassPolicyOptions;
  const BadOption all[] = {
      Bad("tolerated_waste_percent: -1; must be 0 or more",
          [](Options* o) { o->tolerated_waste_percent = -1; }),
      Bad("tolerated_waste_percent: nan",
          [nan](Options* o) { o->tolerated_waste_percent = nan; }),
      Bad("free_fragments: 0; must be 1 or more",
          [](Options* o) { o->free_fragments = 0; }),
      Bad("fragmentation_start_percent: 101; must be at least 0 and at most "
          "100",
          [](Options* o) { o->fragmentation_start_percent = 101; }),
      Bad("fragmentation_stop_percent: 30; must be no more than "
          "fragmentation_start_percent, 5",
          [](Options* o) { o->fragmentation_stop_percent = 30; }),
      Bad("scarce_percent: nan",
          [nan](Options* o) { o->scarce_percent = nan; }),
      Bad("least_effort_percent: 0; must be more than 0 and at most 100",
          [](Options* o) { o->least_effort_percent = 0; }),
      Bad("greatest_effort_percent: 200",
          [](Options* o) { o->greatest_effort_percent = 200; }),
      Bad("least_effort_percent: 50; must be no more than "
          "greatest_effort_percent, 25",
          [](Options* o) { o->least_effort_percent = 50; }),
      Bad("forecast_horizon: 0; must be more than 0",
          [](Options* o) { o->forecast_horizon = absl::ZeroDuration(); }),
      Bad("growth_memory: 0",
          [](Options* o) { o->growth_memory = absl::ZeroDuration(); }),
      Bad("period: -1s", [](Options* o) { o->period = -absl::Seconds(1); }),
      Bad("max_pass: 0",
          [](Options* o) { o->max_pass = absl::ZeroDuration(); }),
      Bad("look_interval: 0",
          [](Options* o) { o->look_interval = absl::ZeroDuration(); }),
      Bad("back_off: 0",
          [](Options* o) { o->back_off = absl::ZeroDuration(); }),
  };
  for (const BadOption& bad : all) {
    EXPECT_THAT(
        bad.options.Validate(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
  }
}

}  // namespace
}  // namespace firn
