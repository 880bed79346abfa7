// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/free_space.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

// Holes of these quanta beside free granules.
FreeSpace Space(uint32_t quanta_per_granule, const std::vector<uint32_t>& holes,
                uint64_t free_granules) {
  FreeSpace space;
  space.quanta_per_granule = quanta_per_granule;
  space.holes.assign(quanta_per_granule, 0);
  for (const uint32_t length : holes) ++space.holes[length];
  space.free_granules = free_granules;
  return space;
}

// Serves requests one after the other from the pieces themselves until one
// cannot be served.
uint64_t ServeAll(uint32_t quanta_per_granule, std::vector<uint32_t> holes,
                  uint64_t free_granules, uint64_t quanta) {
  for (uint64_t served = 0;; ++served) {
    const uint64_t whole = quanta / quanta_per_granule;
    const uint32_t rest = static_cast<uint32_t>(quanta % quanta_per_granule);
    if (free_granules < whole) return served;
    free_granules -= whole;
    if (rest == 0) continue;
    auto hole =
        std::find_if(holes.begin(), holes.end(),
                     [rest](uint32_t length) { return length >= rest; });
    if (hole == holes.end()) {
      if (free_granules == 0) return served;
      --free_granules;
      hole = holes.insert(holes.end(), quanta_per_granule);
    }
    *hole -= rest;
  }
}

TEST(FreeSpaceTest, NothingIsFreeInAnEmptySnapshot) {
  const FreeSpace space = FindFreeSpace(SnapshotBuilder(64).Build(), 0);
  EXPECT_EQ(space.FreeQuanta(), 0u);
  EXPECT_EQ(space.HoleCount(), 0u);
  EXPECT_EQ(space.LargestHoleQuanta(), 0u);
  EXPECT_EQ(space.UsableQuanta(1), 0u);
  EXPECT_EQ(space.ServableRequests(1), 0u);
}

TEST(FreeSpaceTest, FullGranulesHaveNoHoles) {
  const FreeSpace space =
      FindFreeSpace(SnapshotBuilder(64).FullGranules(5).Build(), 3);
  EXPECT_EQ(space.HoleCount(), 0u);
  EXPECT_EQ(space.FreeQuanta(), 3u * 64);
}

// The virtual granules of a granule, in whatever order, leave holes together:
// [2, 4), [6, 10) and [12, 64) here.
TEST(FreeSpaceTest, HolesAreWhereNoVirtualGranuleIsLive) {
  const FreeSpace space =
      FindFreeSpace(SnapshotBuilder(64)
                        .Granule({{Extent(4, 5), Extent(10, 12)},
                                  {Extent(0, 2), Extent(5, 6)}})
                        .Granule({{Extent(63, 64)}})
                        .Build(),
                    0);
  EXPECT_EQ(space.holes[2], 1u);
  EXPECT_EQ(space.holes[4], 1u);
  EXPECT_EQ(space.holes[52], 1u);
  EXPECT_EQ(space.holes[63], 1u);
  EXPECT_EQ(space.HoleCount(), 4u);
  EXPECT_EQ(space.HoleQuanta(), 2u + 4 + 52 + 63);
  EXPECT_EQ(space.LargestHoleQuanta(), 63u);
}

TEST(FreeSpaceTest, HolesAreThoseOfABitmap) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomSnapshotShape shape;
    shape.granules = 8;
    shape.most_live_percent = 95;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    std::vector<uint64_t> holes(128, 0);
    for (const SnapshotGranule& granule : snapshot.granules) {
      std::vector<bool> live(129, false);
      live[128] = true;
      for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
        for (const OffsetInterval& extent : snapshot.ExtentsOf(vg)) {
          std::fill(live.begin() + extent.lo, live.begin() + extent.hi, true);
        }
      }
      size_t length = 0;
      for (const bool is_live : live) {
        if (is_live && length > 0) ++holes[length];
        length = is_live ? 0 : length + 1;
      }
    }
    const FreeSpace space = FindFreeSpace(snapshot, seed % 4);
    ASSERT_EQ(space.holes, holes) << seed;
    uint64_t live_quanta = 0;
    for (const SnapshotGranule& granule : snapshot.granules) {
      live_quanta += granule.live_quanta;
    }
    ASSERT_EQ(space.FreeQuanta(),
              (snapshot.granules.size() + seed % 4) * 128 - live_quanta);
  }
}

TEST(FreeSpaceTest, RequestsOfUpToAGranuleFitIntoHolesAndGranules) {
  const FreeSpace space = Space(16, {3, 7, 7, 12}, 2);
  EXPECT_EQ(space.ServableRequests(1), 29u + 32);
  EXPECT_EQ(space.ServableRequests(7), 1u + 1 + 1 + 2 * 2);
  EXPECT_EQ(space.ServableRequests(12), 3u);
  EXPECT_EQ(space.ServableRequests(16), 2u);
  EXPECT_EQ(space.UsableQuanta(1), 61u);
  EXPECT_EQ(space.UsableQuanta(4), 58u);
  EXPECT_EQ(space.UsableQuanta(8), 44u);
  EXPECT_EQ(space.UsableQuanta(13), 32u);
  EXPECT_EQ(space.UsableQuanta(16), 32u);
}

TEST(FreeSpaceTest, LargerRequestsTakeGranulesAndAHole) {
  const FreeSpace space = Space(16, {3, 7}, 2);
  // Two granules, then 7 in a hole; for 8 there is none.
  EXPECT_EQ(space.ServableRequests(39), 1u);
  EXPECT_EQ(space.UsableQuanta(39), 39u);
  EXPECT_EQ(space.ServableRequests(40), 0u);
  EXPECT_EQ(space.UsableQuanta(40), 0u);
  EXPECT_EQ(space.ServableRequests(32), 1u);
  EXPECT_EQ(space.UsableQuanta(32), 32u);
  // Its last part may lie in the second granule.
  EXPECT_EQ(space.ServableRequests(24), 1u);
  EXPECT_EQ(space.UsableQuanta(24), 32u);
  EXPECT_EQ(space.ServableRequests(19), 2u);
  EXPECT_EQ(space.ServableRequests(48), 0u);
}

TEST(FreeSpaceTest, AsManyRequestsAreServableAsCanBeServed) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SmallRandom random(seed);
    const uint32_t quanta_per_granule = random.Between(2, 24);
    std::vector<uint32_t> holes(random.Below(8));
    for (uint32_t& hole : holes)
      hole = random.Between(1, quanta_per_granule - 1);
    const uint64_t free_granules = random.Below(6);
    const FreeSpace space = Space(quanta_per_granule, holes, free_granules);
    const uint64_t quanta = random.Between(1, 4 * quanta_per_granule);
    ASSERT_EQ(space.ServableRequests(quanta),
              ServeAll(quanta_per_granule, holes, free_granules, quanta))
        << seed;
    ASSERT_EQ(space.UsableQuanta(quanta) > 0,
              space.ServableRequests(quanta) > 0)
        << seed;
    ASSERT_GE(space.UsableQuanta(quanta),
              space.ServableRequests(quanta) * quanta)
        << seed;
    ASSERT_LE(space.UsableQuanta(quanta), space.FreeQuanta()) << seed;
  }
}

}  // namespace
}  // namespace firn::testing
