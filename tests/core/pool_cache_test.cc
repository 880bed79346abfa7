// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small blocks that threads keep ready for their next allocations: what is
// refused, what other streams may have of them, and what they cost.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;

constexpr uint64_t kBytes = 4 * kKiB;

class PoolCacheTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<PoolOnCpu>> on_cpu =
        PoolOnCpu::Real(32 * kMiB, /*move_on_failure=*/false, GetParam());
    FIRN_ASSERT_OK(on_cpu.status());
    on_cpu_ = std::move(*on_cpu);
    for (StreamHandle* stream : {&first_, &second_}) {
      ASSERT_EQ(on_cpu_->cpu().StreamCreate(stream, kStreamNonBlocking),
                DriverResult::kSuccess);
    }
  }

  void TearDown() override { gate_.store(true); }

  Pool& pool() { return on_cpu_->pool(); }

  absl::StatusOr<void*> AllocateOn(StreamHandle stream, uint64_t bytes) {
    AllocateOptions options;
    options.stream = stream;
    return pool().Allocate(bytes, options);
  }

  // From here on the pool has seen both streams, and this thread's cache serves
  // them.
  void NameBothStreams() {
    for (const StreamHandle stream : {first_, second_, first_, second_}) {
      const absl::StatusOr<void*> ptr = AllocateOn(stream, kBytes);
      FIRN_ASSERT_OK(ptr.status());
      FIRN_ASSERT_OK(pool().Free(*ptr, stream));
    }
  }

  // Mappings for what is allocated while a kernel runs: making one then would
  // wait for the kernel under one extreme.
  void MapAhead() {
    std::vector<void*> blocks;
    for (int i = 0; i < 400; ++i) {
      const absl::StatusOr<void*> ptr = AllocateOn(second_, kBytes);
      FIRN_ASSERT_OK(ptr.status());
      blocks.push_back(*ptr);
    }
    for (void* ptr : blocks) FIRN_ASSERT_OK(pool().Free(ptr, second_));
    ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
  }

  // Keeps `stream` busy until the gate opens, then writes over the block.
  void WriteWhenOpen(StreamHandle stream, const FilledBlock& block) {
    KernelRange range;
    range.address = reinterpret_cast<uintptr_t>(block.ptr);
    range.bytes = block.bytes;
    range.writes = true;
    ASSERT_EQ(on_cpu_->cpu().LaunchKernel(stream, {range},
                                          [this, block] {
                                            while (!gate_.load()) {
                                              std::this_thread::yield();
                                            }
                                            Fill(block);
                                          }),
              DriverResult::kSuccess);
  }

  // All driver calls so far but those that ask which stream a handle is, and
  // whether it is capturing: no memory is managed by them, and nothing waits.
  uint64_t DriverCalls() {
    uint64_t calls = 0;
    for (int i = 0; i < kDriverCallCount; ++i) {
      const DriverCall call = static_cast<DriverCall>(i);
      if (call == DriverCall::kStreamGetId ||
          call == DriverCall::kStreamIsCapturing) {
        continue;
      }
      calls +=
          on_cpu_->counting().count(call) + on_cpu_->counting().failed(call);
    }
    return calls;
  }
  uint64_t AllDriverCalls() {
    uint64_t calls = 0;
    for (int i = 0; i < kDriverCallCount; ++i) {
      const DriverCall call = static_cast<DriverCall>(i);
      calls +=
          on_cpu_->counting().count(call) + on_cpu_->counting().failed(call);
    }
    return calls;
  }

  std::atomic<bool> gate_{false};  // outlives the driver
  std::unique_ptr<PoolOnCpu> on_cpu_;
  StreamHandle first_ = nullptr;
  StreamHandle second_ = nullptr;
};

// --- What is refused ---

TEST_P(PoolCacheTest, ASecondFreeOfAParkedBlockIsRefused) {
  for (const StreamHandle stream : {first_, second_}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* kept, AllocateOn(stream, kBytes));
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(stream, kBytes));
    const PoolStats before = pool().GetStats();
    FIRN_ASSERT_OK(pool().Free(ptr, stream));
    for (const StreamHandle again : {stream, first_, StreamHandle{nullptr}}) {
      EXPECT_THAT(pool().Free(ptr, again),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           ::testing::HasSubstr("freed before")));
    }
    const PoolStats after = pool().GetStats();
    EXPECT_EQ(after.frees, before.frees + 1);
    EXPECT_EQ(after.refused_frees, before.refused_frees + 3);
    EXPECT_EQ(after.live_bytes, before.live_bytes - kBytes);
    EXPECT_EQ(after.live_allocations, before.live_allocations - 1);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    FIRN_EXPECT_OK(pool().Free(kept, stream));
  }
}

TEST_P(PoolCacheTest, AddressesAtWhichNoBlockStartsAreRefused) {
  NameBothStreams();
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, kBytes));
  const FilledBlock block = {ptr, kBytes, 1};
  Fill(block);
  const PoolStats before = pool().GetStats();
  char* const start = static_cast<char*>(ptr);
  int foreign = 0;
  const std::vector<void*> addresses = {
      start + 1,
      start + 512,
      start + kBytes - 512,
      start - 256,
      start + 32 * kMiB,
      start - (uint64_t{1} << 40),
      &foreign,
      reinterpret_cast<void*>(uintptr_t{512}),
      reinterpret_cast<void*>(~uintptr_t{511})};
  for (void* const address : addresses) {
    for (const StreamHandle stream : {first_, StreamHandle{nullptr}}) {
      EXPECT_THAT(pool().Free(address, stream),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
  const PoolStats after = pool().GetStats();
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.live_allocations, before.live_allocations);
  EXPECT_EQ(after.frees, before.frees);
  EXPECT_EQ(after.parked_blocks, before.parked_blocks);
  EXPECT_EQ(after.refused_frees, before.refused_frees + 2 * addresses.size());
  EXPECT_TRUE(IsIntact(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  FIRN_EXPECT_OK(pool().Free(ptr, first_));
}

TEST_P(PoolCacheTest, AFreeOnACapturingStreamIsRefusedThoughItsCacheHasRoom) {
  NameBothStreams();
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, kBytes));
  ASSERT_EQ(on_cpu_->cpu().StreamBeginCapture(first_, CaptureMode::kRelaxed),
            DriverResult::kSuccess);
  EXPECT_THAT(pool().Free(ptr, first_),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  GraphHandle graph = nullptr;
  ASSERT_EQ(on_cpu_->cpu().StreamEndCapture(first_, &graph),
            DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().Free(ptr, first_));
  EXPECT_EQ(on_cpu_->cpu().GraphDestroy(graph), DriverResult::kSuccess);
}

// --- Streams ---

TEST_P(PoolCacheTest, MemoryInUseIsReusedAtOnceOnItsStreamAndNowhereElse) {
  NameBothStreams();
  MapAhead();
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, kBytes));
  WriteWhenOpen(first_, {ptr, kBytes, 1});
  const uint64_t calls = DriverCalls();
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  FIRN_ASSERT_OK_AND_ASSIGN(void* again, AllocateOn(first_, kBytes));
  EXPECT_EQ(again, ptr);
  FIRN_ASSERT_OK(pool().Free(again, first_));
  EXPECT_EQ(DriverCalls(), calls);

  // As many as fill windows: none of them is it.
  std::vector<FilledBlock> others;
  for (uint64_t i = 0; i < 200; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* other, AllocateOn(second_, kBytes));
    EXPECT_NE(other, ptr);
    others.push_back({other, kBytes, 2 + i});
    Fill(others.back());
  }
  gate_.store(true);
  EXPECT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
  EXPECT_EQ(CountDamaged(others), 0u);
  for (const FilledBlock& other : others) {
    FIRN_EXPECT_OK(pool().Free(other.ptr, second_));
  }
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(PoolCacheTest, WhatACacheGivesUpWaitsForItsStream) {
  NameBothStreams();
  MapAhead();
  // More than a cache keeps of one size.
  std::vector<void*> freed;
  for (int i = 0; i < 100; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, kBytes));
    freed.push_back(ptr);
  }
  WriteWhenOpen(first_, {freed.front(), kBytes, 1});
  for (void* ptr : freed) FIRN_ASSERT_OK(pool().Free(ptr, first_));
  EXPECT_GT(pool().GetStats().pending_free_bytes, 0u);
  EXPECT_GT(pool().GetStats().parked_blocks, 0u);
  for (int i = 0; i < 100; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* other, AllocateOn(second_, kBytes));
    EXPECT_THAT(freed, ::testing::Not(::testing::Contains(other)));
  }
  gate_.store(true);
  EXPECT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
}

// --- Cost ---

TEST_P(PoolCacheTest, ACachedPairMakesNoDriverCall) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* warm, pool().Allocate(kBytes));
  FIRN_ASSERT_OK(pool().Free(warm));
  const uint64_t calls = AllDriverCalls();
  for (int i = 0; i < 100; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kBytes));
    EXPECT_EQ(ptr, warm);
    FIRN_ASSERT_OK(pool().Free(ptr));
  }
  EXPECT_EQ(AllDriverCalls(), calls);
  EXPECT_EQ(pool().GetStats().cache_hits, 100u);
}

TEST_P(PoolCacheTest, ACachedPairOnANamedStreamManagesNothing) {
  NameBothStreams();
  const uint64_t calls = DriverCalls();
  for (int i = 0; i < 100; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, kBytes));
    FIRN_ASSERT_OK(pool().Free(ptr, first_));
  }
  EXPECT_EQ(DriverCalls(), calls);
}

TEST_P(PoolCacheTest, AnAlignmentBeyondAQuantumDoesNotGoThroughTheCache) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* odd, pool().Allocate(3 * 512));
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(3 * 512));
  FIRN_ASSERT_OK(pool().Free(ptr));
  const uint64_t hits = pool().GetStats().cache_hits;
  AllocateOptions options;
  options.alignment_bytes = 4096;
  FIRN_ASSERT_OK_AND_ASSIGN(void* aligned, pool().Allocate(3 * 512, options));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 4096, 0u);
  options.alignment_bytes = 3;
  EXPECT_THAT(pool().Allocate(3 * 512, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pool().GetStats().cache_hits, hits);
  FIRN_EXPECT_OK(pool().Free(odd));
  FIRN_EXPECT_OK(pool().Free(aligned));
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolCacheTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         ::firn::testing::SyncName);

}  // namespace
}  // namespace firn
