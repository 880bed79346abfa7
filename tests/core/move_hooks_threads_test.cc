// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads allocate and free, hooks come and go, and nothing moves untold.

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "firn/core/move_hook_list.h"
#include "firn/core/pool.h"
#include "firn/vmm/mutex.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::FilledBlock;
using ::firn::testing::FragmentPool;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::SyncName;

using Blocks = absl::Span<const MovingBlock>;

// The moves that a hook was asked about: of which block, from which generation.
class MoveLog {
 public:
  void Add(Blocks blocks) {
    MutexLock lock(&mutex_);
    for (const MovingBlock& block : blocks) {
      moves_.insert({block.ptr, block.old_generation});
    }
  }
  bool Has(const void* ptr, uint64_t generation) {
    MutexLock lock(&mutex_);
    return moves_.count({ptr, generation}) == 1;
  }

 private:
  Mutex mutex_;
  std::set<std::pair<const void*, uint64_t>> moves_ ABSL_GUARDED_BY(mutex_);
};

class MoveHooksThreadsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_,
        PoolOnCpu::Real(32 * kMiB, /*move_on_failure=*/false, GetParam()));
  }

  Pool& pool() { return on_cpu_->pool(); }

  // Fills the pool and frees all but every sixth block.
  std::vector<FilledBlock> Fragment() {
    return FragmentPool(&pool(), 64 * kKiB, /*keep=*/6);
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_P(MoveHooksThreadsTest, NoBlockMovesUntoldWhileThreadsAllocate) {
  const std::vector<FilledBlock> kept = Fragment();
  MoveLog log;
  MoveHook hook;
  std::atomic<uint64_t> told{0};
  hook.before_move = [&](Blocks blocks) {
    log.Add(blocks);
    told += blocks.size();
    // Time for the others.
    std::this_thread::yield();
    return absl::OkStatus();
  };
  const absl::StatusOr<MoveHookRegistration> registration =
      pool().AddMoveHook(std::move(hook));
  FIRN_ASSERT_OK(registration.status());

  std::atomic<bool> stop{false};
  std::atomic<uint64_t> untold{0};
  std::atomic<uint64_t> moved{0};
  std::atomic<uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      struct Block {
        void* ptr;
        uint64_t generation;
      };
      std::mt19937_64 random(t);
      std::vector<Block> blocks;
      const auto free_one = [&] {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        const Block block = blocks.back();
        blocks.pop_back();
        const absl::StatusOr<uint64_t> now = pool().Generation(block.ptr);
        if (!now.ok()) ++refused;
        if (now.ok() && *now != block.generation) {
          ++moved;
          if (!log.Has(block.ptr, block.generation)) ++untold;
        }
        if (!pool().Free(block.ptr).ok()) ++refused;
      };
      while (!stop.load()) {
        // Small ones of few classes, so that caches hand them out.
        const absl::StatusOr<void*> ptr = pool().Allocate(kKiB << random() % 7);
        if (ptr.ok()) blocks.push_back({*ptr, *pool().Generation(*ptr)});
        while (blocks.size() > 60) free_one();
        if (!blocks.empty() && random() % 2 == 0) free_one();
      }
      while (!blocks.empty()) free_one();
    });
  }
  const absl::Time end = absl::Now() + absl::Milliseconds(700);
  while (absl::Now() < end) FIRN_EXPECT_OK(pool().Compact().status());
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(untold.load(), 0u);
  EXPECT_EQ(refused.load(), 0u);
  EXPECT_GT(told.load(), 0u);
  EXPECT_EQ(CountDamaged(kept), 0u);
  EXPECT_EQ(pool().GetStats().live_allocations, kept.size());
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(MoveHooksThreadsTest, PassesOfSeveralThreadsTakeTurns) {
  const std::vector<FilledBlock> kept = Fragment();
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  std::atomic<int> unmatched{0};
  MoveHook hook;
  hook.before_move = [&](Blocks) {
    if (++inside > 1) ++overlaps;
    std::this_thread::yield();
    --inside;
    ++unmatched;
    return absl::OkStatus();
  };
  hook.after_move = [&](Blocks) { --unmatched; };
  const absl::StatusOr<MoveHookRegistration> registration =
      pool().AddMoveHook(std::move(hook));
  FIRN_ASSERT_OK(registration.status());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        CompactOptions options;
        options.wanted_granules = 1;
        options.dry_run = t == 0 && i % 2 == 0;
        EXPECT_TRUE(pool().Compact(options).ok());
        // Its bounds are computed from another snapshot than the pass's.
        EXPECT_FALSE(pool().Allocate(31 * kMiB).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlaps.load(), 0);
  EXPECT_EQ(unmatched.load(), 0);
  EXPECT_GT(pool().GetStats().granules_moved, 0u);
  EXPECT_EQ(CountDamaged(kept), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(MoveHooksThreadsTest, AHookThatWasGivenUpIsNotCalled) {
  const std::vector<FilledBlock> kept = Fragment();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> late{0};
  std::thread registrar([&] {
    while (!stop.load()) {
      const auto gone = std::make_shared<std::atomic<bool>>(false);
      MoveHook hook;
      hook.before_move = [&, gone](Blocks) {
        ++calls;
        std::this_thread::yield();
        if (gone->load()) ++late;
        return absl::OkStatus();
      };
      hook.after_move = [&, gone](Blocks) {
        if (gone->load()) ++late;
      };
      absl::StatusOr<MoveHookRegistration> registration =
          pool().AddMoveHook(std::move(hook));
      std::this_thread::yield();
      registration->Release();
      gone->store(true);
    }
  });
  for (int i = 0; i < 100; ++i) {
    FIRN_EXPECT_OK(pool().Compact().status());
    // Something to move again.
    std::vector<void*> blocks;
    for (int n = 0; n < 96; ++n) {
      const absl::StatusOr<void*> ptr = pool().Allocate(64 * kKiB);
      if (ptr.ok()) blocks.push_back(*ptr);
    }
    for (void* const ptr : blocks) FIRN_EXPECT_OK(pool().Free(ptr));
  }
  stop.store(true);
  registrar.join();
  EXPECT_EQ(late.load(), 0u);
  EXPECT_EQ(CountDamaged(kept), 0u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, MoveHooksThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

// --- Registrations ---

MovingBlock AnyBlock() {
  MovingBlock block;
  block.bytes = 1;
  return block;
}

TEST(MoveHookListTest, RemovingWaitsForACallThatIsInProgress) {
  MoveHookList list;
  std::atomic<bool> entered{false};
  std::atomic<bool> may_end{false};
  std::atomic<bool> has_ended{false};
  MoveHook hook;
  hook.before_move = [&](Blocks) {
    entered.store(true);
    while (!may_end.load()) std::this_thread::yield();
    has_ended.store(true);
    return absl::OkStatus();
  };
  const uint64_t id = list.Add(std::move(hook));
  std::vector<uint64_t> called;
  std::thread caller(
      [&] { EXPECT_TRUE(list.Before({AnyBlock()}, &called).ok()); });
  while (!entered.load()) std::this_thread::yield();
  std::thread remover([&] {
    list.Remove(id);
    EXPECT_TRUE(has_ended.load());
  });
  absl::SleepFor(absl::Milliseconds(20));
  may_end.store(true);
  caller.join();
  remover.join();
  EXPECT_TRUE(list.empty());
}

TEST(MoveHookListTest, AHookMayRemoveItselfAndOthers) {
  MoveHookList list;
  std::vector<uint64_t> ids;
  int own_calls = 0;
  int other_calls = 0;
  MoveHook hook;
  hook.before_move = [&](Blocks) {
    EXPECT_TRUE(list.ThisThreadIsInside());
    for (const uint64_t id : ids) list.Remove(id);
    ++own_calls;  // still there
    return absl::OkStatus();
  };
  hook.after_move = [&](Blocks) { ++own_calls; };
  ids.push_back(list.Add(std::move(hook)));
  MoveHook other;
  other.before_move = [&](Blocks) {
    ++other_calls;
    return absl::OkStatus();
  };
  ids.push_back(list.Add(std::move(other)));
  std::vector<uint64_t> called;
  EXPECT_TRUE(list.Before({AnyBlock()}, &called).ok());
  list.After({AnyBlock()}, called);
  EXPECT_EQ(own_calls, 1);
  EXPECT_EQ(other_calls, 0);
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(list.ThisThreadIsInside());
}

TEST(MoveHookListTest, ARegistrationMovesWithItsOwnerAndMayOutliveThePool) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(8 * kMiB));
  const auto add = [&on_cpu](std::shared_ptr<int> held) {
    MoveHook hook;
    hook.after_move = [held](Blocks) {};
    absl::StatusOr<MoveHookRegistration> added =
        on_cpu->pool().AddMoveHook(std::move(hook));
    FIRN_EXPECT_OK(added.status());
    return *std::move(added);
  };
  const auto first = std::make_shared<int>(0);
  const auto second = std::make_shared<int>(0);
  MoveHookRegistration one = add(first);
  MoveHookRegistration owner(std::move(one));
  EXPECT_EQ(first.use_count(), 2);
  owner = add(second);
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 2);
  on_cpu->DestroyPool();
  owner.Release();
  EXPECT_EQ(second.use_count(), 1);
  owner.Release();
}

}  // namespace
}  // namespace firn
