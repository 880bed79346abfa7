// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement_kind.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGranule = uint64_t{2} << 20;

TEST(PlacementKindTest, EveryKindHasTheNameThatFindsIt) {
  for (const PlacementKind kind :
       {PlacementKind::kFirn, PlacementKind::kFreeList, PlacementKind::kBestFit,
        PlacementKind::kSizeHash, PlacementKind::kSlab, PlacementKind::kBuddy,
        PlacementKind::kTiered}) {
    EXPECT_EQ(PlacementKindFromName(PlacementKindName(kind)), kind)
        << PlacementKindName(kind);
  }
  EXPECT_EQ(PlacementKindName(PlacementKind::kFreeList), "free_list");
  EXPECT_EQ(PlacementKindName(static_cast<PlacementKind>(99)), "unknown");
}

TEST(PlacementKindTest, OtherNamesFindNothing) {
  for (const absl::string_view name : {"", "Firn", "worst_fit", "unknown"}) {
    EXPECT_EQ(PlacementKindFromName(name), std::nullopt) << name;
  }
}

TEST(TierBoundsTest, TheDefaultsAreValidWhateverTheGranule) {
  for (uint64_t granule_bytes = 4096; granule_bytes <= uint64_t{256} << 20;
       granule_bytes *= 2) {
    FIRN_EXPECT_OK(TierBounds{}.Validate(granule_bytes));
  }
}

TEST(TierBoundsTest, SmallBytesAreQuantaAndNoMoreThanLargeBytes) {
  TierBounds bounds;
  for (const uint64_t small_bytes :
       {uint64_t{0}, uint64_t{511}, uint64_t{513}, bounds.large_bytes + 512}) {
    bounds.small_bytes = small_bytes;
    EXPECT_THAT(
        bounds.Validate(kGranule),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("small_bytes")))
        << small_bytes;
  }
  for (const uint64_t small_bytes : {uint64_t{512}, bounds.large_bytes}) {
    bounds.small_bytes = small_bytes;
    FIRN_EXPECT_OK(bounds.Validate(kGranule)) << small_bytes;
  }
}

TEST(TierBoundsTest, LargeBytesAreAPowerOfTwoOfAGranuleOrMore) {
  TierBounds bounds;
  bounds.small_bytes = 512;
  for (const uint64_t large_bytes :
       {uint64_t{0}, kGranule / 2, 3 * kGranule, uint64_t{1} << 47}) {
    bounds.large_bytes = large_bytes;
    EXPECT_THAT(
        bounds.Validate(kGranule),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("large_bytes")))
        << large_bytes;
  }
  for (const uint64_t large_bytes : {kGranule, uint64_t{1} << 46}) {
    bounds.large_bytes = large_bytes;
    FIRN_EXPECT_OK(bounds.Validate(kGranule)) << large_bytes;
  }
}

TEST(TierBoundsTest, TheSmallTierHasAStructureThatExists) {
  TierBounds bounds;
  bounds.small = TierBounds::Small::kSizeHash;
  FIRN_EXPECT_OK(bounds.Validate(kGranule));
  bounds.small = static_cast<TierBounds::Small>(7);
  EXPECT_THAT(bounds.Validate(kGranule),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("small")));
}

}  // namespace
}  // namespace firn::testing
