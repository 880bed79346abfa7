// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/stitching_policy.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kChunk = 2 * kMiB;

PolicyOptions Options(uint64_t capacity_chunks,
                      CostProfile cost = CostProfile::kA100) {
  PolicyOptions options;
  options.capacity_bytes = capacity_chunks * kChunk;
  options.cost = cost;
  return options;
}

uint64_t Take(StitchingPolicy* policy, uint64_t chunks, uint32_t stream = 0) {
  const absl::StatusOr<uint64_t> address =
      policy->Allocate(chunks * kChunk, stream);
  EXPECT_THAT(address, ::firn::testing::IsOk());
  return address.ok() ? *address : ~uint64_t{0};
}

// Chunks 0 and 1, and 3 and 4 are free, 2 and 5 live.
struct TwoHoles {
  explicit TwoHoles(StitchingPolicy* policy) {
    low = Take(policy, 2);
    Take(policy, 1);
    high = Take(policy, 2);
    Take(policy, 1);
    FIRN_EXPECT_OK(policy->Free(low, 0));
    FIRN_EXPECT_OK(policy->Free(high, 0));
  }

  uint64_t low = 0;
  uint64_t high = 0;
};

uint64_t Calls(StitchingPolicy* policy) {
  const DriverCallCounts calls = policy->Report().driver_calls;
  return calls.create + calls.map + calls.set_access + calls.unmap +
         calls.release;
}

TEST(StitchingPolicyTest, RequestsAreRoundedToWholeChunks) {
  StitchingPolicy policy(Options(32));
  FIRN_ASSERT_OK(policy.Allocate(kMiB + 1, 0));
  EXPECT_EQ(policy.usage().held_bytes, kChunk);
  FIRN_ASSERT_OK(policy.Allocate(kChunk + 1, 0));
  EXPECT_EQ(policy.usage().held_bytes, 3 * kChunk);
}

TEST(StitchingPolicyTest, SmallRequestsShareSegmentsOfTheSmallPool) {
  StitchingPolicy policy(Options(32));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(kMiB, 0));
  EXPECT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(first + kMiB));
  EXPECT_EQ(policy.usage().held_bytes, kChunk);
  EXPECT_THAT(policy.ChunksOf(first), IsEmpty());
  FIRN_ASSERT_OK(policy.Free(first, 0));
  EXPECT_EQ(policy.usage().used_bytes, kChunk);
  FIRN_ASSERT_OK(policy.Free(first + kMiB, 0));
  EXPECT_EQ(policy.usage().used_bytes, 0u);
}

TEST(StitchingPolicyTest, ExactAFreeBlockOfTheSameLengthIsTaken) {
  StitchingPolicy policy(Options(32));
  const uint64_t block = Take(&policy, 4);
  const uint64_t larger = Take(&policy, 5);
  FIRN_ASSERT_OK(policy.Free(larger, 0));
  FIRN_ASSERT_OK(policy.Free(block, 0));
  const uint64_t calls = Calls(&policy);
  EXPECT_EQ(Take(&policy, 4), block);
  EXPECT_EQ(Calls(&policy), calls);
}

TEST(StitchingPolicyTest, SingleTheSmallestLargerBlockIsSplitForNothing) {
  StitchingPolicy policy(Options(32));
  const uint64_t largest = Take(&policy, 8);
  const uint64_t larger = Take(&policy, 4);
  FIRN_ASSERT_OK(policy.Free(largest, 0));
  FIRN_ASSERT_OK(policy.Free(larger, 0));
  const uint64_t calls = Calls(&policy);
  EXPECT_EQ(Take(&policy, 3), larger);
  EXPECT_EQ(Take(&policy, 1), larger + 3 * kChunk);
  EXPECT_EQ(Take(&policy, 1), largest);
  EXPECT_EQ(Calls(&policy), calls);
  EXPECT_EQ(policy.usage().held_bytes, 12 * kChunk);
  EXPECT_EQ(policy.usage().used_bytes, 5 * kChunk);
}

TEST(StitchingPolicyTest, MultipleFreeBlocksAreStitchedFromTheLargestDown) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  const DriverCallCounts before = policy.Report().driver_calls;
  const uint64_t block = Take(&policy, 4);
  EXPECT_THAT(policy.ChunksOf(block), ElementsAre(3, 4, 0, 1));
  const DriverCallCounts after = policy.Report().driver_calls;
  EXPECT_EQ(after.create, before.create);
  EXPECT_EQ(after.map, before.map + 4);
  EXPECT_EQ(after.set_access, before.set_access + 1);
  EXPECT_EQ(after.unmap, before.unmap);
  EXPECT_EQ(policy.usage().held_bytes, 6 * kChunk);
  EXPECT_EQ(policy.usage().used_bytes, 6 * kChunk);
  EXPECT_EQ(policy.usage().mapped_vgs, 10u);
}

TEST(StitchingPolicyTest, TheLastBlockOfAStitchedOneIsSplit) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 3)), ElementsAre(3, 4, 0));
  EXPECT_EQ(policy.usage().used_bytes, 5 * kChunk);
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 1)), ElementsAre(1));
  EXPECT_EQ(policy.usage().held_bytes, 6 * kChunk);
}

TEST(StitchingPolicyTest, NewMemoryIsOnlyWhatFreeBlocksLack) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 6)), ElementsAre(3, 4, 0, 1, 6, 7));
  EXPECT_EQ(policy.usage().held_bytes, 8 * kChunk);
}

TEST(StitchingPolicyTest, WithoutTopUpNewMemoryIsTheWholeRequest) {
  StitchingOptions stitching;
  stitching.tops_up = false;
  StitchingPolicy policy(Options(32), stitching);
  TwoHoles holes(&policy);
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 6)),
              ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(policy.usage().held_bytes, 12 * kChunk);
}

TEST(StitchingPolicyTest, BelowTheFragmentLimitNothingIsStitched) {
  StitchingOptions stitching;
  stitching.least_stitched_bytes = 4 * kChunk;
  StitchingPolicy policy(Options(32), stitching);
  TwoHoles holes(&policy);
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 3)), ElementsAre(6, 7, 8));
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 4)), ElementsAre(3, 4, 0, 1));
}

TEST(StitchingPolicyTest, AFreedStitchedBlockFreesItsPrimitiveBlocks) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  const uint64_t block = Take(&policy, 4);
  FIRN_ASSERT_OK(policy.Free(block, 0));
  EXPECT_EQ(policy.usage().used_bytes, 2 * kChunk);
  EXPECT_EQ(Take(&policy, 2), holes.low);
  EXPECT_EQ(Take(&policy, 2), holes.high);
}

TEST(StitchingPolicyTest, AFreedStitchedBlockServesTheNextRequestOfItsLength) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  const uint64_t block = Take(&policy, 4);
  FIRN_ASSERT_OK(policy.Free(block, 0));
  const uint64_t calls = Calls(&policy);
  EXPECT_EQ(Take(&policy, 4), block);
  EXPECT_EQ(Calls(&policy), calls);
  EXPECT_EQ(policy.usage().used_bytes, 6 * kChunk);
  EXPECT_EQ(policy.stitched_ranges(), 1u);
}

TEST(StitchingPolicyTest, AnExactStitchedBlockSparesALargerOneTheSplit) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  const uint64_t block = Take(&policy, 4);
  const uint64_t larger = Take(&policy, 5);
  FIRN_ASSERT_OK(policy.Free(block, 0));
  FIRN_ASSERT_OK(policy.Free(larger, 0));
  EXPECT_EQ(Take(&policy, 4), block);
  EXPECT_EQ(Take(&policy, 5), larger);
}

TEST(StitchingPolicyTest, APrimitiveBlockIsActiveWhileAnyBlockOverItIs) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  const uint64_t stitched = Take(&policy, 4);
  // Nothing is free: not even below the stitched block.
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 2)), ElementsAre(6, 7));
  FIRN_ASSERT_OK(policy.Free(stitched, 0));
  // One of its primitive blocks is taken by itself: the stitched one must not
  // be used, only what is left below it.
  ASSERT_EQ(Take(&policy, 2), holes.low);
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 4)), ElementsAre(3, 4, 8, 9));
}

TEST(StitchingPolicyTest, ALargerStitchedBlockServesWithItsFirstChunks) {
  StitchingPolicy policy(Options(32));
  TwoHoles holes(&policy);
  const uint64_t stitched = Take(&policy, 4);
  FIRN_ASSERT_OK(policy.Free(stitched, 0));
  const uint64_t calls = Calls(&policy);
  EXPECT_EQ(Take(&policy, 3), stitched);
  EXPECT_THAT(policy.ChunksOf(stitched), ElementsAre(3, 4, 0));
  EXPECT_EQ(policy.usage().used_bytes, 5 * kChunk);
  // The chunk it does not use serves another.
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 1)), ElementsAre(1));
  EXPECT_EQ(Calls(&policy), calls);
  FIRN_ASSERT_OK(policy.Free(stitched, 0));
  EXPECT_EQ(policy.usage().used_bytes, 3 * kChunk);
}

TEST(StitchingPolicyTest, TheReuseLimitKeepsLongStitchedBlocks) {
  StitchingOptions stitching;
  stitching.reuse_limit = 1;
  StitchingPolicy policy(Options(32), stitching);
  TwoHoles holes(&policy);
  const uint64_t stitched = Take(&policy, 4);
  FIRN_ASSERT_OK(policy.Free(stitched, 0));
  EXPECT_NE(Take(&policy, 3), stitched);
  EXPECT_EQ(policy.stitched_ranges(), 2u);
  EXPECT_EQ(policy.usage().mapped_vgs, 6u + 4u + 3u);
}

TEST(StitchingPolicyTest, TheStitchedRangesUsedLongestAgoAreUnmapped) {
  StitchingOptions stitching;
  stitching.reuse_limit = 1;
  stitching.most_stitched_chunks = 6;
  StitchingPolicy policy(Options(32), stitching);
  TwoHoles holes(&policy);
  FIRN_ASSERT_OK(policy.Free(Take(&policy, 4), 0));
  EXPECT_EQ(policy.usage().mapped_vgs, 6u + 4u);
  Take(&policy, 3);
  EXPECT_EQ(policy.usage().mapped_vgs, 6u + 3u);
  EXPECT_EQ(policy.stitched_ranges(), 1u);
  EXPECT_EQ(policy.Report().driver_calls.unmap, 4u);
  EXPECT_EQ(policy.Report().driver_calls.release, 0u);
}

TEST(StitchingPolicyTest, ASmallDeviceHasAsManyStitchedRangesAsItsSizeAllows) {
  constexpr uint64_t kChunks = 16;
  StitchingPolicy policy(Options(kChunks));
  std::vector<uint64_t> blocks;
  uint64_t most_mapped = 0;
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    if (blocks.empty() || random() % 2 == 0) {
      const absl::StatusOr<uint64_t> block =
          policy.Allocate((1 + random() % 5) * kChunk, 0);
      if (block.ok()) blocks.push_back(*block);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      FIRN_ASSERT_OK(policy.Free(blocks.back(), 0));
      blocks.pop_back();
    }
    most_mapped = std::max(most_mapped, policy.usage().mapped_vgs);
  }
  // 12.5 times its chunks by stitched ranges, one that is in use, and once each
  // by its own block.
  EXPECT_LE(most_mapped, kChunks * 25 / 2 + kChunks + kChunks);
  EXPECT_GT(most_mapped, kChunks * 25 / 4);
}

TEST(StitchingPolicyTest, FreeChunksServeTheirStreamAlone) {
  StitchingPolicy policy(Options(32));
  const uint64_t block = Take(&policy, 4, 1);
  FIRN_ASSERT_OK(policy.Free(block, 2));
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 4, 2)), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(Take(&policy, 4, 1), block);
}

TEST(StitchingPolicyTest, AFullDeviceMakesItReleaseWhatOtherStreamsCache) {
  StitchingPolicy policy(Options(8));
  const uint64_t block = Take(&policy, 4, 0);
  FIRN_ASSERT_OK(policy.Free(block, 0));
  // One chunk too many.
  Take(&policy, 5, 1);
  EXPECT_EQ(policy.usage().held_bytes, 8 * kChunk);
  EXPECT_EQ(policy.Report().driver_calls.release, 1u);
  EXPECT_EQ(policy.Report().driver_calls.unmap, 1u);
  EXPECT_THAT(policy.Allocate(4 * kChunk, 1),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // Three chunks of stream 0 are left.
  EXPECT_EQ(Take(&policy, 3, 0), block + kChunk);
}

TEST(StitchingPolicyTest, ReleasingAChunkUnmapsTheFreeRangesOverIt) {
  StitchingPolicy policy(Options(6));
  TwoHoles holes(&policy);
  FIRN_ASSERT_OK(policy.Free(Take(&policy, 4), 0));
  Take(&policy, 1, 1);
  EXPECT_EQ(policy.stitched_ranges(), 0u);
  EXPECT_EQ(policy.usage().mapped_vgs, 6u);
  EXPECT_EQ(policy.usage().held_bytes, 6 * kChunk);
  EXPECT_EQ(policy.Report().driver_calls.release, 1u);
  EXPECT_EQ(policy.Report().driver_calls.unmap, 5u);
}

TEST(StitchingPolicyTest, ReleasingAChunkCutsItOffARangeThatDoesNotUseIt) {
  StitchingPolicy policy(Options(6));
  TwoHoles holes(&policy);
  FIRN_ASSERT_OK(policy.Free(Take(&policy, 4), 0));
  const uint64_t stitched = Take(&policy, 3);
  ASSERT_THAT(policy.ChunksOf(stitched), ElementsAre(3, 4, 0));
  // The only free chunk, 1, is mapped by it, too.
  EXPECT_THAT(policy.ChunksOf(Take(&policy, 1, 1)), ElementsAre(1));
  EXPECT_EQ(policy.usage().mapped_vgs, 6u + 3u);
  FIRN_ASSERT_OK(policy.Free(stitched, 0));
  EXPECT_EQ(Take(&policy, 3), stitched);
  EXPECT_THAT(policy.ChunksOf(stitched), ElementsAre(3, 4, 0));
}

TEST(StitchingPolicyTest, SmallAndLargeBlocksReleaseEachOthersFreeMemory) {
  StitchingPolicy policy(Options(4));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t small, policy.Allocate(1, 0));
  FIRN_ASSERT_OK(policy.Free(small, 0));
  const uint64_t block = Take(&policy, 4);
  EXPECT_EQ(policy.usage().held_bytes, 4 * kChunk);
  EXPECT_THAT(policy.Allocate(1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(block, 0));
  FIRN_ASSERT_OK(policy.Allocate(1, 0));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kChunk);
  EXPECT_EQ(policy.usage().used_bytes, kChunk);
  EXPECT_EQ(policy.Report().driver_calls.release, 2u);
}

TEST(StitchingPolicyTest, ARequestThatCannotBeServedReleasesNothing) {
  StitchingPolicy policy(Options(4));
  FIRN_ASSERT_OK(policy.Free(Take(&policy, 2, 1), 1));
  const uint64_t calls = Calls(&policy);
  EXPECT_THAT(policy.Allocate(5 * kChunk, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Calls(&policy), calls);
  EXPECT_EQ(policy.usage().held_bytes, 2 * kChunk);
}

TEST(StitchingPolicyTest, ChargesEveryCall) {
  StitchingOptions stitching;
  stitching.most_stitched_chunks = 3;
  StitchingPolicy policy(Options(7, CostProfile::kFast), stitching);
  TwoHoles holes(&policy);                           // 4 creations, 6 chunks
  FIRN_ASSERT_OK(policy.Free(Take(&policy, 4), 0));  // stitched
  FIRN_ASSERT_OK(policy.Allocate(1, 0));             // 1 segment
  Take(&policy, 1, 1);  // releases 1 chunk, and the range over it
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 8u);
  EXPECT_EQ(report.driver_calls.map, 12u);
  EXPECT_EQ(report.driver_calls.set_access, 7u);
  EXPECT_EQ(report.driver_calls.unmap, 5u);
  EXPECT_EQ(report.driver_calls.release, 1u);
  // 8 us a create, 1 a map, 20 a set-access and 1 a granule in it, 11.5 an
  // unmap, 8 a release.
  EXPECT_DOUBLE_EQ(report.driver_us_create, 8 * 8);
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   8 * 8 + 12 * 1 + 7 * 20 + 12 * 1 + 5 * 11.5 + 1 * 8);
}

TEST(StitchingPolicyTest, RefusesToFreeWhatIsNoBlock) {
  StitchingPolicy policy(Options(8));
  EXPECT_THAT(policy.Free(0, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  const uint64_t block = Take(&policy, 2);
  EXPECT_THAT(policy.Free(block + kChunk, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK(policy.Free(block, 0));
  EXPECT_THAT(policy.Free(block, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// Physical memory, seen from outside: which chunk is whose.
class RandomStitchingPolicyTest
    : public ::testing::TestWithParam<StitchingOptions> {};

TEST_P(RandomStitchingPolicyTest, NoChunkIsInTwoLiveBlocks) {
  constexpr uint64_t kCapacityChunks = 128;
  StitchingPolicy policy(Options(kCapacityChunks), GetParam());
  struct Block {
    uint64_t address;
    uint64_t bytes;
    uint32_t stream;
    std::vector<uint64_t> chunks;
  };
  std::vector<Block> blocks;
  std::set<uint64_t> addresses;
  std::map<uint64_t, uint32_t> live_chunks;  // stream by chunk
  uint64_t small_blocks = 0;
  uint64_t failed = 0;
  uint64_t most_ranges = 0;
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    if (blocks.empty() || random() % 100 < 52) {
      const auto stream = static_cast<uint32_t>(random() % 2);
      const uint64_t bytes = 1 + random() % (uint64_t{1} << (random() % 27));
      const absl::StatusOr<uint64_t> address = policy.Allocate(bytes, stream);
      if (!address.ok()) {
        ASSERT_THAT(address.status(),
                    StatusIs(absl::StatusCode::kResourceExhausted));
        ++failed;
        continue;
      }
      ASSERT_TRUE(addresses.insert(*address).second);
      Block block{*address, bytes, stream, policy.ChunksOf(*address)};
      if (bytes <= kMiB) {
        ++small_blocks;
      } else {
        ASSERT_EQ(block.chunks.size(), (bytes + kChunk - 1) / kChunk);
      }
      for (const uint64_t chunk : block.chunks) {
        ASSERT_TRUE(live_chunks.emplace(chunk, stream).second) << chunk;
      }
      blocks.push_back(std::move(block));
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block& block = blocks.back();
      // What it was made of has not changed meanwhile.
      ASSERT_EQ(policy.ChunksOf(block.address), block.chunks);
      FIRN_ASSERT_OK(policy.Free(block.address, 0));
      addresses.erase(block.address);
      for (const uint64_t chunk : block.chunks) live_chunks.erase(chunk);
      if (block.bytes <= kMiB) --small_blocks;
      blocks.pop_back();
    }
    most_ranges = std::max(most_ranges, policy.stitched_ranges());
    const PolicyUsage usage = policy.usage();
    const uint64_t small_used = usage.used_bytes - live_chunks.size() * kChunk;
    ASSERT_EQ(small_used == 0, small_blocks == 0);
    ASSERT_LE(small_used, small_blocks * kChunk);
    ASSERT_GE(usage.held_bytes, usage.used_bytes);
    ASSERT_LE(usage.held_bytes, kCapacityChunks * kChunk);
    const DriverCallCounts calls = policy.Report().driver_calls;
    ASSERT_EQ((calls.create - calls.release) * kChunk, usage.held_bytes);
    ASSERT_EQ(calls.map - calls.unmap, usage.mapped_vgs);
  }
  EXPECT_GT(failed, 0u);
  EXPECT_GT(most_ranges, 0u);
  for (const Block& block : blocks) {
    FIRN_ASSERT_OK(policy.Free(block.address, 0));
  }
  EXPECT_EQ(policy.usage().used_bytes, 0u);
  // Another stream gets the whole device: all is released, nothing mapped.
  Take(&policy, kCapacityChunks, 9);
  EXPECT_EQ(policy.usage().mapped_vgs, kCapacityChunks);
  EXPECT_EQ(policy.stitched_ranges(), 0u);
}

const char* OptionsName(
    const ::testing::TestParamInfo<StitchingOptions>& param) {
  constexpr const char* kNames[] = {"Defaults", "FewRanges", "LikeTheOriginal"};
  return kNames[param.index];
}

INSTANTIATE_TEST_SUITE_P(
    Options, RandomStitchingPolicyTest,
    ::testing::Values(StitchingOptions(), StitchingOptions{0, 10, true, 150},
                      StitchingOptions{8 * kMiB, 2, false, 512000}),
    &OptionsName);

}  // namespace
}  // namespace firn::bench
