// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/buffer.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Pair {
  double value;
  int32_t key;
};

struct alignas(4096) Page {
  unsigned char bytes[4096];
};

static_assert(!std::is_copy_constructible<Buffer<float>>::value &&
                  !std::is_copy_assignable<Buffer<float>>::value &&
                  std::is_nothrow_move_constructible<Buffer<float>>::value &&
                  std::is_nothrow_move_assignable<Buffer<float>>::value,
              "a block has one owner");

class BufferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, PoolOnCpu::Real(32 * kMiB));
  }
  Pool& pool() { return on_cpu_->pool(); }
  CpuDriver& cpu() { return on_cpu_->cpu(); }
  uint64_t live_allocations() { return pool().GetStats().live_allocations; }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_F(BufferTest, OwnsWhatItSaysUntilItGoes) {
  {
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<Pair> pairs,
                              Buffer<Pair>::Allocate(pool(), 1000));
    EXPECT_FALSE(pairs.empty());
    EXPECT_EQ(pairs.count(), 1000u);
    EXPECT_EQ(pairs.bytes(), 1000 * sizeof(Pair));
    EXPECT_EQ(pool().GetStats().live_bytes, pairs.bytes());
    pairs.data()[999] = Pair{0.5, 7};
    EXPECT_EQ(pairs.data()[999].key, 7);
  }
  EXPECT_EQ(live_allocations(), 0u);
  EXPECT_EQ(pool().GetStats().frees, 1u);
}

TEST_F(BufferTest, KeepsItsAddressAndContentsThroughAPass) {
  // Every other one goes, so that a pass has something to move.
  std::vector<Buffer<uint32_t>> buffers;
  for (uint32_t i = 0; i < 64; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<uint32_t> buffer,
                              Buffer<uint32_t>::Allocate(pool(), 64 * kKiB));
    buffer.data()[i] = i;
    buffers.push_back(std::move(buffer));
  }
  std::vector<uint32_t*> addresses;
  for (uint32_t i = 0; i < 64; ++i) {
    if (i % 8 != 0) {
      FIRN_ASSERT_OK(buffers[i].Free(nullptr));
    }
    addresses.push_back(buffers[i].data());
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.moves, 0u);
  for (uint32_t i = 0; i < 64; i += 8) {
    EXPECT_EQ(buffers[i].data(), addresses[i]);
    EXPECT_EQ(buffers[i].data()[i], i);
  }
}

TEST_F(BufferTest, AnEmptyOneNeedsNoMemory) {
  Buffer<int> none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.data(), nullptr);
  FIRN_EXPECT_OK(none.Free(nullptr));
  EXPECT_EQ(none.release(), nullptr);
  FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> zero, Buffer<int>::Allocate(pool(), 0));
  EXPECT_TRUE(zero.empty());
  EXPECT_EQ(zero.bytes(), 0u);
  EXPECT_EQ(pool().GetStats().allocations, 0u);
}

TEST_F(BufferTest, TheAlignmentOfItsElementsIsKept) {
  for (int i = 0; i < 8; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* odd, pool().Allocate(512));
    static_cast<void>(odd);
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<Page> pages,
                              Buffer<Page>::Allocate(pool(), 3));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % alignof(Page), 0u);
    AllocateOptions options;
    options.alignment_bytes = 64 * kKiB;
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<Page> wider,
                              Buffer<Page>::Allocate(pool(), 3, options));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(wider.data()) % (64 * kKiB), 0u);
    pages.release();  // the next one lies elsewhere
  }
}

TEST_F(BufferTest, WhatIsWrongIsSaid) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(Buffer<Pair>::Allocate(pool(), kMost / sizeof(Pair) + 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("count: 1152921504606846976"),
                             HasSubstr("16 bytes"), HasSubstr("2^64"))));
  // Just countable, and more than there is.
  EXPECT_THAT(Buffer<Pair>::Allocate(pool(), kMost / sizeof(Pair)),
              StatusIs(absl::StatusCode::kResourceExhausted));
  AllocateOptions options;
  options.alignment_bytes = 3;
  EXPECT_THAT(Buffer<Page>::Allocate(pool(), 1, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("alignment_bytes: 3")));
  EXPECT_EQ(live_allocations(), 0u);
}

TEST_F(BufferTest, MovingPassesTheBlockOn) {
  FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> first,
                            Buffer<int>::Allocate(pool(), 9));
  int* const address = first.data();
  Buffer<int> second(std::move(first));
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.count(), 0u);
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(second.count(), 9u);
  Buffer<int>& same = second;
  second = std::move(same);
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(live_allocations(), 1u);
}

TEST_F(BufferTest, MoveAssignmentFreesWhatWasThere) {
  FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> first,
                            Buffer<int>::Allocate(pool(), 9));
  FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> second,
                            Buffer<int>::Allocate(pool(), 7));
  int* const address = second.data();
  first = std::move(second);
  EXPECT_EQ(first.data(), address);
  EXPECT_EQ(first.count(), 7u);
  EXPECT_EQ(live_allocations(), 1u);
  EXPECT_EQ(pool().GetStats().live_bytes, first.bytes());
  first = Buffer<int>();
  EXPECT_EQ(live_allocations(), 0u);
}

TEST_F(BufferTest, ReleaseGivesTheBlockToTheCaller) {
  int* address = nullptr;
  {
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> buffer,
                              Buffer<int>::Allocate(pool(), 9));
    address = buffer.release();
    EXPECT_TRUE(buffer.empty());
  }
  EXPECT_EQ(live_allocations(), 1u);
  FIRN_EXPECT_OK(pool().Free(address));
}

TEST_F(BufferTest, ItsDestructorFreesOnItsStream) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  AllocateOptions options;
  options.stream = stream;
  {
    // Two streams, so that frees wait for theirs.
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> other,
                              Buffer<int>::Allocate(pool(), 1));
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> buffer,
                              Buffer<int>::Allocate(pool(), 4, options));
    EXPECT_EQ(buffer.stream(), stream);
    Buffer<int> moved = std::move(buffer);
    EXPECT_EQ(moved.stream(), stream);
    moved.set_stream(nullptr);
    FIRN_ASSERT_OK_AND_ASSIGN(Buffer<uint64_t> gate,
                              Buffer<uint64_t>::Allocate(pool(), 1));
    *gate.data() = 0;
    const auto address = reinterpret_cast<DevicePtr>(gate.data());
    ASSERT_EQ(cpu().StreamWaitValue64(stream, address, 1, kWaitValueEq),
              DriverResult::kSuccess);
    {
      FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> used,
                                Buffer<int>::Allocate(pool(), 1 << 20));
      used.set_stream(stream);
    }
    // Its stream is not done with it, and no thread keeps a block as large.
    EXPECT_GT(pool().GetStats().pending_free_bytes, 0u);
    ASSERT_EQ(cpu().StreamWriteValue64(nullptr, address, 1, kWriteValueDefault),
              DriverResult::kSuccess);
    ASSERT_EQ(cpu().CtxSynchronize(), DriverResult::kSuccess);
  }
  EXPECT_EQ(live_allocations(), 0u);
  ASSERT_EQ(cpu().StreamDestroy(stream), DriverResult::kSuccess);
}

TEST_F(BufferTest, AFreeThatFailsKeepsTheBlock) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  FIRN_ASSERT_OK_AND_ASSIGN(Buffer<int> buffer,
                            Buffer<int>::Allocate(pool(), 9));
  int* const address = buffer.data();
  ASSERT_EQ(cpu().StreamBeginCapture(stream, CaptureMode::kRelaxed),
            DriverResult::kSuccess);
  EXPECT_FALSE(buffer.Free(stream).ok());
  EXPECT_EQ(buffer.data(), address);
  EXPECT_EQ(live_allocations(), 1u);
  GraphHandle graph = nullptr;
  ASSERT_EQ(cpu().StreamEndCapture(stream, &graph), DriverResult::kSuccess);
  FIRN_EXPECT_OK(buffer.Free(stream));
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(live_allocations(), 0u);
  ASSERT_EQ(cpu().GraphDestroy(graph), DriverResult::kSuccess);
  ASSERT_EQ(cpu().StreamDestroy(stream), DriverResult::kSuccess);
}

}  // namespace
}  // namespace firn
