// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of what lies where.

#include "firn/core/memory_snapshot.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/history_scene.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::HeldStream;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::Replay;

constexpr uint64_t kCapacity = 128 * kMiB;

struct Way {
  CpuSync sync = CpuSync::kLazy;
  bool virtual_memory = true;
};

uint64_t AddressOf(const void* ptr) { return reinterpret_cast<uintptr_t>(ptr); }

// Live blocks by address: requested bytes.
std::map<uint64_t, uint64_t> LiveBlocks(const MemorySnapshot& snapshot) {
  std::map<uint64_t, uint64_t> live;
  for (const MemorySegment& segment : snapshot.segments) {
    for (const MemoryBlock& block : segment.blocks) {
      if (block.state != MemoryBlockState::kAllocated) continue;
      live.emplace(block.address, block.requested_bytes);
    }
  }
  return live;
}

// Blocks are by address and without gaps, and segments do not overlap.
void ExpectWellFormed(const MemorySnapshot& snapshot) {
  uint64_t end = 0;
  for (const MemorySegment& segment : snapshot.segments) {
    EXPECT_GE(segment.address, end);
    end = segment.address;
    for (const MemoryBlock& block : segment.blocks) {
      EXPECT_EQ(block.address, end);
      EXPECT_GT(block.bytes, 0u);
      EXPECT_LE(block.requested_bytes, block.bytes);
      EXPECT_EQ(block.requested_bytes == 0,
                block.state == MemoryBlockState::kInactive);
      end += block.bytes;
    }
    EXPECT_EQ(end, segment.address + segment.bytes);
  }
}

const MemoryBlock* FindBlock(const MemorySnapshot& snapshot, const void* ptr) {
  for (const MemorySegment& segment : snapshot.segments) {
    for (const MemoryBlock& block : segment.blocks) {
      if (block.address == AddressOf(ptr)) return &block;
    }
  }
  return nullptr;
}

class MemorySnapshotTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    CpuDriverOptions driver;
    driver.sync = GetParam().sync;
    driver.virtual_memory = GetParam().virtual_memory;
    driver.device_bytes = 2 * kCapacity;
    PoolOptions options;
    options.capacity_bytes = kCapacity;
    options.history_entries = 1 << 16;
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, PoolOnCpu::Create(driver, options));
  }
  Pool& pool() { return on_cpu_->pool(); }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_P(MemorySnapshotTest, AnEmptyPoolHasNoSegment) {
  const MemorySnapshot snapshot = pool().TakeMemorySnapshot();
  EXPECT_TRUE(snapshot.segments.empty());
  ASSERT_EQ(snapshot.tag_names.size(), 1u);
  EXPECT_EQ(snapshot.tag_names[0], "untagged");
}

TEST_P(MemorySnapshotTest, BlocksHaveTheirSizesTagsAndStreams) {
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool().RegisterTag("weights"));
  HeldStream stream(&on_cpu_->cpu());
  AllocateOptions options;
  options.tag = tag;
  options.stream = stream.stream();
  FIRN_ASSERT_OK_AND_ASSIGN(void* const large,
                            pool().Allocate(5 * kMiB + 1, options));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const small, pool().Allocate(1000));
  const MemorySnapshot snapshot = pool().TakeMemorySnapshot();
  ExpectWellFormed(snapshot);
  EXPECT_EQ(snapshot.tag_names.size(), 2u);
  EXPECT_EQ(snapshot.granule_bytes, pool().GetStats().granule_bytes);
  const MemoryBlock* const found = FindBlock(snapshot, large);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->state, MemoryBlockState::kAllocated);
  EXPECT_EQ(found->requested_bytes, 5 * kMiB + 1);
  EXPECT_EQ(found->bytes, 5 * kMiB + 512);
  EXPECT_EQ(found->tag, tag);
  EXPECT_EQ(found->stream, stream.stream());
  const MemoryBlock* const other = FindBlock(snapshot, small);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->requested_bytes, 1000u);
  EXPECT_EQ(other->bytes, 1024u);
  EXPECT_EQ(other->tag, Tag::kUntagged);
  EXPECT_EQ(other->stream, StreamHandle{nullptr});
  FIRN_EXPECT_OK(pool().Free(large, stream.stream()));
}

TEST_P(MemorySnapshotTest, WhatWaitsForAStreamIsPending) {
  HeldStream held(&on_cpu_->cpu());
  AllocateOptions options;
  options.stream = held.stream();
  std::vector<void*> blocks;
  FIRN_ASSERT_OK_AND_ASSIGN(void* const first, pool().Allocate(kKiB));
  for (const uint64_t bytes : {4 * kKiB, 5 * kMiB}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(bytes, options));
    blocks.push_back(ptr);
  }
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  for (void* const ptr : blocks) {
    FIRN_ASSERT_OK(pool().Free(ptr, held.stream()));
  }
  const MemorySnapshot snapshot = pool().TakeMemorySnapshot();
  ExpectWellFormed(snapshot);
  const MemoryBlock* const large = FindBlock(snapshot, blocks[1]);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(large->state, MemoryBlockState::kPendingFree);
  EXPECT_EQ(large->bytes, 5 * kMiB);
  EXPECT_EQ(LiveBlocks(snapshot).size(), 1u);
  held.Release();
  FIRN_EXPECT_OK(pool().Free(first));
}

TEST_P(MemorySnapshotTest, EndsWhereAReplayOfTheHistoryEnds) {
  std::mt19937_64 random(11);
  std::vector<void*> live;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 5 < 3) {
      const uint64_t bytes = random() % 16 == 0 ? 1 + random() % (7 * kMiB)
                                                : 1 + random() % (40 * kKiB);
      const absl::StatusOr<void*> ptr = pool().Allocate(bytes);
      if (ptr.ok()) live.push_back(*ptr);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      FIRN_ASSERT_OK(pool().Free(live.back()));
      live.pop_back();
    }
    if (i % 1000 == 999 && GetParam().virtual_memory) {
      FIRN_ASSERT_OK(pool().Compact().status());
    }
    if (i % 500 != 0) continue;
    const MemorySnapshot snapshot = pool().TakeMemorySnapshot();
    ExpectWellFormed(snapshot);
    ASSERT_EQ(snapshot.history.overwritten, 0u);
    EXPECT_EQ(LiveBlocks(snapshot), Replay(snapshot.history).live);
    const PoolStats stats = pool().GetStats();
    uint64_t segment_bytes = 0;
    for (const MemorySegment& segment : snapshot.segments) {
      segment_bytes += segment.bytes;
    }
    EXPECT_EQ(segment_bytes, GetParam().virtual_memory
                                 ? stats.mapped_vgs * stats.granule_bytes
                                 : stats.held_bytes);
  }
}

TEST_P(MemorySnapshotTest, IsWellFormedWhileOthersGoOn) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    threads.emplace_back([this, seed, &stop] {
      std::mt19937_64 random(seed);
      std::vector<void*> live;
      while (!stop.load()) {
        const absl::StatusOr<void*> ptr =
            pool().Allocate(random() % 16 == 0 ? 1 + random() % (5 * kMiB)
                                               : 1 + random() % (32 * kKiB));
        if (ptr.ok()) live.push_back(*ptr);
        if (live.size() > 1000 || !ptr.ok()) {
          for (void* const block : live) FIRN_EXPECT_OK(pool().Free(block));
          live.clear();
        }
      }
      for (void* const block : live) FIRN_EXPECT_OK(pool().Free(block));
    });
  }
  for (int i = 0; i < 50; ++i) ExpectWellFormed(pool().TakeMemorySnapshot());
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_TRUE(LiveBlocks(pool().TakeMemorySnapshot()).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Ways, MemorySnapshotTest,
    ::testing::Values(Way{CpuSync::kLazy, true}, Way{CpuSync::kDraining, true},
                      Way{CpuSync::kLazy, false}),
    [](const ::testing::TestParamInfo<Way>& info) {
      return std::string(info.param.virtual_memory ? "" : "Fixed") +
             (info.param.sync == CpuSync::kLazy ? "Lazy" : "Draining");
    });

TEST(MemorySnapshotOfDomainsTest, SegmentsAreOfOneDomain) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(64 * kMiB));
  Pool& pool = on_cpu->pool();
  DomainOptions domain_options;
  domain_options.name = "tenant";
  FIRN_ASSERT_OK_AND_ASSIGN(Domain tenant, pool.CreateDomain(domain_options));
  AllocateOptions options;
  options.domain = tenant.id();
  FIRN_ASSERT_OK_AND_ASSIGN(void* const own, pool.Allocate(4 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const theirs,
                            pool.Allocate(4 * kMiB, options));
  const MemorySnapshot snapshot = pool.TakeMemorySnapshot();
  ExpectWellFormed(snapshot);
  for (const MemorySegment& segment : snapshot.segments) {
    for (const MemoryBlock& block : segment.blocks) {
      if (block.address == AddressOf(own)) {
        EXPECT_EQ(segment.domain, DomainId::kDefault);
      }
      if (block.address == AddressOf(theirs)) {
        EXPECT_EQ(segment.domain, tenant.id());
      }
    }
  }
  EXPECT_EQ(LiveBlocks(snapshot).size(), 2u);
}

}  // namespace
}  // namespace firn
