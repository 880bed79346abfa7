// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What holds of every placement, whatever its owner does.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "firn/core/placement/make_placement.h"
#include "firn/core/placement/placement.h"
#include "firn/core/placement_kind.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/core/placement/placement_model.h"
#include "tests/support/small_random.h"

namespace firn::testing {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 64 * kKiB;
constexpr uint32_t kGranules = 72;
constexpr uint64_t kSmallBytes = kGranule / 4;
constexpr uint64_t kLargeBytes = 4 * kGranule;

struct Subject {
  std::string name;
  PlacementKind kind = PlacementKind::kFirn;
  TierBounds::Small small = TierBounds::Small::kSlab;
};

void PrintTo(const Subject& subject, std::ostream* stream) {
  *stream << subject.name;
}

class PlacementPropertyTest : public ::testing::TestWithParam<Subject> {
 protected:
  std::unique_ptr<Placement> Make(uint64_t granule_bytes) const {
    TierBounds bounds;
    bounds.small_bytes = kSmallBytes;
    bounds.large_bytes = std::max(kLargeBytes, granule_bytes);
    bounds.small = GetParam().small;
    return MakePlacement(GetParam().kind, bounds, granule_bytes);
  }
  bool IsTiered() const { return GetParam().kind == PlacementKind::kTiered; }
  bool IsBuddy() const { return GetParam().kind == PlacementKind::kBuddy; }
};

uint64_t RandomBytes(SmallRandom* random) {
  switch (random->Below(8)) {
    case 0:
      return 1 + random->Below(512);
    case 1:
    case 2:
      return 1 + random->Below(8 * kKiB);
    case 3:
      return 512 * (1 + random->Below(32));
    case 4:
    case 5:
      return 1 + random->Below(kGranule);
    case 6:
      return kGranule * (1 + random->Below(3));
    default:
      return 1 + random->Below(6 * kGranule);
  }
}

uint64_t RandomAlignment(SmallRandom* random) {
  if (!random->OneIn(4)) return kQuantumBytes;
  return uint64_t{kQuantumBytes} << random->Below(10);  // to four granules
}

// One call of an owner, on the structure and on the map.
void Step(SmallRandom* random, PlacementModel* model) {
  const uint32_t choice = random->Below(100);
  const uint64_t granule = random->Below(kGranules);
  if (choice < 6) {
    const uint64_t count = model->GivableFrom(granule, 1 + random->Below(8));
    if (count > 0) model->Give(granule, count, RandomBytes(random));
  } else if (choice < 11) {
    const uint64_t count = model->OwnFrom(granule, 1 + random->Below(6));
    if (count > 0) model->Withdraw(granule, count);
  } else if (choice < 16) {
    model->GrowAndTake(RandomBytes(random), RandomAlignment(random));
  } else if (choice < 58) {
    model->Take(RandomBytes(random), RandomAlignment(random));
  } else if (model->blocks() > 0) {
    model->Free(random->Below(static_cast<uint32_t>(model->blocks())));
  }
}

TEST_P(PlacementPropertyTest, HandsOutFreeBytesOfItsGranulesAlone) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    const std::unique_ptr<Placement> placement = Make(kGranule);
    PlacementModel model(kGranule, kGranules, placement.get());
    SmallRandom random(seed);
    for (int step = 0; step < 4000; ++step) {
      Step(&random, &model);
      if (HasFailure()) FAIL() << "step " << step;
    }
    EXPECT_GT(model.blocks(), 10u);
  }
}

// Of structures that do not keep sizes apart.
class UndividedPlacementTest : public PlacementPropertyTest {};

TEST_P(UndividedPlacementTest, FindsEveryRangeThatIsLongEnough) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    const std::unique_ptr<Placement> placement = Make(kGranule);
    PlacementModel model(kGranule, kGranules, placement.get());
    SmallRandom random(seed);
    for (int step = 0; step < 3000; ++step) {
      Step(&random, &model);
      if (step % 8 != 0) continue;
      const uint64_t bytes = RandomBytes(&random);
      uint64_t extent_bytes = kQuantumBytes * BytesToQuanta(bytes);
      uint64_t alignment_bytes = kQuantumBytes;
      if (IsBuddy()) {
        extent_bytes = kQuantumBytes;
        while (extent_bytes < bytes) extent_bytes *= 2;
        alignment_bytes = extent_bytes;
      }
      const bool has_room =
          model.LongestFreeBytes(alignment_bytes) >= extent_bytes;
      ASSERT_EQ(model.Take(bytes, kQuantumBytes), has_room)
          << "step " << step << ", " << bytes << " bytes";
      if (has_room) model.Free(model.blocks() - 1);
      if (HasFailure()) FAIL() << "step " << step;
    }
  }
}

TEST_P(PlacementPropertyTest, HasAllOfItsGranulesAgainWhenAllBlocksAreFreed) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    const std::unique_ptr<Placement> placement = Make(kGranule);
    PlacementModel model(kGranule, kGranules, placement.get());
    SmallRandom random(seed);
    for (int round = 0; round < 4; ++round) {
      for (int step = 0; step < 1000; ++step) {
        Step(&random, &model);
        if (HasFailure()) FAIL() << "round " << round << ", step " << step;
      }
      model.FreeAll();
      if (IsTiered()) {
        EXPECT_EQ(model.Drain(1),
                  model.OwnGranulesFor(0, kSmallBytes - 1) * kGranule);
        EXPECT_EQ(model.Drain(kGranule),
                  model.OwnGranulesFor(kSmallBytes, kLargeBytes) * kGranule);
        for (uint64_t count = kGranules; count * kGranule > kLargeBytes;
             --count) {
          model.Drain(count * kGranule);
        }
        // Only runs that are too short for any block of the last tier are left.
        EXPECT_LE(model.LongestFreeBytes(kQuantumBytes), kLargeBytes);
        model.FreeAll();
        continue;
      }
      const uint64_t own_bytes =
          model.OwnGranulesFor(0, ~uint64_t{0}) * kGranule;
      const uint64_t longest_bytes = model.LongestFreeBytes(kQuantumBytes);
      if (longest_bytes > 0 && !IsBuddy()) {
        EXPECT_TRUE(model.Take(longest_bytes, kQuantumBytes));
        model.FreeAll();
      }
      EXPECT_EQ(model.Drain(kGranule), own_bytes);
      model.FreeAll();
      EXPECT_EQ(model.Drain(1), own_bytes);
      model.FreeAll();
    }
  }
}

TEST_P(PlacementPropertyTest, HasNothingWhenAllIsWithdrawn) {
  const std::unique_ptr<Placement> placement = Make(kGranule);
  PlacementModel model(kGranule, kGranules, placement.get());
  SmallRandom random(1);
  for (int step = 0; step < 1000; ++step) Step(&random, &model);
  for (uint64_t granule = 0; granule < kGranules; ++granule) {
    if (model.OwnFrom(granule, 1) == 1) model.Withdraw(granule, 1);
  }
  constexpr uint64_t sizes[] = {1, kGranule / 2, kGranule, 5 * kGranule};
  for (const uint64_t bytes : sizes) EXPECT_FALSE(model.Take(bytes, 512));
  model.FreeAll();
  for (const uint64_t bytes : sizes) EXPECT_FALSE(model.Take(bytes, 512));
  // All of them are as good as new.
  for (const uint64_t bytes : sizes) {
    ASSERT_TRUE(model.GrowAndTake(bytes, 512)) << bytes;
  }
}

TEST_P(PlacementPropertyTest, AFailureCostsNoSearchThroughAllThatIsFree) {
  // Two hundred thousand holes of a quantum; all failures would take minutes if
  // each of them looked at them.
  constexpr uint64_t kLarge = 2048 * kKiB;
  const std::unique_ptr<Placement> placement = Make(kLarge);
  const FreeRange granules{0, 100 * kLarge};
  placement->Give(granules, 1);
  std::vector<FreeRange> extents;
  while (const auto extent = placement->Take(512, 512)) {
    extents.push_back(*extent);
  }
  ASSERT_EQ(extents.size(), granules.bytes / 512);
  for (size_t i = 0; i < extents.size(); i += 2) placement->Free(extents[i]);
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_FALSE(placement->Take(200 * kLarge, 512));
    ASSERT_FALSE(placement->Take(kLarge, 512));
    ASSERT_FALSE(placement->Take(4096, 4096));
    ASSERT_FALSE(placement->Take(uint64_t{1} << 50, 512));
    ASSERT_FALSE(placement->Take(~uint64_t{0}, 512));
    ASSERT_FALSE(placement->Take(512, uint64_t{1} << 62));
  }
  EXPECT_TRUE(placement->Take(512, 512));
}

TEST_P(PlacementPropertyTest, SaysWhatARequestTooLargeForAnythingWouldNeed) {
  const std::unique_ptr<Placement> placement = Make(kGranule);
  for (const uint64_t bytes : {(uint64_t{1} << 47) + 1, ~uint64_t{0}}) {
    const Placement::Growth growth = placement->GrowthFor(bytes, 512);
    EXPECT_GT(growth.bytes, uint64_t{1} << 47);
    EXPECT_EQ(growth.bytes % kGranule, 0u);
  }
}

std::string NameOf(const ::testing::TestParamInfo<Subject>& info) {
  return info.param.name;
}

const Subject kUndivided[] = {
    {"free_list", PlacementKind::kFreeList},
    {"best_fit", PlacementKind::kBestFit},
    {"size_hash", PlacementKind::kSizeHash},
    {"buddy", PlacementKind::kBuddy},
};
const Subject kDivided[] = {
    {"slab", PlacementKind::kSlab},
    {"tiered", PlacementKind::kTiered},
    {"tiered_size_hash", PlacementKind::kTiered, TierBounds::Small::kSizeHash},
};

INSTANTIATE_TEST_SUITE_P(Undivided, PlacementPropertyTest,
                         ::testing::ValuesIn(kUndivided), &NameOf);
INSTANTIATE_TEST_SUITE_P(Divided, PlacementPropertyTest,
                         ::testing::ValuesIn(kDivided), &NameOf);
INSTANTIATE_TEST_SUITE_P(Undivided, UndividedPlacementTest,
                         ::testing::ValuesIn(kUndivided), &NameOf);

}  // namespace
}  // namespace firn::testing
