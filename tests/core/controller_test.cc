// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compaction that runs itself.

#include "firn/core/controller.h"

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pin.h"
#include "firn/core/pool.h"
#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/fragmented_pool_scene.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kCapacityBytes = 48 * kMiB;

// A controller's clock, and its log.
class ControllerTest : public FragmentedPoolScene {
 protected:
  ControllerTest() : FragmentedPoolScene(kCapacityBytes) {}

  // On the test's clock, for waste that counts in a pool as small as this one.
  ControllerOptions Options() {
    ControllerOptions options;
    options.policy.tolerated_waste_bytes = 0;
    options.policy.is_wanted_by_others = true;
    options.pool_name = "test";
    options.log = [this](absl::string_view line) {
      MutexLock lock(&mutex_);
      lines_.emplace_back(line);
    };
    return options;
  }
  ControllerOptions WithClock() {
    ControllerOptions options = Options();
    options.now = [this] { return now_; };
    return options;
  }
  std::vector<std::string> lines() {
    MutexLock lock(&mutex_);
    return lines_;
  }

  absl::Time now_ = absl::UnixEpoch();
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

TEST_P(ControllerTest, RecoversWhatIsWastedAndThenSleeps) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), WithClock()));
  const uint64_t before = WasteBytes();
  for (int i = 0; i < 1'000; ++i) {
    const absl::Time next = controller->Step();
    ASSERT_GT(next, now_);
    now_ = next;
  }
  EXPECT_LT(WasteBytes(), before / 4);
  const ControllerStats stats = controller->stats();
  EXPECT_EQ(stats.looks, 1'000u);
  EXPECT_EQ(stats.failed_passes, 0u);
  EXPECT_GT(stats.granules_recovered, 0u);
  EXPECT_GE(stats.passes[static_cast<size_t>(PassTrigger::kWaste)], 1u);
  // Asleep: it tries again every half minute.
  const uint64_t naps =
      static_cast<uint64_t>((now_ - absl::UnixEpoch()) / absl::Seconds(32));
  EXPECT_LT(pool().GetUsage().compaction_passes, naps + 20);
}

TEST_P(ControllerTest, LogsEachDecisionWithItsFigures) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), WithClock()));
  controller->Step();
  EXPECT_THAT(
      lines(),
      ElementsAre(AllOf(StartsWith("firn[test] controller: a pass by waste: "),
                        HasSubstr(" wasted"), HasSubstr("; live "),
                        HasSubstr("limit 48 MiB"), HasSubstr("effort ")),
                  StartsWith("firn[test] controller: the pass recovered ")));
}

TEST_P(ControllerTest, LeavesAloneWhatNobodyWants) {
  ControllerOptions options = WithClock();
  options.policy.is_wanted_by_others = false;
  options.policy.scarce_percent = 0;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), std::move(options)));
  for (int i = 0; i < 100; ++i) now_ = controller->Step();
  EXPECT_EQ(pool().GetUsage().compaction_passes, 0u);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("nobody wants more")));
}

TEST_P(ControllerTest, AFailedAllocationHasItActAtItsNextLook) {
  ControllerOptions options = WithClock();
  options.policy.is_wanted_by_others = false;
  options.policy.scarce_percent = 0;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), std::move(options)));
  now_ = controller->Step();
  // All granules are partly filled.
  EXPECT_THAT(pool().Allocate(38 * kMiB),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // In slices, until that is all they can do.
  for (int i = 0; i < 50; ++i) now_ = controller->Step();
  EXPECT_THAT(lines(), Contains(HasSubstr("a pass by failure: 1 allocations "
                                          "have failed")));
  const uint64_t passes = pool().GetUsage().compaction_passes;
  for (int i = 0; i < 50; ++i) now_ = controller->Step();
  EXPECT_EQ(pool().GetUsage().compaction_passes, passes);
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, pool().Allocate(38 * kMiB));
  FIRN_ASSERT_OK(pool().Free(block));
}

TEST_P(ControllerTest, BacksOffFromWhatIsPinned) {
  std::vector<Pin> pins;
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK_AND_ASSIGN(Pin pin, pool().PinBlock(block.ptr, "a test"));
    pins.push_back(std::move(pin));
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), WithClock()));
  const absl::Time end = now_ + absl::Minutes(30);
  while (now_ < end) now_ = controller->Step();
  const ControllerStats stats = controller->stats();
  EXPECT_EQ(stats.granules_recovered, 0u);
  EXPECT_LE(stats.fruitless_passes, 30u * 60 / 32 + 2);
  // Once they are gone it finds out by itself.
  pins.clear();
  const uint64_t before = WasteBytes();
  const absl::Time soon = now_ + absl::Minutes(1);
  while (now_ < soon) now_ = controller->Step();
  EXPECT_LT(WasteBytes(), before);
}

TEST_P(ControllerTest, ByHandItWaitsForNoTurn) {
  ControllerOptions options = WithClock();
  options.policy.is_wanted_by_others = false;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), std::move(options)));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            controller->CompactNow());
  EXPECT_GT(report.granules_recovered, 0u);
  EXPECT_THAT(lines(), Contains(HasSubstr("a pass by hand")));
  EXPECT_EQ(
      controller->stats().passes[static_cast<size_t>(PassTrigger::kByHand)],
      1u);
}

TEST_P(ControllerTest, APassThatCannotCloseTheGateIsTriedAgainLater) {
  ControllerOptions options = WithClock();
  options.max_wait = absl::Milliseconds(50);
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), std::move(options)));
  Mutex mutex;
  CondVar changed;
  bool is_inside = false;
  bool may_leave = false;
  std::thread launching([&] {
    const LaunchScope scope(pool(), nullptr);
    MutexLock lock(&mutex);
    is_inside = true;
    changed.SignalAll();
    while (!may_leave) changed.Wait(&mutex);
  });
  {
    MutexLock lock(&mutex);
    while (!is_inside) changed.Wait(&mutex);
  }
  now_ = controller->Step();
  EXPECT_EQ(controller->stats().failed_passes, 1u);
  EXPECT_THAT(lines(), Contains(HasSubstr("the pass failed after")));
  {
    MutexLock lock(&mutex);
    may_leave = true;
    changed.SignalAll();
  }
  launching.join();
  const uint64_t before = WasteBytes();
  now_ += absl::Minutes(1);
  now_ = controller->Step();
  EXPECT_LT(WasteBytes(), before);
}

TEST_P(ControllerTest, GivesBackWhatItRecoversIfAsked) {
  ControllerOptions options = WithClock();
  options.trims = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Create(&pool(), std::move(options)));
  for (int i = 0; i < 100; ++i) now_ = controller->Step();
  const PoolUsage usage = pool().GetUsage();
  EXPECT_LE(usage.held_bytes, kCapacityBytes / 2);
  EXPECT_THAT(lines(), Contains(HasSubstr("gave back ")));
}

TEST_P(ControllerTest, WorksInAThreadOfItsOwn) {
  const uint64_t before = WasteBytes();
  ControllerOptions options = Options();
  options.policy.look_interval = absl::Milliseconds(1);
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Start(&pool(), std::move(options)));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (WasteBytes() > before / 4 && absl::Now() < deadline) {
    // Others go on meanwhile.
    FIRN_ASSERT_OK_AND_ASSIGN(void* const block, pool().Allocate(kBlockBytes));
    { const LaunchScope scope(pool(), nullptr); }
    FIRN_ASSERT_OK(pool().Free(block));
  }
  EXPECT_LE(WasteBytes(), before / 4);
}

TEST_P(ControllerTest, IsWokenAndEndsAtOnce) {
  ControllerOptions options = Options();
  options.policy.look_interval = absl::Hours(1);
  options.policy.is_wanted_by_others = false;
  options.policy.scarce_percent = 0;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Controller> controller,
                            Controller::Start(&pool(), std::move(options)));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (controller->stats().looks < 3 && absl::Now() < deadline) {
    controller->Wake();
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GE(controller->stats().looks, 3u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, ControllerTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

// --- Where it cannot work ---

TEST(ControllerOptionsTest, AreRefusedByName) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PoolOnCpu> on_cpu,
                            PoolOnCpu::Real(kCapacityBytes));
  Pool* const pool = &on_cpu->pool();
  ControllerOptions options;
  options.policy.free_fragments = 0;
  EXPECT_THAT(Controller::Create(pool, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("policy.free_fragments: 0")));
  options = {};
  options.max_wait = -absl::Seconds(1);
  EXPECT_THAT(
      Controller::Start(pool, options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_wait")));
  options = {};
  options.max_pause = -absl::Seconds(1);
  EXPECT_THAT(
      Controller::Start(pool, options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_pause")));
  options = {};
  options.level = CompactionLevel::kCallerPromises;
  EXPECT_THAT(Controller::Start(pool, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("level: kCallerPromises")));
  FIRN_EXPECT_OK(Controller::Create(pool, options).status());
  options = {};
  options.now = [] { return absl::UnixEpoch(); };
  EXPECT_THAT(Controller::Start(pool, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("now")));
  EXPECT_THAT(Controller::Start(nullptr, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pool")));
}

TEST(ControllerWithoutMovingTest, SleepsForEverAndSaysWhy) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PoolOnCpu> on_cpu,
                            MakeFixedPool(kCapacityBytes));
  std::vector<std::string> lines;
  ControllerOptions options;
  options.log = [&lines](absl::string_view line) { lines.emplace_back(line); };
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Controller> controller,
      Controller::Create(&on_cpu->pool(), std::move(options)));
  EXPECT_EQ(controller->Step(), absl::InfiniteFuture());
  EXPECT_EQ(controller->Step(), absl::InfiniteFuture());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("asleep, as nothing moves: ")));
  EXPECT_THAT(controller->CompactNow(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ControllerWithoutMovingTest, EndsItsThreadAllTheSame) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PoolOnCpu> on_cpu,
                            MakeFixedPool(kCapacityBytes));
  FIRN_EXPECT_OK(Controller::Start(&on_cpu->pool(), {}).status());
}

}  // namespace
}  // namespace firn::testing
