// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Figures by tag.

#include "firn/core/tags.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
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
using ::testing::HasSubstr;

class TagsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, PoolOnCpu::Ghost(64 * kMiB));
  }

  Pool& pool() { return on_cpu_->pool(); }

  Tag MustRegister(absl::string_view name) {
    const absl::StatusOr<Tag> tag = pool().RegisterTag(name);
    FIRN_EXPECT_OK(tag.status());
    return tag.value_or(Tag::kUntagged);
  }

  absl::StatusOr<void*> Allocate(uint64_t bytes, Tag tag,
                                 StreamHandle stream = nullptr) {
    AllocateOptions options;
    options.tag = tag;
    options.stream = stream;
    return pool().Allocate(bytes, options);
  }

  TagStats StatsOf(Tag tag) {
    const std::vector<TagStats> stats = pool().GetTagStats();
    EXPECT_GT(stats.size(), static_cast<size_t>(tag));
    return stats[static_cast<size_t>(tag)];
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_F(TagsTest, EachTagHasFiguresOfItsOwn) {
  const Tag weights = MustRegister("weights");
  const Tag cache = MustRegister("cache");
  FIRN_ASSERT_OK_AND_ASSIGN(void* first, Allocate(kKiB, weights));
  FIRN_ASSERT_OK(Allocate(3 * kMiB, weights).status());
  FIRN_ASSERT_OK(Allocate(100 * kKiB, cache).status());
  FIRN_ASSERT_OK(Allocate(7 * kKiB, Tag::kUntagged).status());
  FIRN_ASSERT_OK(pool().Free(first));

  const std::vector<TagStats> stats = pool().GetTagStats();
  ASSERT_EQ(stats.size(), 3u);
  EXPECT_EQ(stats[0].name, "untagged");
  EXPECT_EQ(stats[0].live_bytes, 7 * kKiB);
  EXPECT_EQ(stats[0].live_allocations, 1u);
  EXPECT_EQ(stats[0].allocations, 1u);
  EXPECT_FALSE(stats[0].peak_live_bytes.has_value());
  EXPECT_EQ(stats[1].tag, weights);
  EXPECT_EQ(stats[1].name, "weights");
  EXPECT_EQ(stats[1].live_bytes, 3 * kMiB);
  EXPECT_EQ(stats[1].live_allocations, 1u);
  EXPECT_EQ(stats[1].allocations, 2u);
  EXPECT_EQ(stats[1].peak_live_bytes, 3 * kMiB + kKiB);
  EXPECT_EQ(stats[2].name, "cache");
  EXPECT_EQ(stats[2].live_bytes, 100 * kKiB);
}

TEST_F(TagsTest, ANameHasOneTag) {
  const Tag first = MustRegister("activations");
  EXPECT_NE(first, Tag::kUntagged);
  EXPECT_NE(MustRegister("gradients"), first);
  EXPECT_EQ(MustRegister("activations"), first);
  EXPECT_EQ(pool().GetTagStats().size(), 3u);
}

TEST_F(TagsTest, NamesThatCannotBeAreRefused) {
  EXPECT_THAT(pool().RegisterTag("").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  EXPECT_THAT(
      pool().RegisterTag("untagged").status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("untagged")));
  EXPECT_EQ(pool().GetTagStats().size(), 1u);
}

TEST_F(TagsTest, ThereAre255AtMost) {
  for (int i = 0; i < 255; ++i) MustRegister("tag " + std::to_string(i));
  EXPECT_THAT(pool().RegisterTag("one more").status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("255")));
  FIRN_EXPECT_OK(pool().RegisterTag("tag 7").status());
  FIRN_ASSERT_OK(Allocate(kKiB, MustRegister("tag 254")).status());
  EXPECT_EQ(StatsOf(static_cast<Tag>(255)).live_bytes, kKiB);
}

TEST_F(TagsTest, ATagThatWasNotRegisteredIsRefused) {
  MustRegister("one");
  EXPECT_THAT(
      Allocate(kKiB, static_cast<Tag>(2)).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tag: 2")));
  EXPECT_EQ(pool().GetStats().live_allocations, 0u);
  EXPECT_EQ(pool().GetStats().failed_allocations, 0u);
}

TEST_F(TagsTest, AnAllocationThatFailsIsNotCounted) {
  const Tag tag = MustRegister("huge");
  EXPECT_FALSE(Allocate(65 * kMiB, tag).ok());
  EXPECT_EQ(StatsOf(tag).allocations, 0u);
  EXPECT_EQ(StatsOf(tag).peak_live_bytes, 0u);
}

TEST_F(TagsTest, BlocksOfATagNeverPassThroughTheCaches) {
  const Tag tag = MustRegister("small");
  // Of the same class, so that the thread's cache has some to give.
  for (int i = 0; i < 50; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, Allocate(kKiB, Tag::kUntagged));
    FIRN_ASSERT_OK(pool().Free(ptr));
  }
  ASSERT_GT(pool().GetStats().cache_hits, 0u);
  for (int i = 0; i < 50; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, Allocate(kKiB, tag));
    EXPECT_EQ(StatsOf(tag).live_bytes, kKiB);
    FIRN_ASSERT_OK(pool().Free(ptr));
    EXPECT_EQ(StatsOf(tag).live_bytes, 0u);
    EXPECT_THAT(pool().Free(ptr), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(StatsOf(tag).allocations, 50u);
  // The place of a tagged block is used again without the tag.
  for (int i = 0; i < 50; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, Allocate(kKiB, Tag::kUntagged));
    FIRN_ASSERT_OK(pool().Free(ptr));
  }
  EXPECT_EQ(StatsOf(tag).allocations, 50u);
  EXPECT_EQ(StatsOf(tag).live_allocations, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_F(TagsTest, AFreeThatFailsLeavesTheTag) {
  StreamHandle streams[2] = {};
  for (StreamHandle& stream : streams) {
    ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  const Tag tag = MustRegister("streams");
  for (const uint64_t bytes : {kKiB, 300 * kKiB, 5 * kMiB}) {
    uint64_t refused = 0;
    for (uint64_t n = 0;; ++n) {
      SCOPED_TRACE(::testing::Message() << bytes << " bytes, call " << n);
      FIRN_ASSERT_OK_AND_ASSIGN(void* other, Allocate(bytes, tag, streams[0]));
      FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, Allocate(bytes, tag, streams[1]));
      FIRN_ASSERT_OK(pool().Free(other, streams[0]));
      on_cpu_->faults().FailNth(n, DriverResult::kUnknown);
      const absl::Status status = pool().Free(ptr, streams[1]);
      const bool reached = on_cpu_->faults().failures() > 0;
      on_cpu_->faults().Reset();
      EXPECT_EQ(StatsOf(tag).live_bytes, status.ok() ? 0 : bytes);
      EXPECT_EQ(StatsOf(tag).live_allocations, status.ok() ? 0u : 1u);
      if (!status.ok()) {
        ++refused;
        // Once more, and not in the thread's cache.
        FIRN_ASSERT_OK(pool().Free(ptr, streams[1]));
        EXPECT_EQ(StatsOf(tag).live_bytes, 0u);
      }
      if (!reached) break;
    }
    EXPECT_GT(refused, 1u);
  }
  EXPECT_EQ(StatsOf(Tag::kUntagged).live_allocations, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

// Against figures kept beside the pool.
TEST_F(TagsTest, RandomTrafficIsCountedByTag) {
  struct Block {
    void* ptr;
    uint64_t bytes;
    size_t tag;
  };
  for (int i = 0; i < 3; ++i) MustRegister("tag " + std::to_string(i));
  std::mt19937_64 random(5);
  std::vector<Block> blocks;
  std::vector<uint64_t> live(4, 0);
  std::vector<uint64_t> peak(4, 0);
  std::vector<uint64_t> allocations(4, 0);
  for (int step = 0; step < 4000; ++step) {
    if (random() % 2 == 0 || blocks.empty()) {
      Block block;
      block.bytes = 1 + random() % (random() % 10 == 0 ? 5 * kMiB : 50 * kKiB);
      block.tag = random() % 4;
      const absl::StatusOr<void*> ptr =
          Allocate(block.bytes, static_cast<Tag>(block.tag));
      if (!ptr.ok()) continue;
      block.ptr = *ptr;
      blocks.push_back(block);
      live[block.tag] += block.bytes;
      peak[block.tag] = std::max(peak[block.tag], live[block.tag]);
      ++allocations[block.tag];
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      live[blocks.back().tag] -= blocks.back().bytes;
      FIRN_ASSERT_OK(pool().Free(blocks.back().ptr));
      blocks.pop_back();
    }
    if (step % 50 != 0) continue;
    const std::vector<TagStats> stats = pool().GetTagStats();
    for (size_t tag = 0; tag < 4; ++tag) {
      ASSERT_EQ(stats[tag].live_bytes, live[tag]) << step;
      ASSERT_EQ(stats[tag].allocations, allocations[tag]) << step;
      if (tag > 0) {
        ASSERT_EQ(stats[tag].peak_live_bytes, peak[tag]) << step;
      }
    }
  }
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_F(TagsTest, ThreadsMayTagAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      const absl::StatusOr<Tag> tag =
          pool().RegisterTag("thread " + std::to_string(t % 2));
      ASSERT_TRUE(tag.ok());
      for (int i = 0; i < 500; ++i) {
        const absl::StatusOr<void*> tagged = Allocate(4 * kKiB, *tag);
        const absl::StatusOr<void*> other = pool().Allocate(4 * kKiB);
        if (i % 100 != 0) {
          EXPECT_TRUE(tagged.ok() && pool().Free(*tagged).ok());
        }
        EXPECT_TRUE(other.ok() && pool().Free(*other).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t tagged_bytes = 0;
  for (const TagStats& stats : pool().GetTagStats()) {
    if (stats.tag != Tag::kUntagged) tagged_bytes += stats.live_bytes;
  }
  EXPECT_EQ(tagged_bytes, 3 * 5 * 4 * kKiB);
  EXPECT_EQ(StatsOf(Tag::kUntagged).live_bytes, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

}  // namespace
}  // namespace firn
