// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/make_placement.h"

#include <cstdint>
#include <memory>

#include "firn/core/placement_kind.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/placement/extent_matchers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kGranule = uint64_t{2} << 20;

TEST(MakePlacementTest, EveryKindMakesThePlacementOfItsName) {
  for (const PlacementKind kind :
       {PlacementKind::kFreeList, PlacementKind::kBestFit,
        PlacementKind::kSizeHash, PlacementKind::kSlab, PlacementKind::kBuddy,
        PlacementKind::kTiered}) {
    const std::unique_ptr<Placement> placement =
        MakePlacement(kind, TierBounds{}, kGranule);
    ASSERT_NE(placement, nullptr) << PlacementKindName(kind);
    EXPECT_EQ(placement->name(), PlacementKindName(kind));
    EXPECT_THAT(placement->Take(1, 512), IsNoExtent());
  }
}

TEST(MakePlacementTest, FirnsOwnIsNoneOfThem) {
  EXPECT_EQ(MakePlacement(PlacementKind::kFirn, TierBounds{}, kGranule),
            nullptr);
}

}  // namespace
}  // namespace firn::testing
