// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Two pools of one device with one budget: each gets what the other one holds
// for nothing, at any time, and together they never hold more.

#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/shared_budget.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/watching_driver.h"

namespace firn::testing {
namespace {

constexpr uint64_t kGranule = 64 * kKiB;
constexpr uint32_t kGranules = 24;  // of the budget, and of each pool

class SharedBudgetPoolsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    CpuDriverOptions options;
    options.sync = GetParam();
    options.granularity_bytes = kGranule;
    options.device_bytes = 3 * kGranules * kGranule;
    FIRN_ASSERT_OK_AND_ASSIGN(cpu_, CpuDriver::Create(options));
    watching_ = std::make_unique<WatchingDriver>(cpu_.get());
    FIRN_ASSERT_OK_AND_ASSIGN(budget_,
                              SharedBudget::Create(kGranules * kGranule));
    first_ = MakePool();
    second_ = MakePool();
    own_handles_ = watching_->handles();
  }

  void TearDown() override {
    first_.reset();
    second_.reset();
    EXPECT_EQ(budget_->held_bytes(), 0u);
    FIRN_EXPECT_OK(budget_->CheckInvariants());
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(cpu_->MemGetInfo(&free_bytes, &total_bytes),
              DriverResult::kSuccess);
    EXPECT_EQ(free_bytes, total_bytes);
    // Nothing was unmapped beneath work in flight.
    EXPECT_EQ(cpu_->loss(), "");
  }

  std::unique_ptr<Pool> MakePool() {
    PoolOptions options;
    options.driver = std::shared_ptr<Driver>(watching_.get(), [](Driver*) {});
    options.capacity_bytes = kGranules * kGranule;
    options.shared_budget = budget_;
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
    FIRN_EXPECT_OK(pool.status());
    return *std::move(pool);
  }

  std::vector<FilledBlock> FillUp(Pool& pool, uint64_t bytes,
                                  size_t most = ~size_t{0}) {
    std::vector<FilledBlock> blocks;
    while (blocks.size() < most) {
      const absl::StatusOr<void*> ptr = pool.Allocate(bytes);
      if (!ptr.ok()) break;
      blocks.push_back({*ptr, bytes, ++last_seed_});
      Fill(blocks.back());
    }
    return blocks;
  }

  static void FreeAllBut(Pool& pool, size_t kept,
                         std::vector<FilledBlock>* blocks) {
    while (blocks->size() > kept) {
      FIRN_EXPECT_OK(pool.Free(blocks->back().ptr));
      blocks->pop_back();
    }
  }

  // Most granules that there were at once. Before their invariants are checked,
  // as that retains handles.
  uint32_t most_granules() const {
    return watching_->most_handles() - own_handles_;
  }

  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<WatchingDriver> watching_;
  uint32_t own_handles_ = 0;  // of pools, for other things than granules
  std::shared_ptr<SharedBudget> budget_;
  std::unique_ptr<Pool> first_;
  std::unique_ptr<Pool> second_;
  uint64_t last_seed_ = 0;
};

TEST_P(SharedBudgetPoolsTest, WhatOnePoolHasMappedForNothingServesTheOther) {
  for (const uint64_t bytes : {kGranule, 2 * kGranule + 3000, uint64_t{4096}}) {
    SCOPED_TRACE(bytes);
    std::vector<FilledBlock> kept = FillUp(*first_, bytes);
    EXPECT_EQ(budget_->held_bytes(), kGranules * kGranule);
    FreeAllBut(*first_, 1, &kept);
    const PoolStats idle = first_->GetStats();
    EXPECT_EQ(idle.held_bytes, kGranules * kGranule);
    EXPECT_EQ(idle.cached_bytes, 0u);  // mapped still
    std::vector<FilledBlock> others = FillUp(*second_, kGranule);
    EXPECT_EQ(others.size(), kGranules - idle.used_bytes / kGranule);
    EXPECT_EQ(CountDamaged(kept), 0u);
    EXPECT_EQ(CountDamaged(others), 0u);
    // And back.
    FreeAllBut(*second_, 0, &others);
    const std::vector<FilledBlock> again = FillUp(*first_, kGranule);
    EXPECT_EQ(again.size(), kGranules - idle.used_bytes / kGranule);
    for (const FilledBlock& block : again) {
      FIRN_EXPECT_OK(first_->Free(block.ptr));
    }
    EXPECT_EQ(CountDamaged(kept), 0u);
    FreeAllBut(*first_, 0, &kept);
  }
  EXPECT_LE(most_granules(), kGranules);
  FIRN_EXPECT_OK(first_->CheckInvariants());
  FIRN_EXPECT_OK(second_->CheckInvariants());
}

TEST_P(SharedBudgetPoolsTest, OnlyTheLimitThatBothShareIsShort) {
  const std::vector<FilledBlock> blocks = FillUp(*first_, kGranule, 20);
  EXPECT_THAT(second_->Allocate(5 * kGranule),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_EXPECT_OK(second_->Allocate(4 * kGranule).status());
  EXPECT_EQ(CountDamaged(blocks), 0u);
  EXPECT_EQ(budget_->held_bytes(), kGranules * kGranule);
}

TEST_P(SharedBudgetPoolsTest, TheLimitIsLoweredAndRaisedInUse) {
  std::vector<FilledBlock> in_first = FillUp(*first_, kGranule, 12);
  std::vector<FilledBlock> in_second = FillUp(*second_, kGranule, 12);
  FIRN_ASSERT_OK(budget_->SetLimit(14 * kGranule));
  EXPECT_FALSE(first_->Allocate(100).ok());
  FreeAllBut(*first_, 4, &in_first);
  budget_->ReleaseExcess();
  EXPECT_EQ(budget_->held_bytes(), 16 * kGranule);
  EXPECT_FALSE(second_->Allocate(100).ok());
  FreeAllBut(*second_, 8, &in_second);
  budget_->ReleaseExcess();
  EXPECT_EQ(budget_->held_bytes(), 14 * kGranule);
  // What is idle serves its own pool, and nobody gets more.
  EXPECT_EQ(FillUp(*second_, kGranule).size(), 2u);
  EXPECT_FALSE(first_->Allocate(kGranule).ok());
  FIRN_ASSERT_OK(budget_->SetLimit(kGranules * kGranule));
  EXPECT_EQ(FillUp(*first_, kGranule).size(), 10u);
  EXPECT_EQ(CountDamaged(in_first), 0u);
  EXPECT_EQ(CountDamaged(in_second), 0u);
  FIRN_EXPECT_OK(first_->CheckInvariants());
  FIRN_EXPECT_OK(second_->CheckInvariants());
}

TEST_P(SharedBudgetPoolsTest, InsideAScopeNothingIsWaitedForInAnotherPool) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(cpu_->StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  AllocateOptions on_stream;
  on_stream.stream = stream;
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                            second_->Allocate(kGranules * kGranule, on_stream));
  const FilledBlock block = {ptr, kGranules * kGranule, 1};
  EXPECT_EQ(FillOnStream(cpu_.get(), block, stream), DriverResult::kSuccess);
  FIRN_EXPECT_OK(second_->Free(ptr, stream));
  {
    // The work may be waiting for this thread.
    const LaunchScope scope(*first_, nullptr);
    const absl::StatusOr<void*> refused = first_->Allocate(kGranule);
    EXPECT_THAT(refused.status(),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  FIRN_EXPECT_OK(first_->Allocate(kGranule).status());
  EXPECT_EQ(cpu_->StreamSynchronize(stream), DriverResult::kSuccess);
  EXPECT_EQ(cpu_->StreamDestroy(stream), DriverResult::kSuccess);
}

// --- Threads ---

// Allocates, writes and frees in one pool, whose launches are all in scopes.
class Worker {
 public:
  Worker(CpuDriver* cpu, Pool* pool, uint64_t seed)
      : cpu_(*cpu), pool_(*pool), random_(seed), seed_(seed << 32) {
    EXPECT_EQ(cpu_.StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
    // Passes let go of the pool's lock meanwhile.
    MoveHook hook;
    hook.before_move = [this](absl::Span<const MovingBlock>) {
      ++hook_calls_;
      std::this_thread::yield();
      return absl::OkStatus();
    };
    absl::StatusOr<MoveHookRegistration> registration =
        pool_.AddMoveHook(std::move(hook));
    FIRN_EXPECT_OK(registration.status());
    registration_ = *std::move(registration);
  }
  ~Worker() {
    while (!blocks_.empty()) FreeOne();
    EXPECT_EQ(damaged_, 0u);
    EXPECT_EQ(cpu_.StreamSynchronize(stream_), DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool_.ReleaseStream(stream_));
    EXPECT_EQ(cpu_.StreamDestroy(stream_), DriverResult::kSuccess);
  }

  void Step() {
    if (random_.OneIn(15)) {
      Compact();
    } else if (random_.OneIn(50)) {
      FIRN_EXPECT_OK(pool_.Trim(random_.Below(kGranules) * kGranule).status());
    } else if (live_bytes_ > most_live_bytes_ ||
               (!blocks_.empty() && random_.OneIn(2))) {
      FreeOne();
    } else {
      Allocate();
    }
    // From little to nearly all, and back.
    if (random_.OneIn(40)) {
      most_live_bytes_ = random_.Below(kGranules) * kGranule;
    }
  }

  uint64_t allocations() const { return allocations_; }
  uint64_t hook_calls() const { return hook_calls_; }

 private:
  void Allocate() {
    constexpr uint64_t kBytes[] = {512,      4096,         20000,
                                   kGranule, 3 * kGranule, 2 * kGranule + 5000};
    AllocateOptions options;
    options.stream = stream_;
    const uint64_t bytes = kBytes[random_.Below(std::size(kBytes))];
    std::optional<LaunchScope> scope;
    const bool is_inside = random_.OneIn(2);
    if (is_inside) scope.emplace(pool_, stream_);
    const absl::StatusOr<void*> ptr = pool_.Allocate(bytes, options);
    if (!ptr.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(ptr.status())) << ptr.status();
      return;
    }
    if (!is_inside) scope.emplace(pool_, stream_);
    blocks_.push_back({*ptr, bytes, ++seed_});
    EXPECT_EQ(FillOnStream(&cpu_, blocks_.back(), stream_),
              DriverResult::kSuccess);
    live_bytes_ += bytes;
    ++allocations_;
  }

  void FreeOne() {
    const size_t i = random_.Below(static_cast<uint32_t>(blocks_.size()));
    const FilledBlock block = blocks_[i];
    blocks_[i] = blocks_.back();
    blocks_.pop_back();
    // Else the work that writes it may be in flight.
    if (random_.OneIn(3)) {
      EXPECT_EQ(cpu_.StreamSynchronize(stream_), DriverResult::kSuccess);
      damaged_ += CountDamaged({block});
    }
    FIRN_EXPECT_OK(pool_.Free(block.ptr, stream_));
    live_bytes_ -= block.bytes;
  }

  void Compact() {
    CompactOptions options;
    options.level = CompactionLevel::kLaunchScopes;
    FIRN_EXPECT_OK(pool_.Compact(options).status());
    EXPECT_EQ(cpu_.StreamSynchronize(stream_), DriverResult::kSuccess);
    damaged_ += CountDamaged(blocks_);
  }

  CpuDriver& cpu_;
  Pool& pool_;
  SmallRandom random_;
  uint64_t seed_;
  StreamHandle stream_ = nullptr;
  MoveHookRegistration registration_;
  std::vector<FilledBlock> blocks_;
  uint64_t live_bytes_ = 0;
  uint64_t most_live_bytes_ = kGranules * kGranule;
  uint64_t damaged_ = 0;
  uint64_t allocations_ = 0;
  uint64_t hook_calls_ = 0;
};

constexpr uint64_t kSteps = kUnderThreadSanitizer ? 1200 : 2000;

TEST_P(SharedBudgetPoolsTest, ThreadsUseBothPoolsWhileTheLimitChanges) {
  std::atomic<int> running{2};
  std::atomic<uint64_t> hook_calls{0};
  const auto use = [this, &running, &hook_calls](Pool* pool, uint64_t seed) {
    {
      Worker worker(cpu_.get(), pool, seed);
      for (uint64_t i = 0; i < kSteps; ++i) worker.Step();
      EXPECT_GT(worker.allocations(), kSteps / 20);
      hook_calls += worker.hook_calls();
    }
    --running;
  };
  std::vector<std::thread> threads;
  threads.emplace_back(use, first_.get(), 1);
  threads.emplace_back(use, second_.get(), 2);
  SmallRandom random(3);
  while (running > 0) {
    FIRN_EXPECT_OK(budget_->SetLimit(random.Between(4, kGranules) * kGranule));
    if (random.OneIn(4)) budget_->ReleaseExcess();
    FIRN_EXPECT_OK(budget_->CheckInvariants());
    EXPECT_LE(budget_->held_bytes(), kGranules * kGranule);
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(hook_calls, 0u);
  // What the workers' streams have given back is done.
  EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
  EXPECT_LE(most_granules(), kGranules);
  for (Pool* const pool : {first_.get(), second_.get()}) {
    FIRN_EXPECT_OK(pool->Trim().status());
    EXPECT_EQ(pool->GetStats().held_bytes, 0u);
    EXPECT_EQ(pool->GetStats().live_bytes, 0u);
    FIRN_EXPECT_OK(pool->CheckInvariants());
  }
}

TEST_P(SharedBudgetPoolsTest, APoolGoesWhileTheOtherOneAsksIt) {
  std::atomic<bool> stop{false};
  uint64_t shortages = 0;
  std::thread asking([this, &stop, &shortages] {
    while (!stop) {
      std::vector<FilledBlock> blocks = FillUp(*first_, kGranule);
      if (blocks.size() < kGranules) ++shortages;
      EXPECT_EQ(CountDamaged(blocks), 0u);
      FreeAllBut(*first_, 0, &blocks);
    }
  });
  constexpr int kPools = kUnderThreadSanitizer ? 10 : 40;
  for (int i = 0; i < kPools; ++i) {
    std::vector<void*> blocks;
    for (int n = 0; n < 20; ++n) {
      const absl::StatusOr<void*> ptr = second_->Allocate(kGranule / 2);
      if (ptr.ok()) blocks.push_back(*ptr);
    }
    for (void* const ptr : blocks) FIRN_EXPECT_OK(second_->Free(ptr));
    second_.reset();
    second_ = MakePool();
  }
  stop = true;
  asking.join();
  // A pool that is being made tries out a granule of its own.
  EXPECT_LE(most_granules(), kGranules + 1);
  // With nobody else there, all of it.
  EXPECT_EQ(FillUp(*first_, kGranule).size(), kGranules);
}

INSTANTIATE_TEST_SUITE_P(Extremes, SharedBudgetPoolsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn::testing
