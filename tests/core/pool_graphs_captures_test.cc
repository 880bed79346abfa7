// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What calls of a pool do while a stream is capturing, which they must not
// break, and what they refuse.

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/pool_graphs_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::FilledBlock;
using ::firn::testing::GraphSettingName;
using ::firn::testing::GraphSettings;
using ::firn::testing::HeldStream;
using ::firn::testing::kCapacityBytes;
using ::firn::testing::kId;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolGraphsScene;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DriverResult kOk = DriverResult::kSuccess;

class PoolGraphsCapturesTest : public PoolGraphsScene {};

TEST_P(PoolGraphsCapturesTest,
       AnAllocationThatDoesNotFitFailsAndTheCaptureGoesOn) {
  std::vector<FilledBlock> blocks = FillUp();
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  // Holes, which are too small; freed on a stream of their own.
  HeldStream other(&cpu());
  for (size_t i = 0; i < 40; ++i) {
    FIRN_ASSERT_OK(pool().Free(blocks[2 * i].ptr, other.stream()));
    blocks[2 * i].bytes = 0;
  }
  const uint64_t granules_moved = pool().GetStats().granules_moved;
  ASSERT_EQ(capture().Begin(), kOk);
  const absl::Status status = AllocateOn(stream(), 20 * kMiB).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               AllOf(HasSubstr("because of a capture"),
                                     HasSubstr("graph-private pool 7"))));
  // Nor does an ordinary one, of any thread, break the capture.
  EXPECT_THAT(
      pool().Allocate(20 * kMiB),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("pool 7")));
  std::thread([this] {
    EXPECT_THAT(
        pool().Allocate(20 * kMiB),
        StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("pool 7")));
    FIRN_EXPECT_OK(pool().Trim().status());
  }).join();
  ASSERT_EQ(capture().End(), kOk);
  FIRN_ASSERT_OK(pool().EndPool(kId));
  EXPECT_EQ(pool().GetStats().granules_moved, granules_moved);
  EXPECT_EQ(CountDamaged(blocks), 0u);
}

TEST_P(PoolGraphsCapturesTest, NewMemoryComesDuringACaptureOfAnyMode) {
  for (const CaptureMode mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal,
        CaptureMode::kRelaxed}) {
    FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
    ASSERT_EQ(capture().Begin(mode), kOk);
    FIRN_ASSERT_OK_AND_ASSIGN(void* const block,
                              AllocateOn(stream(), 6 * kMiB));
    // Another thread's, which belongs to nobody's graph.
    std::thread([this] {
      const absl::StatusOr<void*> other = pool().Allocate(kMiB);
      FIRN_ASSERT_OK(other.status());
      FIRN_EXPECT_OK(pool().Free(*other));
      FIRN_EXPECT_OK(pool().Trim().status());
    }).join();
    FIRN_EXPECT_OK(pool().Free(block, stream()));
    EXPECT_EQ(capture().End(), kOk);
    FIRN_ASSERT_OK(pool().EndPool(kId));
  }
  // The same block three times.
  EXPECT_EQ(pool().GetStats().graph_pool_bytes, 6 * kMiB);
}

TEST_P(PoolGraphsCapturesTest, OrdinaryBlocksAreNotFreedOnACapturingStream) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ordinary, AllocateOn(nullptr, kMiB));
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  ASSERT_EQ(capture().Begin(), kOk);
  EXPECT_THAT(
      pool().Free(ordinary, stream()),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("capturing"), HasSubstr("graph-private pool"))));
  EXPECT_THAT(pool().RecordUse(ordinary, stream()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_EQ(capture().End(), kOk);
  FIRN_ASSERT_OK(pool().EndPool(kId));
  FIRN_EXPECT_OK(pool().Free(ordinary, stream()));
}

// A stream that the pool has not seen, in a program that uses no such pools.
TEST_P(PoolGraphsCapturesTest, ACaptureWithoutAPoolIsNotBrokenEither) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(nullptr, 20 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const kept, AllocateOn(nullptr, kMiB));
  FIRN_ASSERT_OK(pool().Free(block));
  ASSERT_EQ(capture().Begin(), kOk);
  EXPECT_THAT(AllocateOn(stream(), 30 * kMiB),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("the stream is capturing")));
  EXPECT_THAT(
      pool().Free(kept, stream()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("capturing")));
  EXPECT_FALSE(pool().RecordUse(kept, stream()).ok());
  // A pool would have to wait for what was freed.
  EXPECT_THAT(
      pool().BeginPool(kId, {stream()}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("graph-private pool 7"), HasSubstr("before"))));
  EXPECT_EQ(pool().GetStats().graph_pools, 0u);
  ASSERT_EQ(capture().End(), kOk);
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  FIRN_ASSERT_OK(pool().EndPool(kId));
}

TEST_P(PoolGraphsCapturesTest, APoolMayBeBegunInACaptureIfNothingIsWaitedFor) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(nullptr, kMiB));
  ASSERT_EQ(capture().Begin(), kOk);
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  ASSERT_NO_FATAL_FAILURE(CaptureTemporaries(kMiB));
  ASSERT_EQ(capture().End(), kOk);
  FIRN_ASSERT_OK(pool().EndPool(kId));
  ASSERT_NO_FATAL_FAILURE(RunGraph());
  FIRN_EXPECT_OK(pool().Free(block));
}

TEST_P(PoolGraphsCapturesTest,
       GraphsAreCapturedAndLaunchedInScopesBetweenPasses) {
  if (!GetParam().moves) GTEST_SKIP() << "nothing moves";
  CompactOptions gated;
  gated.level = CompactionLevel::kLaunchScopes;
  gated.max_wait = absl::Seconds(30);
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  {
    const LaunchScope scope(pool(), stream());
    ASSERT_EQ(capture().Begin(), kOk);
    ASSERT_NO_FATAL_FAILURE(CaptureTemporaries(300 * kKiB));
    std::thread([&] {
      EXPECT_THAT(pool().Compact(gated),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           HasSubstr("graph-private pool 7")));
    }).join();
    ASSERT_EQ(capture().End(), kOk);
  }
  FIRN_ASSERT_OK(pool().EndPool(kId));
  for (int pass = 0; pass < 3; ++pass) {
    {
      const LaunchScope scope(pool(), stream());
      ASSERT_EQ(capture().LaunchOn(stream()), kOk);
    }
    FIRN_EXPECT_OK(pool().Compact(gated).status());
  }
  // What the pool leaves is free after the next pass.
  FIRN_ASSERT_OK(pool().ReleasePool(kId));
  EXPECT_GT(pool().GetStats().pending_free_bytes, 0u);
  FIRN_EXPECT_OK(pool().Compact(gated).status());
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 0u);
  // The pass has waited for the graphs, by means that the thread sanitizer does
  // not see.
  EXPECT_EQ(cpu().CtxSynchronize(), kOk);
  EXPECT_EQ(CountDamaged(results_), 0u);
}

TEST_P(PoolGraphsCapturesTest,
       ABlockThatAnotherCapturedStreamUsesIsKeptToTheEnd) {
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  HeldStream other(&cpu());
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(stream(), kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const second, AllocateOn(stream(), kMiB));
  ASSERT_EQ(capture().Begin(), kOk);
  // On a capturing stream nothing is written.
  FIRN_EXPECT_OK(pool().RecordUse(block, stream()));
  FIRN_EXPECT_OK(pool().RecordUse(second, stream()));
  EXPECT_THAT(pool().RecordUse(block, reinterpret_cast<StreamHandle>(&other)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_EXPECT_OK(pool().RecordUse(second, other.stream()));
  FIRN_EXPECT_OK(pool().Free(block, stream()));
  FIRN_EXPECT_OK(pool().Free(second, stream()));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const again, AllocateOn(stream(), kMiB));
  EXPECT_EQ(again, block);
  FIRN_ASSERT_OK_AND_ASSIGN(void* const third, AllocateOn(stream(), kMiB));
  EXPECT_NE(third, second);
  ASSERT_EQ(capture().End(), kOk);
  FIRN_ASSERT_OK(pool().EndPool(kId));
}

TEST_P(PoolGraphsCapturesTest, BadCallsAreRefusedByName) {
  int no_stream = 0;
  EXPECT_THAT(
      pool().BeginPool(kId,
                       {stream(), reinterpret_cast<StreamHandle>(&no_stream)}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("streams: ")));
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  EXPECT_THAT(pool().BeginPool(kId),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("pool 7 is open already")));
  EXPECT_THAT(pool().BeginPool(GraphPoolId{8}, {stream()}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has graph-private pool 7 open")));
  EXPECT_THAT(
      pool().ReleasePool(kId),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("EndPool")));
  EXPECT_THAT(pool().EndPool(GraphPoolId{8}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("pool 8 is not open")));
  if (GetParam().moves) {
    EXPECT_THAT(pool().Compact(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("graph-private pool 7"),
                               HasSubstr("EndPool"))));
  }
  CompactOptions dry_run;
  dry_run.dry_run = true;
  FIRN_EXPECT_OK(pool().Compact(dry_run).status());
  FIRN_ASSERT_OK(pool().EndPool(kId));
  FIRN_ASSERT_OK(pool().ReleasePool(kId));
}

TEST_P(PoolGraphsCapturesTest, APoolMayGoWithItsGraphPoolsOpen) {
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(stream(), kMiB));
  FIRN_ASSERT_OK(AllocateOn(stream(), 3 * kMiB).status());
  FIRN_ASSERT_OK(pool().Free(block, stream()));
  on_cpu_->DestroyPool();
  pool_is_there_ = false;
  EXPECT_EQ(firn::testing::FreeBytes(cpu()), 2 * kCapacityBytes);
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolGraphsCapturesTest,
                         ::testing::ValuesIn(GraphSettings()),
                         GraphSettingName);

}  // namespace
}  // namespace firn
