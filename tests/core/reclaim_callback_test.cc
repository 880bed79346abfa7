// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Callbacks that free memory before an allocation fails: they are asked last,
// with no lock held, and whatever they do, the allocation returns.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/side_thread.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stream_capture.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(20);

// What a program could do without.
class Cache {
 public:
  explicit Cache(Pool* pool) : pool_(*pool) {}
  void Fill(uint64_t bytes) {
    while (true) {
      const absl::StatusOr<void*> block = pool_.Allocate(bytes);
      if (!block.ok()) return;
      MutexLock lock(&mutex_);
      blocks_.push_back(*block);
    }
  }
  // Whether there was one.
  bool DropOne() {
    std::optional<void*> block;
    {
      MutexLock lock(&mutex_);
      if (blocks_.empty()) return false;
      block = blocks_.back();
      blocks_.pop_back();
    }
    FIRN_EXPECT_OK(pool_.Free(*block));
    return true;
  }
  bool DropAll() {
    bool has_dropped = false;
    while (DropOne()) has_dropped = true;
    return has_dropped;
  }
  size_t count() {
    MutexLock lock(&mutex_);
    return blocks_.size();
  }

 private:
  Pool& pool_;
  Mutex mutex_;
  std::vector<void*> blocks_ ABSL_GUARDED_BY(mutex_);
};

class ReclaimCallbackTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  static constexpr uint64_t kBlockBytes = kMiB;
  static constexpr uint64_t kCapacityBytes = 32 * kMiB;

  void SetUp() override { MakePool(/*move_on_failure=*/false); }
  void MakePool(bool move_on_failure) {
    cache_.reset();
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_, PoolOnCpu::Real(kCapacityBytes, move_on_failure, GetParam()));
    cache_ = std::make_unique<Cache>(&pool());
    cache_->Fill(kBlockBytes);
  }
  Pool& pool() { return on_cpu_->pool(); }
  Cache& cache() { return *cache_; }
  ReclaimRegistration Register(ReclaimCallback callback) {
    absl::StatusOr<ReclaimRegistration> registration =
        pool().AddReclaimCallback(std::move(callback));
    FIRN_EXPECT_OK(registration.status());
    return registration.ok() ? *std::move(registration) : ReclaimRegistration();
  }
  RungStats Stats() {
    return pool().GetLadderStats()[static_cast<size_t>(Rung::kCallbacks)];
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::unique_ptr<Cache> cache_;
};

INSTANTIATE_TEST_SUITE_P(Extremes, ReclaimCallbackTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(ReclaimCallbackTest, ItSavesTheAllocationAndIsAskedNoMoreThanNeeded) {
  const size_t before = cache().count();
  std::vector<ReclaimRequest> requests;
  const ReclaimRegistration registration =
      Register([&](const ReclaimRequest& request) {
        requests.push_back(request);
        return cache().DropOne();
      });
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool().RegisterTag("activations"));
  AllocateOptions options;
  options.tag = tag;
  options.alignment_bytes = 4096;
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block,
                            pool().Allocate(4 * kBlockBytes, options));
  EXPECT_GE(before - cache().count(), 4u);
  ASSERT_EQ(requests.size(), before - cache().count());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].bytes, 4 * kBlockBytes);
    EXPECT_EQ(requests[i].alignment_bytes, 4096u);
    EXPECT_EQ(requests[i].tag, tag);
    EXPECT_EQ(requests[i].calls_before, i);
  }
  const RungStats stats = Stats();
  EXPECT_EQ(stats.tried, 1u);
  EXPECT_EQ(stats.changed, 1u);
  EXPECT_EQ(stats.rescued, 1u);
  EXPECT_EQ(stats.recovered_bytes, requests.size() * kBlockBytes);
  FIRN_EXPECT_OK(pool().Free(block));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ReclaimCallbackTest, WhoHasNothingIsAskedOnceAndTheFailureSaysSo) {
  int calls = 0;
  const ReclaimRegistration registration =
      Register([&calls](const ReclaimRequest&) {
        ++calls;
        return false;
      });
  EXPECT_THAT(
      pool().Allocate(4 * kBlockBytes).status(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("Callbacks were asked 1 times, which freed 0 bytes")));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(Stats().tried, 1u);
  EXPECT_EQ(Stats().rescued, 0u);
  EXPECT_EQ(Stats().changed, 0u);
}

TEST_P(ReclaimCallbackTest, WhoSaysYesAndNeverFreesIsAskedSoOftenAndNoMore) {
  uint32_t calls = 0;
  const ReclaimRegistration registration =
      Register([&calls](const ReclaimRequest&) {
        ++calls;
        return true;
      });
  EXPECT_THAT(pool().Allocate(4 * kBlockBytes).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(calls, kMostReclaimCalls);
}

TEST_P(ReclaimCallbackTest, TheyAreAskedInTheOrderInWhichTheyWereAdded) {
  std::vector<int> order;
  const ReclaimRegistration first = Register([&](const ReclaimRequest&) {
    order.push_back(1);
    return false;
  });
  const ReclaimRegistration second = Register([&](const ReclaimRequest&) {
    order.push_back(2);
    return cache().DropAll();
  });
  const ReclaimRegistration third = Register([&](const ReclaimRequest&) {
    order.push_back(3);
    return false;
  });
  FIRN_EXPECT_OK(pool().Allocate(kCapacityBytes));
  EXPECT_EQ(order, std::vector<int>({1, 2}));
}

TEST_P(ReclaimCallbackTest, OnceItIsGivenUpItIsNotCalled) {
  ReclaimRegistration registration =
      Register([&](const ReclaimRequest&) { return cache().DropAll(); });
  registration.Release();
  EXPECT_FALSE(pool().Allocate(kCapacityBytes).ok());
  EXPECT_EQ(Stats().tried, 0u);
}

TEST_P(ReclaimCallbackTest, OneThatIsEmptyIsRefused) {
  EXPECT_THAT(
      pool().AddReclaimCallback(nullptr).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("callback")));
}

TEST_P(ReclaimCallbackTest, ItMayAllocateAndItsOwnFailureAsksNobody) {
  int calls = 0;
  std::vector<void*> own;
  const ReclaimRegistration registration = Register([&](const ReclaimRequest&) {
    ++calls;
    EXPECT_FALSE(pool().Allocate(kCapacityBytes).ok());
    const bool has_dropped = cache().DropAll();
    const absl::StatusOr<void*> block = pool().Allocate(kBlockBytes);
    FIRN_EXPECT_OK(block.status());
    if (block.ok()) own.push_back(*block);
    return has_dropped;
  });
  FIRN_EXPECT_OK(pool().Allocate(kCapacityBytes / 2));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(own.size(), 1u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ReclaimCallbackTest, ItMayCompactAndGiveItselfUp) {
  MakePool(/*move_on_failure=*/true);
  ReclaimRegistration registration;
  registration = Register([&](const ReclaimRequest&) {
    registration.Release();
    const bool has_dropped = cache().DropAll();
    FIRN_EXPECT_OK(pool().Compact().status());
    FIRN_EXPECT_OK(pool().Trim().status());
    return has_dropped;
  });
  FIRN_EXPECT_OK(pool().Allocate(kCapacityBytes));
  EXPECT_EQ(Stats().rescued, 1u);
}

TEST_P(ReclaimCallbackTest, InAScopeOrACaptureOrAMoveHookNobodyIsAsked) {
  int calls = 0;
  const ReclaimRegistration registration =
      Register([&calls](const ReclaimRequest&) {
        ++calls;
        return false;
      });
  {
    const LaunchScope scope(pool(), nullptr);
    EXPECT_FALSE(pool().Allocate(4 * kBlockBytes).ok());
  }
  {
    StreamCapture capture(&on_cpu_->cpu());
    AllocateOptions options;
    options.stream = capture.stream();
    // The first use of a second stream waits for the device.
    EXPECT_FALSE(pool().Allocate(4 * kBlockBytes, options).ok());
    calls = 0;
    const LaunchScope scope(pool(), capture.stream());
    ASSERT_EQ(capture.Begin(CaptureMode::kThreadLocal), DriverResult::kSuccess);
    SideThread other(
        [&] { EXPECT_FALSE(pool().Allocate(4 * kBlockBytes, options).ok()); });
    EXPECT_TRUE(other.IsDoneWithin(kSoon));
    ASSERT_EQ(capture.End(), DriverResult::kSuccess);
  }
  MoveHook hook;
  hook.before_move = [&](absl::Span<const MovingBlock>) {
    EXPECT_FALSE(pool().Allocate(kCapacityBytes).ok());
    return absl::OkStatus();
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration hooked,
                            pool().AddMoveHook(std::move(hook)));
  for (int i = 0; i < 9; ++i) cache().DropOne();
  FIRN_EXPECT_OK(pool().Compact().status());
  EXPECT_EQ(calls, 0);
}

TEST_P(ReclaimCallbackTest, ThreadsThatFailAtOnceAreServedInTurn) {
  std::atomic<int> inside{0};
  std::atomic<int> most_inside{0};
  const ReclaimRegistration registration = Register([&](const ReclaimRequest&) {
    const int now = ++inside;
    if (now > most_inside.load()) most_inside.store(now);
    const bool has_dropped = cache().DropOne();
    --inside;
    return has_dropped;
  });
  constexpr int kThreads = 4;
  constexpr int kBlocksEach = 6;
  std::atomic<int> served{0};
  {
    std::vector<std::unique_ptr<SideThread>> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.push_back(std::make_unique<SideThread>([&] {
        for (int i = 0; i < kBlocksEach; ++i) {
          if (pool().Allocate(kBlockBytes).ok()) ++served;
        }
      }));
    }
    for (const auto& thread : threads) {
      EXPECT_TRUE(thread->IsDoneWithin(kSoon));
    }
  }
  EXPECT_EQ(served.load(), kThreads * kBlocksEach);
  EXPECT_EQ(most_inside.load(), 1);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ReclaimCallbackTest, ThreadsThatAllFailAllReturn) {
  cache().DropAll();
  FIRN_ASSERT_OK(pool().Allocate(kCapacityBytes));
  const ReclaimRegistration registration =
      Register([](const ReclaimRequest&) { return true; });
  std::atomic<int> failed{0};
  {
    std::vector<std::unique_ptr<SideThread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(std::make_unique<SideThread>([&] {
        if (!pool().Allocate(kBlockBytes).ok()) ++failed;
      }));
    }
    for (const auto& thread : threads) {
      EXPECT_TRUE(thread->IsDoneWithin(kSoon));
    }
  }
  EXPECT_EQ(failed.load(), 4);
}

TEST_P(ReclaimCallbackTest, WhatItFreesOnAStreamIsWaitedFor) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  cache().DropAll();
  AllocateOptions options;
  options.stream = stream;
  FIRN_ASSERT_OK_AND_ASSIGN(void* block,
                            pool().Allocate(kCapacityBytes, options));
  const ReclaimRegistration registration = Register([&](const ReclaimRequest&) {
    if (block == nullptr) return false;
    // Work on it is still in flight.
    EXPECT_EQ(on_cpu_->cpu().LaunchKernel(
                  stream, {}, [] { absl::SleepFor(absl::Milliseconds(20)); }),
              DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool().Free(block, stream));
    block = nullptr;
    return true;
  });
  FIRN_EXPECT_OK(pool().Allocate(kCapacityBytes));
}

}  // namespace
}  // namespace firn::testing
