// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every driver call of a pass over several granules fails, with hooks, pins and
// users that wait: what a batch had begun is undone, the gate opens, and the
// next pass does the rest.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_types.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/hook_log.h"
#include "tests/core/pool_pass_scene.h"
#include "tests/support/sanitizers.h"
#include "tests/support/side_thread.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(10);
// A sanitizer's run leaves some calls out.
constexpr uint64_t kStride = kUnderThreadSanitizer ? 5 : 1;

// Threads that want something while the pass goes on, and must get it. They
// make no driver call before the pass is over.
class WaitingUsers {
 public:
  explicit WaitingUsers(PoolPassScene* scene)
      : scene_(*scene),
        in_scope_([this] { EnterScope(); }),
        in_mark_active_([this] { MarkActiveAgainAndAgain(); }) {}
  ~WaitingUsers() { ExpectServed(); }

  // The gate is closed, where it will be, and the pass under way.
  void PassHasBegun() { has_begun_.store(true); }
  // Nothing may stand in anybody's way any more.
  void ExpectServed() {
    has_begun_.store(true);
    is_over_.store(true);
    EXPECT_TRUE(in_scope_.IsDoneWithin(kSoon)) << "the gate is stuck";
    EXPECT_TRUE(in_mark_active_.IsDoneWithin(kSoon)) << "the lock is stuck";
  }

 private:
  bool GateClosesLate() const { return scene_.is_read_only(); }
  void EnterScope() {
    while (!has_begun_.load()) absl::SleepFor(absl::Microseconds(20));
    if (GateClosesLate()) {
      // Wherever the pass is by now. With no stream named its end makes no
      // driver call either.
      const LaunchScope scope(scene_.pool());
      return;
    }
    const LaunchScope scope(scene_.pool(), scene_.stream());
    while (!is_over_.load()) absl::SleepFor(absl::Microseconds(20));
  }
  void MarkActiveAgainAndAgain() {
    while (!is_over_.load()) {
      FIRN_EXPECT_OK(scene_.pool().MarkActive(scene_.busy().ptr));
      absl::SleepFor(absl::Microseconds(20));
    }
  }

  PoolPassScene& scene_;
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> is_over_{false};
  SideThread in_scope_;
  SideThread in_mark_active_;
};

struct Case {
  PassSetting setting;
  bool lasting = false;
};

class PoolPassFailureTest : public ::testing::TestWithParam<Case> {
 protected:
  // Makes the pass with its n-th call failing, and returns whether it did.
  static bool TryWithFailure(uint64_t n, uint64_t* losses) {
    PoolPassScene scene(GetParam().setting);
    const PoolPassScene::View before = scene.Look();
    absl::Status status;
    bool reached = false;
    {
      WaitingUsers users(&scene);
      scene.hooks().SetOnCall([&users] { users.PassHasBegun(); });
      scene.faults().Reset();
      if (GetParam().lasting) {
        scene.faults().FailFrom(n, DriverResult::kUnknown);
      } else {
        scene.faults().FailNth(n, DriverResult::kUnknown);
      }
      status = scene.RunPass().status();
      reached = scene.faults().failures() > 0;
      scene.faults().Reset();
      scene.hooks().SetOnCall(nullptr);
    }
    EXPECT_TRUE(status.ok() || reached) << "failed by itself: " << status;
    const bool has_lost = HasLost(&scene);
    if (has_lost) ++*losses;
    scene.ExpectSound(has_lost);
    ExpectWholeBatches(&scene, before, status, has_lost);
    FIRN_EXPECT_OK(scene.RunPass().status());
    scene.ExpectSound(has_lost);
    ExpectAllIsRecovered(&scene, before, has_lost);
    scene.ExpectNothingIsLeft(has_lost);
    return reached;
  }

  // Addresses that could not be given back their memory: the pool says so.
  static bool HasLost(PoolPassScene* scene) {
    const absl::Status invariants = scene->pool().CheckInvariants();
    if (invariants.ok()) return false;
    EXPECT_TRUE(GetParam().lasting) << invariants;
    EXPECT_THAT(
        std::string(invariants.message()),
        AnyOf(HasSubstr("could not be restored"), HasSubstr("was given up")));
    return true;
  }

  static void ExpectWholeBatches(PoolPassScene* scene,
                                 const PoolPassScene::View& before,
                                 const absl::Status& status, bool has_lost) {
    uint64_t moved_sources = 0;
    uint64_t moved_blocks = 0;
    uint64_t unmoved_batches = 0;
    const std::vector<HookLog::Batch> batches =
        scene->hooks().CheckBatches(/*exact=*/true);
    for (const HookLog::Batch& batch : batches) {
      EXPECT_TRUE(batch.moved_sources == 0 ||
                  batch.moved_sources == batch.sources)
          << batch.moved_sources << " of " << batch.sources << " sources";
      EXPECT_EQ(unmoved_batches, 0u) << "the pass went on after a failure";
      moved_sources += batch.moved_sources;
      moved_blocks += batch.moved_blocks;
      if (batch.moved_sources == 0) ++unmoved_batches;
    }
    EXPECT_TRUE(unmoved_batches == 0 || !status.ok());

    const PoolPassScene::View now = scene->Look();
    uint64_t moved = 0;
    for (size_t i = 0; i < now.generations.size(); ++i) {
      EXPECT_GE(now.generations[i], before.generations[i]);
      if (now.generations[i] == before.generations[i]) continue;
      ++moved;
      EXPECT_FALSE(scene->MustStay(scene->blocks()[i])) << i;
    }
    // What is lost has grown older without having moved.
    if (has_lost) return;
    EXPECT_EQ(moved, moved_blocks);
    const PoolStats& then = before.stats;
    const PoolStats& stats = now.stats;
    const uint64_t gained =
        (then.used_bytes - stats.used_bytes) / PoolPassScene::kGranuleBytes;
    EXPECT_EQ(gained, moved_sources);
    EXPECT_EQ(stats.granules_recovered - then.granules_recovered, gained);
    EXPECT_EQ(stats.bytes_copied - then.bytes_copied,
              moved * PoolPassScene::kBlockBytes);
    EXPECT_EQ(stats.granules_moved > then.granules_moved, moved > 0);
    EXPECT_EQ(stats.held_bytes, then.held_bytes);
    EXPECT_EQ(stats.mapped_vgs, then.mapped_vgs);
    // What was parked when it was looked at counts no more.
    EXPECT_LE(stats.live_vgs, then.live_vgs);
    EXPECT_EQ(stats.idle_blocks, then.idle_blocks);
    EXPECT_EQ(stats.read_only_blocks, then.read_only_blocks);
    EXPECT_EQ(stats.pinned_granules, then.pinned_granules);
    EXPECT_EQ(stats.vetoed_sources, then.vetoed_sources);
    if (!status.ok() && stats.compaction_passes > then.compaction_passes) {
      EXPECT_EQ(stats.failed_passes, then.failed_passes + 1);
    }
  }

  // Together the two passes do what one does.
  static void ExpectAllIsRecovered(PoolPassScene* scene,
                                   const PoolPassScene::View& before,
                                   bool has_lost) {
    if (has_lost) return;
    const PoolStats stats = scene->pool().GetStats();
    const uint64_t gained = (before.stats.used_bytes - stats.used_bytes) /
                            PoolPassScene::kGranuleBytes;
    EXPECT_GE(gained, 3u);
    EXPECT_GE(stats.granules_moved - before.stats.granules_moved, 2 * gained);
    EXPECT_EQ(stats.held_bytes, before.stats.held_bytes);
  }
};

TEST_P(PoolPassFailureTest, EveryCallOfAPassOverManyGranulesMayFail) {
  uint64_t losses = 0;
  uint64_t n = 0;
  for (;; n += kStride) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    const bool reached = TryWithFailure(n, &losses);
    if (HasFailure() || !reached) break;
  }
  EXPECT_GT(n, 30u);
  EXPECT_TRUE(GetParam().lasting || losses == 0) << losses;
  EXPECT_LT(losses, n / kStride);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const PassSetting setting : PassSettings()) {
    for (const bool lasting : {false, true})
      cases.push_back({setting, lasting});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Faults, PoolPassFailureTest,
                         ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return absl::StrCat(
                               PassSettingName(info.param.setting),
                               info.param.lasting ? "FromThenOn" : "Once");
                         });

}  // namespace
}  // namespace firn::testing
