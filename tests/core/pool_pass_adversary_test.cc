// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Between any two steps of a pass over several granules somebody frees, uses,
// allocates, captures, destroys a stream, or gives the pass up: contents stay,
// and nothing is left behind.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/pool_pass_scene.h"
#include "tests/support/held_stream.h"
#include "tests/support/sanitizers.h"
#include "tests/support/side_thread.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stream_capture.h"

namespace firn::testing {
namespace {

constexpr GraphPoolId kId{7};
// What the other thread has before the pass goes on: where it may be held up,
// and where it must not be.
constexpr absl::Duration kMoment = absl::Microseconds(200);
constexpr absl::Duration kSoon = absl::Seconds(10);
// A sanitizer's run leaves some steps out.
constexpr uint64_t kStride = kUnderThreadSanitizer ? 7 : 1;

class PoolPassAdversaryTest : public ::testing::TestWithParam<PassSetting> {
 protected:
  using Act = std::function<void(PoolPassScene&)>;
  enum class Waits { kNever, kForThePass };

  // Finds out what the pass moves, and what it moves it to.
  void SetUp() override {
    PoolPassScene scene(GetParam());
    const PoolPassScene::View before = scene.Look();
    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, scene.RunPass());
    ASSERT_GE(report.granules_recovered, 3u);
    ASSERT_GE(report.moves, 2 * report.granules_recovered);
    const PoolPassScene::View after = scene.Look();
    std::set<PhysicalHandle> hosts;
    for (size_t i = 0; i < scene.blocks().size(); ++i) {
      if (after.generations[i] == before.generations[i]) continue;
      moving_.push_back(i);
      hosts.insert(HandleOf(scene, i));
    }
    for (size_t i = 0; i < scene.blocks().size(); ++i) {
      if (after.generations[i] == before.generations[i] && i > 0 &&
          !scene.is_pinned(scene.blocks()[i]) &&
          hosts.count(HandleOf(scene, i)) == 1) {
        staying_.push_back(i);
      }
    }
    ASSERT_GT(moving_.size(), 6u);
    ASSERT_GT(staying_.size(), 1u);
    scene.ExpectNothingIsLeft();
  }

  // Has `act` begin on another thread before the n-th step of the pass, for
  // every n, on a scene made anew; `finish` follows when both are done. Steps
  // are all driver calls, and the calls of the hooks.
  void AtEveryStep(Waits waits, const Act& act, const Act& finish) {
    uint64_t steps = 0;
    for (const bool in_hook : {false, true}) {
      for (uint64_t n = 0;; n += kStride) {
        SCOPED_TRACE(absl::StrCat(in_hook ? "in hook " : "before call ", n));
        PoolPassScene scene(GetParam());
        const bool acted = RunPassWith(scene, in_hook, n, waits, act);
        if (acted && finish) finish(scene);
        if (HasFailure()) return;
        if (!acted) break;
        ++steps;
      }
    }
    EXPECT_GT(steps * kStride, 40u);
  }
  // Ends with a pool that is whole, and goes whole.
  void AtEveryStep(Waits waits, const Act& act) {
    AtEveryStep(waits, act, &ExpectWhole);
  }

  static void ExpectWhole(PoolPassScene& scene) {
    scene.hooks().CheckBatches(/*exact=*/false);
    scene.ExpectSound();
    FIRN_EXPECT_OK(scene.RunPass().status());
    scene.ExpectSound();
    scene.ExpectNothingIsLeft();
  }

  static bool is_idle_pass() {
    return GetParam().level == CompactionLevel::kDeclaredIdle;
  }
  // Whether it waits for open scopes once it has copied.
  static bool is_read_only() { return GetParam().is_read_only; }
  static bool has_scopes() {
    return GetParam().level == CompactionLevel::kLaunchScopes;
  }

  // Fills the block anew, as a user may at this level while a pass goes on, who
  // has declared it active. At level 0 nobody launches.
  static void Rewrite(PoolPassScene& scene, FilledBlock* block) {
    // A copy that was cancelled may still be reading, for nothing: the
    // sanitizer would call that a race.
    if (!has_scopes() && (!is_idle_pass() || kUnderThreadSanitizer)) return;
    std::unique_ptr<LaunchScope> scope;
    if (has_scopes()) {
      scope = std::make_unique<LaunchScope>(scene.pool(), scene.stream());
    }
    block->seed += 7;
    EXPECT_EQ(FillOnStream(&scene.cpu(), *block, scene.stream()),
              DriverResult::kSuccess);
  }

  // Frees these blocks, and forgets them.
  static void FreeAll(PoolPassScene& scene, const std::vector<size_t>& which,
                      StreamHandle stream) {
    std::vector<FilledBlock>& blocks = scene.blocks();
    // From the last one on, so that the others keep their places.
    for (auto i = which.rbegin(); i != which.rend(); ++i) {
      FIRN_EXPECT_OK(scene.pool().Free(blocks[*i].ptr, stream));
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(*i));
    }
  }

  // Every third of them.
  static std::vector<size_t> SomeOf(const std::vector<size_t>& which) {
    std::vector<size_t> some;
    for (size_t i = 0; i < which.size(); i += 3) some.push_back(which[i]);
    return some;
  }

  std::vector<size_t> moving_;   // blocks, by index
  std::vector<size_t> staying_;  // on granules that take some in
  std::atomic<bool> pass_is_over_{false};
  // Whether the pass may be refused, as a graph-private pool is open.
  bool may_be_refused_ = false;

 private:
  static PhysicalHandle HandleOf(PoolPassScene& scene, size_t i) {
    PhysicalHandle handle{};
    EXPECT_EQ(scene.cpu().MemRetainAllocationHandle(
                  &handle, reinterpret_cast<uintptr_t>(scene.blocks()[i].ptr)),
              DriverResult::kSuccess);
    EXPECT_EQ(scene.cpu().MemRelease(handle), DriverResult::kSuccess);
    return handle;
  }

  // Whether the pass had so many steps.
  bool RunPassWith(PoolPassScene& scene, bool in_hook, uint64_t n, Waits waits,
                   const Act& act) {
    pass_is_over_.store(false);
    std::unique_ptr<SideThread> other;
    const auto begin = [&](bool is_unlocked) {
      other = std::make_unique<SideThread>([&] { act(scene); });
      const bool must_go_on =
          is_idle_pass() && is_unlocked && waits == Waits::kNever;
      const bool is_done = other->IsDoneWithin(must_go_on ? kSoon : kMoment);
      EXPECT_TRUE(is_done || !must_go_on) << "held up while the pass copies";
    };
    uint64_t hook_calls = 0;
    if (in_hook) {
      scene.hooks().SetOnCall([&] {
        if (hook_calls++ == n) begin(/*is_unlocked=*/true);
      });
    } else {
      scene.steps().Before(
          n, [&](DriverCall next) { begin(/*is_unlocked=*/IsCopyStep(next)); });
    }
    const absl::Status status = scene.RunPass().status();
    pass_is_over_.store(true);
    scene.steps().Cancel();
    scene.hooks().SetOnCall(nullptr);
    const bool acted = other != nullptr;
    other.reset();
    EXPECT_TRUE(status.ok() ||
                (may_be_refused_ && absl::IsFailedPrecondition(status)))
        << status;
    return acted;
  }
};

TEST_P(PoolPassAdversaryTest, MovingBlocksAreFreed) {
  AtEveryStep(Waits::kNever, [this](PoolPassScene& scene) {
    FreeAll(scene, SomeOf(moving_), nullptr);
  });
}

TEST_P(PoolPassAdversaryTest, AllMovingBlocksAreFreedOnAnotherStream) {
  AtEveryStep(Waits::kNever, [this](PoolPassScene& scene) {
    FreeAll(scene, moving_, scene.stream());
  });
}

TEST_P(PoolPassAdversaryTest, BlocksOfTheHostsAreFreed) {
  AtEveryStep(Waits::kNever, [this](PoolPassScene& scene) {
    FreeAll(scene, staying_, nullptr);
  });
}

TEST_P(PoolPassAdversaryTest, MovingBlocksAreActiveAgainAndWritten) {
  AtEveryStep(Waits::kNever, [this](PoolPassScene& scene) {
    for (const size_t i : SomeOf(moving_)) {
      FIRN_EXPECT_OK(scene.pool().MarkActive(scene.blocks()[i].ptr));
      Rewrite(scene, &scene.blocks()[i]);
    }
  });
}

TEST_P(PoolPassAdversaryTest, UsesAreRecordedAndTheBlocksFreed) {
  AtEveryStep(Waits::kNever, [this](PoolPassScene& scene) {
    const std::vector<size_t> some = SomeOf(moving_);
    for (const size_t i : some) {
      FilledBlock& block = scene.blocks()[i];
      // Who only reads leaves it read-only.
      if (is_read_only()) {
        FIRN_EXPECT_OK(scene.pool().MarkActive(block.ptr));
      }
      FIRN_EXPECT_OK(scene.pool().RecordUse(block.ptr, scene.stream()));
      Rewrite(scene, &block);
      FIRN_EXPECT_OK(scene.pool().RecordUse(block.ptr, scene.stream()));
    }
    FreeAll(scene, {some.front(), some.back()}, nullptr);
  });
}

TEST_P(PoolPassAdversaryTest, ACaptureIsNotBroken) {
  // Nobody launches at level 0.
  if (!has_scopes() && !is_idle_pass()) GTEST_SKIP() << "no launches";
  std::unique_ptr<StreamCapture> capture;
  FilledBlock captured;
  AtEveryStep(
      Waits::kForThePass,
      [&](PoolPassScene& scene) {
        captured = scene.busy();
        captured.seed += 7;
        capture = std::make_unique<StreamCapture>(&scene.cpu());
        // The gate would wait for the scope, and idle memory does not.
        const LaunchScope scope(scene.pool(), capture->stream());
        EXPECT_EQ(capture->Begin(CaptureMode::kGlobal), DriverResult::kSuccess);
        EXPECT_EQ(FillOnStream(&scene.cpu(), captured, capture->stream()),
                  DriverResult::kSuccess);
        while (is_idle_pass() && !is_read_only() && !pass_is_over_.load()) {
          absl::SleepFor(absl::Microseconds(20));
        }
        EXPECT_EQ(capture->End(), DriverResult::kSuccess);
      },
      [&](PoolPassScene& scene) {
        scene.ExpectSound();
        {
          const LaunchScope scope(scene.pool(), capture->stream());
          EXPECT_EQ(capture->Run(), DriverResult::kSuccess);
        }
        scene.blocks().front() = captured;
        capture.reset();
        ExpectWhole(scene);
      });
}

TEST_P(PoolPassAdversaryTest, AStreamIsDestroyed) {
  AtEveryStep(Waits::kNever, [this](PoolPassScene& scene) {
    FreeAll(scene, {moving_.front(), moving_.back()}, scene.stream());
    scene.DestroyStream();
  });
}

TEST_P(PoolPassAdversaryTest, AGraphPrivatePoolIsOpenedUsedAndReleased) {
  may_be_refused_ = true;
  FilledBlock block;
  block.bytes = PoolPassScene::kBlockBytes;
  block.seed = 1 << 20;
  AtEveryStep(
      Waits::kForThePass,
      [&](PoolPassScene& scene) {
        FIRN_EXPECT_OK(scene.pool().BeginPool(kId, {scene.stream()}));
        AllocateOptions options;
        options.stream = scene.stream();
        block.ptr =
            scene.pool().Allocate(block.bytes, options).value_or(nullptr);
        EXPECT_NE(block.ptr, nullptr);
        FIRN_EXPECT_OK(scene.pool().EndPool(kId));
      },
      [&](PoolPassScene& scene) {
        Fill(block);
        scene.blocks().push_back(block);
        FIRN_EXPECT_OK(scene.RunPass().status());
        scene.ExpectSound();
        EXPECT_EQ(scene.pool().GetStats().graph_pools, 1u);
        FIRN_EXPECT_OK(scene.pool().ReleasePool(kId));
        ExpectWhole(scene);
      });
}

TEST_P(PoolPassAdversaryTest, AnAllocationFailsAndOthersSucceed) {
  AtEveryStep(Waits::kNever, [](PoolPassScene& scene) {
    EXPECT_THAT(scene.pool().Allocate(PoolPassScene::kCapacityBytes),
                StatusIs(absl::StatusCode::kResourceExhausted));
    for (uint64_t i = 0; i < 20; ++i) {
      FilledBlock block;
      block.bytes = PoolPassScene::kBlockBytes;
      block.seed = (1 << 20) + i;
      const absl::StatusOr<void*> ptr = scene.pool().Allocate(block.bytes);
      FIRN_EXPECT_OK(ptr.status());
      if (!ptr.ok()) return;
      block.ptr = *ptr;
      Fill(block);
      scene.blocks().push_back(block);
    }
  });
}

// Of which frees are pending, at level 2 behind work that is held up.
TEST_P(PoolPassAdversaryTest, ThePoolGoesOnceThePassThatWasCancelledReturns) {
  // Where unmapping waits, or the first drain, nothing may be held up.
  const bool holds =
      is_idle_pass() && !is_read_only() && GetParam().sync == CpuSync::kLazy;
  std::unique_ptr<HeldStream> held;
  AtEveryStep(
      Waits::kNever,
      [&](PoolPassScene& scene) {
        std::vector<FilledBlock>& blocks = scene.blocks();
        for (const FilledBlock& block : blocks) {
          FIRN_EXPECT_OK(scene.pool().MarkActive(block.ptr));
        }
        held = std::make_unique<HeldStream>(&scene.cpu());
        if (holds) {
          EXPECT_EQ(held->Hold(), DriverResult::kSuccess);
        }
        for (const size_t i : staying_) {
          if (!is_idle_pass()) continue;
          EXPECT_EQ(held->Touch(reinterpret_cast<uintptr_t>(blocks[i].ptr),
                                blocks[i].bytes),
                    DriverResult::kSuccess);
        }
        FreeAll(scene, staying_, held->stream());
      },
      [&](PoolPassScene& scene) {
        if (holds) {
          EXPECT_GT(scene.pool().GetStats().pending_free_bytes, 0u);
        }
        {
          // While the destructor waits for it, if it is that late.
          SideThread releaser([&held] {
            absl::SleepFor(absl::Microseconds(100));
            held->Release();
          });
          scene.DestroyPool();
        }
        EXPECT_EQ(held->Wait(), DriverResult::kSuccess);
        held.reset();
        scene.ExpectPoolGoesWhole();
      });
}

TEST_P(PoolPassAdversaryTest, ThePoolGoesOnceThePassThatFailedReturns) {
  uint64_t failed = 0;
  for (uint64_t n = 0;; n += kStride) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    PoolPassScene scene(GetParam());
    FreeAll(scene, SomeOf(staying_), scene.stream());
    scene.faults().Reset();
    scene.faults().FailNth(n, DriverResult::kUnknown);
    const absl::Status status = scene.RunPass().status();
    const bool reached = scene.faults().failures() > 0;
    scene.faults().Reset();
    if (!status.ok()) ++failed;
    scene.ExpectPoolGoesWhole();
    if (HasFailure() || !reached) break;
  }
  EXPECT_GT(failed * kStride, 10u);
}

INSTANTIATE_TEST_SUITE_P(Levels, PoolPassAdversaryTest,
                         ::testing::ValuesIn(PassSettings()),
                         [](const ::testing::TestParamInfo<PassSetting>& info) {
                           return PassSettingName(info.param);
                         });

}  // namespace
}  // namespace firn::testing
