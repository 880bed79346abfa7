// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads that allocate more than there is, declare, use and free their blocks
// at once, while passes go on: what lies on the host comes and goes beneath
// them, and every byte stays theirs.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/spill_pool_scene.h"
#include "tests/support/sanitizers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kGranuleBytes = SpillPool::kGranuleBytes;
constexpr int kThreads = 3;
constexpr int kSteps = kUnderThreadSanitizer ? 250 : 1500;

struct Counts {
  std::atomic<uint64_t> allocations{0};
  std::atomic<uint64_t> failures{0};
  std::atomic<uint64_t> returns{0};   // MarkActive that succeeded
  std::atomic<uint64_t> refusals{0};  // for want of room
  std::atomic<uint64_t> damaged{0};
};

// Blocks of one thread. It touches them in scopes alone, and those that rest
// not at all.
class User {
 public:
  User(SpillPool* scene, Counts* counts, uint64_t number)
      : scene_(*scene), counts_(*counts), random_(number), number_(number) {
    EXPECT_EQ(scene_.cpu().StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  ~User() {
    for (const Block& block : blocks_) {
      FIRN_EXPECT_OK(scene_.pool().Free(block.filled.ptr, stream_));
    }
    FIRN_EXPECT_OK(scene_.pool().ReleaseStream(stream_));
    EXPECT_EQ(scene_.cpu().StreamDestroy(stream_), DriverResult::kSuccess);
  }

  void Run() {
    for (int i = 0; i < kSteps; ++i) Step();
    for (Block& block : blocks_) Activate(&block);
    CheckAll();
  }

 private:
  struct Block {
    FilledBlock filled;
    bool rests = false;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  void Step() {
    switch (Draw(8)) {
      case 0:
      case 1:
      case 2:
        Allocate();
        break;
      case 3:
        if (!blocks_.empty()) Free(Draw(blocks_.size()));
        break;
      case 4:
      case 5:
        if (!blocks_.empty()) Rest(&blocks_[Draw(blocks_.size())]);
        break;
      case 6:
        if (!blocks_.empty()) Activate(&blocks_[Draw(blocks_.size())]);
        break;
      default:
        CheckAll();
    }
  }

  void Allocate() {
    constexpr uint64_t kSizes[] = {4 * kKiB, 20 * kKiB, kGranuleBytes,
                                   2 * kGranuleBytes + 12 * kKiB};
    AllocateOptions options;
    options.stream = stream_;
    const uint64_t bytes = kSizes[Draw(4)];
    const absl::StatusOr<void*> ptr = scene_.pool().Allocate(bytes, options);
    if (!ptr.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(ptr.status())) << ptr.status();
      ++counts_.failures;
      // The rest will do for the others.
      if (!blocks_.empty()) Free(Draw(blocks_.size()));
      return;
    }
    ++counts_.allocations;
    Block block;
    block.filled = {*ptr, bytes, number_ << 32 | ++last_seed_};
    {
      const LaunchScope scope(scene_.pool(), stream_);
      Fill(block.filled);
    }
    blocks_.push_back(block);
  }

  void Free(size_t i) {
    FIRN_EXPECT_OK(scene_.pool().Free(blocks_[i].filled.ptr, stream_));
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void Rest(Block* block) {
    FIRN_EXPECT_OK(scene_.pool().AllowSpill(block->filled.ptr, stream_));
    block->rests = true;
  }

  void Activate(Block* block) {
    if (!block->rests) return;
    const absl::Status status = scene_.pool().MarkActive(block->filled.ptr);
    if (absl::IsResourceExhausted(status)) {
      ++counts_.refusals;
      return;
    }
    FIRN_EXPECT_OK(status);
    ++counts_.returns;
    block->rests = false;
  }

  void CheckAll() {
    const LaunchScope scope(scene_.pool(), stream_);
    for (const Block& block : blocks_) {
      if (block.rests || IsIntact(block.filled)) continue;
      ++counts_.damaged;
    }
  }

  SpillPool& scene_;
  Counts& counts_;
  std::mt19937_64 random_;
  const uint64_t number_;
  uint64_t last_seed_ = 0;
  StreamHandle stream_ = nullptr;
  std::vector<Block> blocks_;
};

class SpillThreadsTest : public ::testing::TestWithParam<CpuSync> {};

INSTANTIATE_TEST_SUITE_P(Extremes, SpillThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(SpillThreadsTest, AllGoOnAtOnce) {
  PoolOptions options = SpillPool::Options();
  // However slow the machine is.
  options.max_wait = absl::Minutes(2);
  SpillPool scene(GetParam(), options);
  Counts counts;
  {
    // The pool knows of scopes before anybody allocates.
    const LaunchScope scope(scene.pool(), nullptr);
  }
  std::atomic<bool> is_over{false};
  std::thread passes([&] {
    for (int i = 0; !is_over.load(); ++i) {
      CompactOptions pass;
      pass.level = i % 2 == 0 ? CompactionLevel::kLaunchScopes
                              : CompactionLevel::kDeclaredIdle;
      pass.max_wait = absl::Minutes(2);
      FIRN_EXPECT_OK(scene.pool().Compact(pass).status());
      FIRN_EXPECT_OK(scene.pool().CheckInvariants());
      if (i % 4 == 0) {
        FIRN_EXPECT_OK(scene.pool().Trim().status());
      }
      EXPECT_LE(scene.ledger().peak_bytes(),
                SpillPool::kHostGranules * kGranuleBytes);
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&scene, &counts, i] {
      User user(&scene, &counts, static_cast<uint64_t>(i));
      user.Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_over.store(true);
  passes.join();
  EXPECT_EQ(counts.damaged.load(), 0u);
  const PoolStats stats = scene.pool().GetStats();
  EXPECT_GT(counts.allocations.load(), static_cast<uint64_t>(kSteps) / 4);
  EXPECT_GT(counts.returns.load(), 10u);
  EXPECT_GT(stats.granules_spilled, 5u);
  EXPECT_GT(stats.granules_returned, 0u);
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_EQ(stats.spilled_bytes, 0u);
  ASSERT_EQ(scene.cpu().CtxSynchronize(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(scene.pool().Trim().status());
  EXPECT_EQ(scene.pool().GetStats().held_bytes, 0u);
  EXPECT_EQ(scene.ledger().bytes(), 0u);
  RecordProperty("spilled", static_cast<int>(stats.granules_spilled));
  RecordProperty("returned", static_cast<int>(stats.granules_returned));
  RecordProperty("refused", static_cast<int>(counts.refusals.load()));
}

}  // namespace
}  // namespace firn::testing
