// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool with DebugOptions finds what programs do wrong, and nothing else.

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/debug_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::DebugDriverOptions;
using ::firn::testing::DebugPoolOptions;
using ::firn::testing::DebugSetting;
using ::firn::testing::DebugSettingName;
using ::firn::testing::DebugSettings;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::HeldStream;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::ReportLog;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DebugModeTest : public ::testing::TestWithParam<DebugSetting> {
 protected:
  void SetUp() override { MakePool(DebugPoolOptions(&log_)); }

  void MakePool(PoolOptions options) {
    on_cpu_.reset();
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_,
        PoolOnCpu::Create(DebugDriverOptions(GetParam()), std::move(options)));
  }

  Pool& pool() { return on_cpu_->pool(); }

  char* MustAllocate(uint64_t bytes, const AllocateOptions& options = {}) {
    const absl::StatusOr<void*> block = pool().Allocate(bytes, options);
    FIRN_EXPECT_OK(block.status());
    return static_cast<char*>(block.value_or(nullptr));
  }

  ReportLog log_;
  std::unique_ptr<PoolOnCpu> on_cpu_;
};

INSTANTIATE_TEST_SUITE_P(All, DebugModeTest,
                         ::testing::ValuesIn(DebugSettings()),
                         DebugSettingName);

TEST_P(DebugModeTest, AWriteBehindTheEndIsFoundAtCheckInvariantsOnce) {
  char* const block = MustAllocate(1000);
  block[1000] = 'x';
  EXPECT_THAT(
      pool().CheckInvariants(),
      StatusIs(
          absl::StatusCode::kInternal,
          AllOf(HasSubstr("block of 1000 bytes"), HasSubstr("behind its end"),
                HasSubstr("1 byte at offsets 1000 to 1000"), HasSubstr("0x78"),
                HasSubstr("allocated by thread"), Not(HasSubstr("freed by")))));
  EXPECT_EQ(log_.Take().size(), 1u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_P(DebugModeTest, AWriteBehindTheEndIsFoundOnceTheBlockIsFreed) {
  char* const block = MustAllocate(1000);
  // To the last byte of the guard band.
  block[1000 + 511] = 'x';
  block[1000 + 100] = 'y';
  FIRN_EXPECT_OK(pool().Free(block));
  on_cpu_->cpu().CtxSynchronize();
  MustAllocate(1);  // comes by
  EXPECT_THAT(log_.Take(),
              ElementsAre(AllOf(HasSubstr("behind its end"),
                                HasSubstr("2 bytes at offsets 1100 to 1511"),
                                HasSubstr("0x79"), HasSubstr("allocated by"),
                                HasSubstr("freed by thread"))));
}

TEST_P(DebugModeTest, AWriteBeforeTheStartIsFound) {
  char* const block = MustAllocate(64 * kKiB);
  block[-1] = 'x';
  EXPECT_THAT(pool().CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("before its start"),
                             HasSubstr("offsets -1 to -1"))));
  log_.Take();
  block[-512] = 'x';
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().Trim().status());
  EXPECT_THAT(log_.Take(), ElementsAre(AllOf(HasSubstr("offsets -512 to -512"),
                                             HasSubstr("freed by"))));
}

TEST_P(DebugModeTest, TheFirstAndTheLastByteAreTheBlocksOwn) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{7}, uint64_t{511},
                               uint64_t{512}, uint64_t{100'000}, 3 * kMiB}) {
    char* const block = MustAllocate(bytes);
    std::memset(block, 0x11, bytes);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    block[bytes] = 1;
    EXPECT_FALSE(pool().CheckInvariants().ok()) << bytes;
    FIRN_EXPECT_OK(pool().Free(block));
  }
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(DebugModeTest, AWriteAfterTheFreeIsFound) {
  char* const block = MustAllocate(2 * kMiB + 1000);
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  block[2 * kMiB + 999] = 'x';
  block[17] = 'y';
  EXPECT_THAT(
      pool().CheckInvariants(),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("after it was freed"),
                     HasSubstr("2 bytes at offsets 17 to 2098151"),
                     HasSubstr("allocated by"), HasSubstr("freed by"))));
  EXPECT_EQ(log_.Take().size(), 1u);
  // Found when it leaves as well.
  block[3] = 'z';
  FIRN_EXPECT_OK(pool().Trim().status());
  EXPECT_THAT(log_.Take(), ElementsAre(HasSubstr("offsets 3 to 3")));
  EXPECT_EQ(pool().GetStats().used_bytes, 0u);
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
}

TEST_P(DebugModeTest, AWriteAfterTheFreeIsFoundWhenThePoolGoes) {
  char* const block = MustAllocate(1000);
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  block[0] = 'x';
  on_cpu_->DestroyPool();
  EXPECT_THAT(log_.Take(), ElementsAre(HasSubstr("offsets 0 to 0")));
}

TEST_P(DebugModeTest, TheTagAndTheStacksOfBothSidesAreNamed) {
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool().RegisterTag("weights"));
  char* const block = MustAllocate(100, {.tag = tag});
  FIRN_EXPECT_OK(pool().Free(block));
  const std::string message(pool().Free(block).message());
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("freed before"), HasSubstr("tag \"weights\""),
            HasSubstr("allocated by"), HasSubstr("freed by"),
            HasSubstr("firn::Pool::Allocate"), HasSubstr("firn::Pool::Free")));
  EXPECT_EQ(pool().GetStats().refused_frees, 1u);
}

TEST_P(DebugModeTest, WithoutStacksTheThreadsAreNamed) {
  PoolOptions options = DebugPoolOptions(&log_);
  options.debug.stacks = false;
  MakePool(options);
  char* const block = MustAllocate(100);
  FIRN_EXPECT_OK(pool().Free(block));
  EXPECT_THAT(pool().Free(block),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("freed by thread"),
                             Not(HasSubstr("firn::Pool::Free")))));
}

TEST_P(DebugModeTest, AFreedBlockIsRefusedByEveryCall) {
  char* const block = MustAllocate(100);
  FIRN_EXPECT_OK(pool().Free(block));
  const auto is_refused =
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("freed before"), HasSubstr("freed by")));
  EXPECT_THAT(pool().Free(block), is_refused);
  EXPECT_THAT(pool().RecordUse(block, nullptr), is_refused);
  EXPECT_THAT(pool().MarkIdle(block, nullptr), is_refused);
  EXPECT_THAT(pool().MarkActive(block), is_refused);
  EXPECT_THAT(pool().Generation(block).status(), is_refused);
  EXPECT_THAT(pool().PinBlock(block, "a test").status(), is_refused);
}

TEST_P(DebugModeTest, AnAddressInsideABlockOrItsGuardsIsNone) {
  char* const block = MustAllocate(2000);
  for (const int64_t offset : {-512, 1, 512, 1999, 2000, 2511}) {
    EXPECT_THAT(pool().Free(block + offset),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("guard bands of, the block of 2000 bytes")))
        << offset;
  }
  int outside = 0;
  EXPECT_THAT(pool().Free(&outside),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not an address of this pool")));
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(DebugModeTest, APinnedBlockIsRefusedByFree) {
  char* const block = MustAllocate(2000);
  {
    FIRN_ASSERT_OK_AND_ASSIGN(const Pin pin, pool().PinBlock(block, "an RDMA"));
    EXPECT_EQ(pin.ptr(), block);
    { auto second = pool().PinBlock(block, "a debugger"); }
    EXPECT_THAT(
        pool().Free(block),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("an RDMA")));
    EXPECT_EQ(pool().GetStats().pinned_blocks, 1u);
  }
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_EQ(pool().GetStats().live_allocations, 0u);
}

TEST_P(DebugModeTest, EveryAlignmentIsKept) {
  for (uint64_t alignment = 1; alignment <= 4 * kMiB; alignment *= 2) {
    char* const block = MustAllocate(700, {.alignment_bytes = alignment});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
    std::memset(block, 1, 700);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    block[-1] = 2;
    EXPECT_FALSE(pool().CheckInvariants().ok()) << alignment;
    FIRN_EXPECT_OK(pool().Free(block));
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }
}

TEST_P(DebugModeTest, TheQuarantineIsEmptiedBeforeAnAllocationFails) {
  // More than half of it: two have no room.
  for (int i = 0; i < 5; ++i) {
    char* const block = MustAllocate(40 * kMiB);
    ASSERT_NE(block, nullptr) << i;
    FIRN_EXPECT_OK(pool().Free(block));
  }
  EXPECT_EQ(pool().GetStats().failed_allocations, 0u);
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 40 * kMiB);
  char* const block = MustAllocate(40 * kMiB);
  EXPECT_THAT(pool().Allocate(40 * kMiB).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("guard bands of 1024")));
  EXPECT_EQ(pool().GetStats().failed_allocations, 1u);
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_P(DebugModeTest, TheOldestLeaveAFullQuarantine) {
  PoolOptions options = DebugPoolOptions(&log_);
  options.debug.quarantine_bytes = 8 * kMiB;
  MakePool(options);
  for (int i = 0; i < 20; ++i) {
    FIRN_EXPECT_OK(pool().Free(MustAllocate(kMiB)));
    on_cpu_->cpu().CtxSynchronize();
    EXPECT_LE(pool().GetStats().pending_free_bytes, 9 * kMiB);
  }
  EXPECT_GE(pool().GetStats().pending_free_bytes, 6 * kMiB);
}

TEST_P(DebugModeTest, GuardsAreNotLiveAndTheQuarantineIsPending) {
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool().RegisterTag("activations"));
  char* const first = MustAllocate(1000, {.tag = tag});
  MustAllocate(50'000, {.tag = tag});
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.live_bytes, 51'000u);
  EXPECT_EQ(stats.live_allocations, 2u);
  EXPECT_EQ(stats.pending_free_bytes, 0u);
  FIRN_EXPECT_OK(pool().Free(first));
  stats = pool().GetStats();
  EXPECT_EQ(stats.live_bytes, 50'000u);
  EXPECT_EQ(stats.live_allocations, 1u);
  EXPECT_EQ(stats.frees, 1u);
  EXPECT_EQ(stats.pending_free_bytes, 1000u);
  EXPECT_EQ(pool().GetUsage().live_bytes, 50'000u);
  EXPECT_EQ(pool().GetTagStats()[1].live_bytes, 50'000u);
  EXPECT_EQ(pool().GetTagStats()[1].live_allocations, 1u);
  EXPECT_EQ(pool().GetDomainStats()[0].live_bytes, 50'000u);
  FIRN_EXPECT_OK(pool().Trim().status());
  stats = pool().GetStats();
  EXPECT_EQ(stats.live_bytes, 50'000u);
  EXPECT_EQ(stats.frees, 1u);
  EXPECT_EQ(stats.pending_free_bytes, 0u);
}

TEST_P(DebugModeTest, WorkInFlightAtTheFreeIsNoDamageAndIsNotWaitedFor) {
  HeldStream held(&on_cpu_->cpu());
  char* const block = MustAllocate(4000, {.stream = held.stream()});
  char* const other = MustAllocate(4000, {.stream = held.stream()});
  std::vector<char*> more;
  for (int i = 0; i < 3; ++i) more.push_back(MustAllocate(100));
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  const auto address = reinterpret_cast<uintptr_t>(block);
  ASSERT_EQ(held.Touch(address, 4000), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().Free(block, held.stream()));
  // Noted on the stream that is held, freed on another one.
  FIRN_EXPECT_OK(pool().RecordUse(other, held.stream()));
  FIRN_EXPECT_OK(pool().Free(other, nullptr));
  for (char* const small : more) FIRN_EXPECT_OK(pool().Free(small));
  // Nor is it touched.
  EXPECT_EQ(static_cast<uint8_t>(block[0]), 0xCB);
  held.Release();
  ASSERT_EQ(held.Wait(), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_P(DebugModeTest, WorkThatWritesTooFarIsFoundWhenItIsDone) {
  HeldStream held(&on_cpu_->cpu());
  char* const block = MustAllocate(4000, {.stream = held.stream()});
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  const auto address = reinterpret_cast<uintptr_t>(block);
  ASSERT_EQ(held.Touch(address, 4010), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().Free(block, held.stream()));
  EXPECT_THAT(log_.Take(), IsEmpty());
  held.Release();
  EXPECT_THAT(pool().CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("10 bytes at offsets 4000 to 4009")));
}

TEST_P(DebugModeTest, TheLegacyStreamAndNewStreamsMayFree) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  char* const block = MustAllocate(4000, {.stream = stream});
  FIRN_EXPECT_OK(pool().Free(block, stream));
  FIRN_EXPECT_OK(pool().ReleaseStream(stream));
  // Events outlive it.
  ASSERT_EQ(on_cpu_->cpu().StreamDestroy(stream), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  FIRN_EXPECT_OK(pool().Trim().status());
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
  EXPECT_FALSE(pool().Free(MustAllocate(10), stream).ok());
}

TEST_P(DebugModeTest, InACaptureBlocksHaveNoGuardsAndNothingIsWaitedFor) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  char* const before = MustAllocate(5000);
  FIRN_EXPECT_OK(pool().Free(MustAllocate(10)));
  FIRN_ASSERT_OK(pool().BeginPool(GraphPoolId{7}, {stream}));
  ASSERT_EQ(on_cpu_->cpu().StreamBeginCapture(stream, CaptureMode::kGlobal),
            DriverResult::kSuccess);
  char* const inside = MustAllocate(5000, {.stream = stream});
  FIRN_EXPECT_OK(pool().Free(inside, stream));
  EXPECT_EQ(MustAllocate(5000, {.stream = stream}), inside);
  FIRN_EXPECT_OK(pool().Free(before));
  EXPECT_THAT(pool().Free(before),
              StatusIs(absl::StatusCode::kInvalidArgument));
  GraphHandle graph = nullptr;
  ASSERT_EQ(on_cpu_->cpu().StreamEndCapture(stream, &graph),
            DriverResult::kSuccess);
  ASSERT_NE(graph, nullptr);
  FIRN_EXPECT_OK(pool().EndPool(GraphPoolId{7}));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  FIRN_EXPECT_OK(pool().ReleasePool(GraphPoolId{7}));
  FIRN_EXPECT_OK(pool().Free(inside, stream));
  // In the order of the stream, which the fill comes behind.
  FIRN_EXPECT_OK(pool().Free(MustAllocate(5000, {.stream = stream}), stream));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  on_cpu_->cpu().GraphDestroy(graph);
  ASSERT_EQ(on_cpu_->cpu().StreamDestroy(stream), DriverResult::kSuccess);
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_P(DebugModeTest, NothingIsFoundInARunWithoutMistakes) {
  PoolOptions options = DebugPoolOptions(&log_);
  options.debug.quarantine_bytes = 2 * kMiB;
  MakePool(options);
  std::mt19937_64 random(5);
  std::vector<FilledBlock> blocks;
  const auto any = [&](uint64_t limit) { return random() % limit; };
  for (int step = 0; step < 1500; ++step) {
    if (any(5) < 2 && !blocks.empty()) {
      const size_t index = any(blocks.size());
      ASSERT_TRUE(IsIntact(blocks[index]));
      FIRN_ASSERT_OK(pool().Free(blocks[index].ptr));
      blocks[index] = blocks.back();
      blocks.pop_back();
    } else {
      const uint64_t bytes = 1 + any(any(8) == 0 ? 300'000 : 6000);
      const absl::StatusOr<void*> block =
          pool().Allocate(bytes, {.alignment_bytes = uint64_t{1} << any(14)});
      FIRN_ASSERT_OK(block.status());
      blocks.push_back({*block, bytes, random()});
      Fill(blocks.back());
    }
    if (step % 100 == 99 && GetParam().moves) {
      CompactOptions pass;
      pass.level = step % 200 == 199 ? CompactionLevel::kLaunchScopes
                                     : CompactionLevel::kCallerPromises;
      FIRN_ASSERT_OK(pool().Compact(pass).status());
      ASSERT_EQ(CountDamaged(blocks), 0u);
    }
    if (step % 250 == 249) {
      FIRN_ASSERT_OK(pool().CheckInvariants());
    }
  }
  if (GetParam().moves) {
    EXPECT_GT(pool().GetStats().granules_moved, 0u);
  }
  EXPECT_EQ(CountDamaged(blocks), 0u);
  for (const FilledBlock& block : blocks) {
    FIRN_EXPECT_OK(pool().Free(block.ptr));
  }
  FIRN_EXPECT_OK(pool().CheckInvariants());
  FIRN_EXPECT_OK(pool().Trim().status());
  const PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_EQ(stats.used_bytes, 0u);
  EXPECT_EQ(stats.held_bytes, 0u);
  EXPECT_EQ(stats.allocations, stats.frees);
  on_cpu_->DestroyPool();
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_P(DebugModeTest, HooksAreToldOfTheUsersBlocksAlone) {
  if (!GetParam().moves) return;
  std::vector<FilledBlock> kept;
  std::vector<void*> casualties;
  for (uint64_t i = 0; i < 400; ++i) {
    char* const block = MustAllocate(3000);
    if (i % 8 == 0) {
      kept.push_back({block, 3000, i});
      Fill(kept.back());
    } else {
      casualties.push_back(block);
    }
  }
  // Half of them leave, half of them stay in quarantine.
  for (void* const block : casualties) FIRN_ASSERT_OK(pool().Free(block));
  FIRN_ASSERT_OK(pool().Trim().status());
  for (size_t i = 0; i < kept.size(); i += 2) {
    FIRN_ASSERT_OK(pool().Free(kept[i].ptr));
  }
  uint64_t befores = 0;
  uint64_t afters = 0;
  const auto check = [&](absl::Span<const MovingBlock> blocks) {
    EXPECT_FALSE(blocks.empty());
    for (const MovingBlock& block : blocks) {
      EXPECT_EQ(block.bytes, 3000u);
      bool is_known = false;
      for (size_t i = 1; i < kept.size(); i += 2) {
        is_known = is_known || kept[i].ptr == block.ptr;
      }
      EXPECT_TRUE(is_known);
    }
    // It has no guards, but can be freed and allocated.
    FIRN_EXPECT_OK(pool().Free(MustAllocate(100)));
  };
  MoveHook hook;
  hook.before_move = [&](absl::Span<const MovingBlock> blocks) {
    ++befores;
    check(blocks);
    return absl::OkStatus();
  };
  hook.after_move = [&](absl::Span<const MovingBlock> blocks) {
    ++afters;
    check(blocks);
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const auto registration,
                            pool().AddMoveHook(std::move(hook)));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.moves, 0u);
  EXPECT_GT(befores, 0u);
  EXPECT_EQ(afters, befores);
  for (size_t i = 1; i < kept.size(); i += 2) {
    EXPECT_TRUE(IsIntact(kept[i]));
  }
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_P(DebugModeTest, AllocationsInsideScopesDoNotWait) {
  HeldStream held(&on_cpu_->cpu());
  {
    const LaunchScope scope(pool(), held.stream());
    char* const block = MustAllocate(4000, {.stream = held.stream()});
    ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
    ASSERT_EQ(held.Touch(reinterpret_cast<uintptr_t>(block), 4000),
              DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool().Free(block, held.stream()));
    FIRN_EXPECT_OK(pool().Free(MustAllocate(4000)));
    EXPECT_THAT(pool().Allocate(60 * kMiB + 5 * kMiB).status(),
                StatusIs(absl::StatusCode::kResourceExhausted));
    held.Release();
  }
  EXPECT_EQ(held.Wait(), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(DebugModeTest, MoveOnFailureWorksOnGuardedBlocks) {
  if (!GetParam().moves) return;
  PoolOptions options = DebugPoolOptions(&log_);
  options.capacity_bytes = 4 * kMiB;
  options.move_on_failure = true;
  MakePool(options);
  std::vector<FilledBlock> blocks;
  for (uint64_t i = 0; i < 40; ++i) {
    blocks.push_back({MustAllocate(60'000), 60'000, i});
    Fill(blocks.back());
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 == 1) continue;
    FIRN_EXPECT_OK(pool().Free(blocks[i].ptr));
    blocks[i] = {nullptr, 0, 0};
  }
  MustAllocate(2 * kMiB);
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST(DebugOptionsTest, GuardBytesAreCheckedByName) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{100}, 2 * kMiB}) {
    PoolOptions options;
    options.debug.guard_bytes = bytes;
    EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("debug.guard_bytes: ")));
  }
}

}  // namespace
}  // namespace firn
