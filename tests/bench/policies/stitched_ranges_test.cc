// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/stitched_ranges.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;

class StitchedRangesTest : public ::testing::Test {
 protected:
  uint64_t unmaps() const { return ledger_.Report(0, 1).driver_calls.unmap; }

  // Stitches, and frees the chunks, which must be adjacent, and the range.
  StitchedRanges::Range StitchAndGive(ChunkRun run) {
    std::vector<uint64_t> chunks;
    for (uint64_t i = 0; i < run.chunks; ++i) chunks.push_back(run.first + i);
    const StitchedRanges::Range range = ranges_.Stitch(chunks, 0);
    ranges_.Give(range);
    ranges_.ChunksGiven(run);
    return range;
  }

  DriverLedger ledger_{CostProfile::kNone};
  StitchedRanges ranges_{&ledger_};
};

TEST_F(StitchedRangesTest, StitchingMapsEachChunkAgain) {
  const StitchedRanges::Range range = ranges_.Stitch({4, 1, 9}, 0);
  EXPECT_THAT(ranges_.chunks(range), ElementsAre(4, 1, 9));
  EXPECT_EQ(ranges_.mapped_chunks(), 3u);
  const DriverCallCounts calls = ledger_.Report(0, 1).driver_calls;
  EXPECT_EQ(calls.map, 3u);
  EXPECT_EQ(calls.set_access, 1u);
  EXPECT_EQ(calls.create, 0u);
}

TEST_F(StitchedRangesTest, ARangeIsReadyOnceAllItsChunksAreFree) {
  const StitchedRanges::Range range = ranges_.Stitch({4, 5, 9}, 0);
  ranges_.Give(range);
  ranges_.ChunksGiven({4, 2});
  EXPECT_FALSE(ranges_.BestFit(3, 3, 0).has_value());
  ranges_.ChunksGiven({9, 1});
  EXPECT_EQ(ranges_.BestFit(3, 3, 0), range);
  EXPECT_FALSE(ranges_.BestFit(3, 3, 1).has_value());
  EXPECT_FALSE(ranges_.BestFit(1, 2, 0).has_value());
  EXPECT_FALSE(ranges_.BestFit(4, 9, 0).has_value());
  ranges_.ChunksTaken({5, 1});
  EXPECT_FALSE(ranges_.BestFit(3, 3, 0).has_value());
}

TEST_F(StitchedRangesTest, AChunkCountsForEveryRangeOverIt) {
  const StitchedRanges::Range wide = StitchAndGive({0, 4});
  ranges_.ChunksTaken({1, 2});
  const StitchedRanges::Range narrow = StitchAndGive({1, 2});
  EXPECT_EQ(ranges_.BestFit(2, 4, 0), narrow);
  EXPECT_EQ(ranges_.BestFit(3, 4, 0), wide);
  ranges_.ChunksTaken({1, 1});
  EXPECT_FALSE(ranges_.BestFit(2, 4, 0).has_value());
  ranges_.ChunksGiven({1, 1});
  EXPECT_EQ(ranges_.BestFit(2, 4, 0), narrow);
}

TEST_F(StitchedRangesTest, TheRangesUsedLongestAgoAreUnmappedFirst) {
  const StitchedRanges::Range a = StitchAndGive({0, 2});
  const StitchedRanges::Range b = StitchAndGive({2, 3});
  StitchAndGive({5, 4});
  // `a` is used once more.
  ranges_.Use(a, 2);
  ranges_.ChunksTaken({0, 2});
  ranges_.Give(a);
  ranges_.ChunksGiven({0, 2});
  EXPECT_EQ(ranges_.BestFit(3, 3, 0), b);
  ranges_.ShrinkTo(8);
  EXPECT_FALSE(ranges_.BestFit(3, 3, 0).has_value());
  EXPECT_EQ(ranges_.mapped_chunks(), 6u);
  EXPECT_EQ(unmaps(), 3u);
  ranges_.ShrinkTo(2);
  EXPECT_EQ(ranges_.BestFit(1, 9, 0), a);
  EXPECT_EQ(unmaps(), 7u);
  EXPECT_EQ(ranges_.count(), 1u);
}

TEST_F(StitchedRangesTest, ARangeInUseIsNotUnmapped) {
  ranges_.Stitch({0, 1, 2}, 0);
  ranges_.ShrinkTo(0);
  EXPECT_EQ(ranges_.mapped_chunks(), 3u);
}

TEST_F(StitchedRangesTest, AnEndedChunkEndsTheFreeRangesOverIt) {
  StitchAndGive({0, 3});
  const StitchedRanges::Range kept = StitchAndGive({3, 2});
  ranges_.ChunksEnded({2, 1});
  EXPECT_EQ(ranges_.BestFit(1, 9, 0), kept);
  EXPECT_EQ(ranges_.mapped_chunks(), 2u);
  EXPECT_EQ(unmaps(), 3u);
}

TEST_F(StitchedRangesTest, AnEndedChunkCutsOffTheUnusedTailOfARangeInUse) {
  const StitchedRanges::Range range = StitchAndGive({0, 5});
  ranges_.Use(range, 3);
  ranges_.ChunksTaken({0, 3});
  ranges_.ChunksEnded({4, 1});
  EXPECT_THAT(ranges_.chunks(range), ElementsAre(0, 1, 2));
  EXPECT_EQ(unmaps(), 2u);
  ranges_.Give(range);
  ranges_.ChunksGiven({0, 3});
  EXPECT_EQ(ranges_.BestFit(3, 3, 0), range);
}

}  // namespace
}  // namespace firn::bench
