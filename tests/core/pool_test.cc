// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

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
using ::firn::testing::IsOk;
using ::firn::testing::kGiB;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

uintptr_t AddressOf(void* ptr) { return reinterpret_cast<uintptr_t>(ptr); }

TEST(PoolTest, DefaultOptionsGiveAWorkingPoolAndSayOnWhat) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto pool, Pool::Create(PoolOptions{}));
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(3 * kMiB));
  const PoolStats stats = pool->GetStats();
  EXPECT_FALSE(stats.driver_reason.empty());
  EXPECT_THAT(stats.ToString(), HasSubstr(stats.driver_reason));
  EXPECT_GT(stats.capacity_bytes, 0u);
  if (stats.backend == "cpu") {
    EXPECT_LE(stats.capacity_bytes, 8 * kGiB);
    Fill({ptr, 3 * kMiB, 1});
    EXPECT_TRUE(IsIntact({ptr, 3 * kMiB, 1}));
  }
  FIRN_EXPECT_OK(pool->Free(ptr));
  FIRN_EXPECT_OK(pool->CheckInvariants());
}

TEST(PoolTest, FirnDriverDecidesByHand) {
  ::setenv("FIRN_DRIVER", "cpu", 1);
  {
    FIRN_ASSERT_OK_AND_ASSIGN(auto pool, Pool::Create(PoolOptions{}));
    EXPECT_EQ(pool->GetStats().backend, "cpu");
    EXPECT_THAT(pool->GetStats().driver_reason, HasSubstr("FIRN_DRIVER=cpu"));
  }
  ::setenv("FIRN_DRIVER", "tpu", 1);
  EXPECT_THAT(Pool::Create(PoolOptions{}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("FIRN_DRIVER=tpu"), HasSubstr("cuda"))));
  ::setenv("FIRN_DRIVER", "cuda", 1);
  PoolOptions options;
  options.device_ordinal = 4711;
  EXPECT_THAT(Pool::Create(options), StatusIs(absl::StatusCode::kUnavailable,
                                              HasSubstr("FIRN_DRIVER=cuda")));
  ::unsetenv("FIRN_DRIVER");
}

TEST(PoolTest, EverySizeFromOneByteToTheCapacityIsAlignedAndWritable) {
  constexpr uint64_t kCapacity = 16 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Real(kCapacity));
  Pool& pool = on_cpu->pool();
  for (const uint64_t bytes :
       {uint64_t{1}, uint64_t{2}, uint64_t{511}, uint64_t{512}, uint64_t{513},
        4 * kKiB, 100 * kKiB, 256 * kKiB - 1, 256 * kKiB, 700 * kKiB,
        2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 3 * kMiB, 5 * kMiB + 12345,
        kCapacity - 1, kCapacity}) {
    SCOPED_TRACE(bytes);
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(bytes));
    EXPECT_EQ(AddressOf(ptr) % 512, 0u);
    EXPECT_EQ(pool.GetStats().live_bytes, bytes);
    Fill({ptr, bytes, bytes});
    EXPECT_TRUE(IsIntact({ptr, bytes, bytes}));
    FIRN_EXPECT_OK(pool.CheckInvariants());
    FIRN_EXPECT_OK(pool.Free(ptr));
    EXPECT_EQ(pool.GetStats().live_bytes, 0u);
    EXPECT_EQ(pool.GetStats().used_bytes, 0u);
  }
}

TEST(PoolTest, LargerAlignmentsAreKept) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Real(64 * kMiB));
  Pool& pool = on_cpu->pool();
  std::vector<FilledBlock> blocks;
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{512}, kKiB, 4 * kKiB,
                                   64 * kKiB, kMiB, 2 * kMiB, 8 * kMiB}) {
    for (const uint64_t bytes :
         {uint64_t{100}, 4 * kKiB, 96 * kKiB, 300 * kKiB, 2 * kMiB + 5000}) {
      SCOPED_TRACE(::testing::Message() << alignment << " " << bytes);
      AllocateOptions options;
      options.alignment_bytes = alignment;
      FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(bytes, options));
      EXPECT_EQ(AddressOf(ptr) % alignment, 0u);
      blocks.push_back({ptr, bytes, blocks.size()});
      Fill(blocks.back());
      if (blocks.size() > 12) {
        FIRN_EXPECT_OK(pool.Free(blocks.front().ptr));
        blocks.erase(blocks.begin());
      }
    }
  }
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(PoolTest, BadRequestsAreRefusedByName) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(64 * kMiB));
  Pool& pool = on_cpu->pool();
  EXPECT_THAT(pool.Allocate(0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes")));
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{3}, 2 * kGiB}) {
    AllocateOptions options;
    options.alignment_bytes = alignment;
    EXPECT_THAT(pool.Allocate(1, options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("alignment_bytes")));
  }
}

TEST(PoolTest, MisuseOfFreeIsRefusedAndChangesNothing) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Real(64 * kMiB));
  Pool& pool = on_cpu->pool();
  for (const uint64_t bytes : {4 * kKiB, 600 * kKiB, 5 * kMiB + 1000}) {
    SCOPED_TRACE(bytes);
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(bytes));
    char* const inside = static_cast<char*>(ptr);
    for (const uint64_t offset : {uint64_t{1}, uint64_t{512}, bytes / 2}) {
      EXPECT_THAT(pool.Free(inside + offset),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
    EXPECT_EQ(pool.GetStats().live_bytes, bytes);
    FIRN_EXPECT_OK(pool.Free(ptr));
    EXPECT_THAT(pool.Free(ptr), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("freed before")));
    FIRN_EXPECT_OK(pool.CheckInvariants());
  }
  int on_the_stack = 0;
  EXPECT_THAT(pool.Free(&on_the_stack),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not an address of this pool")));
  FIRN_EXPECT_OK(pool.Free(nullptr));
  EXPECT_EQ(pool.GetStats().live_bytes, 0u);
  EXPECT_EQ(pool.GetStats().refused_frees, 3 * 4 + 1u);
}

TEST(PoolTest, FreedBlocksAreReusedWithoutADriverCall) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(kGiB));
  Pool& pool = on_cpu->pool();
  const std::vector<uint64_t> step = {512,        40 * kKiB, 700 * kKiB,
                                      4 * kMiB,   64 * kMiB, 33 * kMiB + 4096,
                                      100 * kKiB, 2 * kMiB,  9 * kMiB + 1};
  uint64_t calls_after_second = 0;
  for (int iteration = 0; iteration < 6; ++iteration) {
    std::vector<void*> ptrs;
    for (const uint64_t bytes : step) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(bytes));
      ptrs.push_back(ptr);
    }
    for (void* ptr : ptrs) FIRN_EXPECT_OK(pool.Free(ptr));
    if (iteration == 1) calls_after_second = on_cpu->faults().calls();
  }
  EXPECT_EQ(on_cpu->faults().calls(), calls_after_second);
}

TEST(PoolTest, RemaindersOfLargeBlocksShareGranules) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(300 * kMiB));
  Pool& pool = on_cpu->pool();
  // 3 MiB each: two of them fill three granules, not four.
  for (int i = 0; i < 100; ++i) FIRN_ASSERT_OK(pool.Allocate(3 * kMiB));
  const PoolStats stats = pool.GetStats();
  EXPECT_EQ(stats.live_bytes, 300 * kMiB);
  EXPECT_EQ(stats.used_bytes, 300 * kMiB);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(PoolTest, FreeGranulesServeAnyAddressWithoutMovingAnything) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Real(64 * kMiB));
  Pool& pool = on_cpu->pool();
  std::vector<FilledBlock> blocks;
  for (uint64_t i = 0; i < 16; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(4 * kMiB));
    blocks.push_back({ptr, 4 * kMiB, i});
    Fill(blocks.back());
  }
  EXPECT_THAT(pool.Allocate(512),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // Every second one goes: the holes are 4 MiB each, 32 MiB in all.
  std::vector<FilledBlock> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 == 0) {
      FIRN_ASSERT_OK(pool.Free(blocks[i].ptr));
    } else {
      kept.push_back(blocks[i]);
    }
  }
  FIRN_ASSERT_OK_AND_ASSIGN(void* large, pool.Allocate(32 * kMiB));
  Fill({large, 32 * kMiB, 99});
  EXPECT_EQ(CountDamaged(kept), 0u);
  EXPECT_TRUE(IsIntact({large, 32 * kMiB, 99}));
  EXPECT_EQ(pool.GetStats().granules_moved, 0u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(PoolTest, AFailureShowsTheFigures) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(64 * kMiB));
  Pool& pool = on_cpu->pool();
  FIRN_ASSERT_OK(pool.Allocate(60 * kMiB));
  EXPECT_THAT(
      pool.Allocate(8 * kMiB),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("cannot allocate 8388608 bytes"),
                     HasSubstr("capacity 67108864"), HasSubstr("live 62914560"),
                     HasSubstr("free 4194304"), HasSubstr("move_on_failure"))));
  EXPECT_THAT(pool.Allocate(uint64_t{1} << 62),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("more than the capacity")));
  EXPECT_EQ(pool.GetStats().failed_allocations, 2u);
  FIRN_ASSERT_OK(pool.Allocate(4 * kMiB));
}

TEST(PoolTest, TheWholeCapacityCanBeHandedOut) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(64 * kMiB));
  Pool& pool = on_cpu->pool();
  for (const uint64_t bytes : {4 * kKiB, 64 * kKiB, 512 * kKiB, 3 * kMiB}) {
    SCOPED_TRACE(bytes);
    std::vector<void*> ptrs;
    while (true) {
      const absl::StatusOr<void*> ptr = pool.Allocate(bytes);
      if (!ptr.ok()) break;
      ptrs.push_back(*ptr);
    }
    EXPECT_EQ(ptrs.size(), 64 * kMiB / bytes);
    for (void* ptr : ptrs) FIRN_EXPECT_OK(pool.Free(ptr));
    FIRN_EXPECT_OK(pool.CheckInvariants());
  }
}

TEST(PoolTest, AnEmptyPoolServesWhateverWasThereBefore) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  PoolOptions options;
  options.capacity_bytes = 16 * kMiB;
  options.address_space_factor = 2;
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu,
                            PoolOnCpu::Create(driver_options, options));
  Pool& pool = on_cpu->pool();
  // Mappings of small blocks take up all addresses.
  for (const uint64_t bytes : {256 * kKiB, 60 * kKiB, 300 * kKiB}) {
    std::vector<void*> ptrs;
    for (int i = 0; i < 40; ++i) {
      const absl::StatusOr<void*> ptr = pool.Allocate(bytes);
      if (!ptr.ok()) break;
      ptrs.push_back(*ptr);
    }
    for (void* ptr : ptrs) FIRN_ASSERT_OK(pool.Free(ptr));
  }
  FIRN_ASSERT_OK_AND_ASSIGN(void* all, pool.Allocate(16 * kMiB));
  FIRN_ASSERT_OK(pool.Free(all));
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(PoolTest, AlignedBlocksLeaveNoAddressesBehind) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(128 * kMiB));
  AllocateOptions options;
  options.alignment_bytes = 512 * kMiB;
  for (int i = 0; i < 50; ++i) {
    SCOPED_TRACE(i);
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr,
                              on_cpu->pool().Allocate(3 * kMiB, options));
    EXPECT_EQ(AddressOf(ptr) % options.alignment_bytes, 0u);
    FIRN_ASSERT_OK(on_cpu->pool().Free(ptr));
  }
  FIRN_EXPECT_OK(on_cpu->pool().CheckInvariants());
}

TEST(PoolTest, TrimGivesUnusedGranulesBackAndKeepsLiveOnes) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Real(64 * kMiB));
  Pool& pool = on_cpu->pool();
  FIRN_ASSERT_OK_AND_ASSIGN(void* kept, pool.Allocate(5 * kMiB));
  Fill({kept, 5 * kMiB, 5});
  FIRN_ASSERT_OK_AND_ASSIGN(void* large, pool.Allocate(40 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* small, pool.Allocate(4 * kKiB));
  FIRN_EXPECT_OK(pool.Free(large));
  FIRN_EXPECT_OK(pool.Free(small));
  EXPECT_EQ(pool.GetStats().held_bytes, 46 * kMiB);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t some, pool.Trim(20 * kMiB));
  EXPECT_EQ(some, 26 * kMiB);
  EXPECT_EQ(pool.GetStats().held_bytes, 20 * kMiB);
  FIRN_EXPECT_OK(pool.CheckInvariants());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t rest, pool.Trim());
  EXPECT_EQ(rest, 14 * kMiB);
  EXPECT_EQ(pool.GetStats().held_bytes, 6 * kMiB);
  EXPECT_TRUE(IsIntact({kept, 5 * kMiB, 5}));
  FIRN_EXPECT_OK(pool.CheckInvariants());
  FIRN_ASSERT_OK_AND_ASSIGN(large, pool.Allocate(40 * kMiB));
  Fill({large, 40 * kMiB, 6});
  EXPECT_TRUE(IsIntact({kept, 5 * kMiB, 5}));
}

TEST(PoolTest, NothingIsHeldAfterDestruction) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Real(64 * kMiB));
  size_t free_before = 0;
  size_t total = 0;
  ASSERT_EQ(on_cpu->cpu().MemGetInfo(&free_before, &total),
            DriverResult::kSuccess);
  for (const uint64_t bytes : {4 * kKiB, 600 * kKiB, 9 * kMiB}) {
    FIRN_ASSERT_OK(on_cpu->pool().Allocate(bytes));
  }
  on_cpu->DestroyPool();
  size_t free_after = 0;
  ASSERT_EQ(on_cpu->cpu().MemGetInfo(&free_after, &total),
            DriverResult::kSuccess);
  EXPECT_EQ(free_after, free_before);
}

TEST(PoolTest, AnEightyGibibyteDeviceFitsIntoAnyProcess) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(80 * kGiB));
  Pool& pool = on_cpu->pool();
  uint64_t live = 0;
  while (true) {
    const uint64_t bytes = live % 3 == 0 ? 97 * kMiB : 512 * kKiB;
    if (!pool.Allocate(bytes).ok()) break;
    live += bytes;
  }
  EXPECT_GT(live, 79 * kGiB);
}

TEST(PoolTest, RandomWorkKeepsContentsAndInvariants) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    FIRN_ASSERT_OK_AND_ASSIGN(
        auto on_cpu, PoolOnCpu::Real(48 * kMiB, /*move_on_failure=*/true));
    Pool& pool = on_cpu->pool();
    std::mt19937_64 random(seed);
    std::vector<FilledBlock> blocks;
    for (int step = 0; step < 1500; ++step) {
      const uint64_t dice = random() % 100;
      if (dice < 55) {
        // Log-uniform from 1 byte to 8 MiB.
        const uint64_t bytes = 1 + random() % (uint64_t{1} << (random() % 24));
        const absl::StatusOr<void*> ptr = pool.Allocate(bytes);
        if (ptr.ok()) {
          blocks.push_back({*ptr, bytes, random()});
          Fill(blocks.back());
        } else {
          ASSERT_THAT(ptr, StatusIs(absl::StatusCode::kResourceExhausted));
        }
      } else if (dice < 97 && !blocks.empty()) {
        const size_t i = random() % blocks.size();
        ASSERT_TRUE(IsIntact(blocks[i]));
        FIRN_ASSERT_OK(pool.Free(blocks[i].ptr));
        blocks[i] = blocks.back();
        blocks.pop_back();
      } else if (dice == 97) {
        FIRN_ASSERT_OK(pool.Compact());
        ASSERT_EQ(CountDamaged(blocks), 0u);
      } else if (dice == 98) {
        FIRN_ASSERT_OK(pool.Trim(random() % (48 * kMiB)));
      } else {
        FIRN_ASSERT_OK(pool.CheckInvariants());
      }
    }
    EXPECT_EQ(CountDamaged(blocks), 0u);
    for (const FilledBlock& block : blocks) {
      FIRN_ASSERT_OK(pool.Free(block.ptr));
    }
    FIRN_ASSERT_OK(pool.CheckInvariants());
    EXPECT_EQ(pool.GetStats().live_bytes, 0u);
    EXPECT_EQ(pool.GetStats().used_bytes, 0u);
    FIRN_ASSERT_OK(pool.Trim());
    EXPECT_EQ(pool.GetStats().held_bytes, 0u);
    FIRN_ASSERT_OK(pool.CheckInvariants());
  }
}

}  // namespace
}  // namespace firn
