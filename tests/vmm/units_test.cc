// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/units.h"

#include <cstdint>
#include <limits>
#include <type_traits>

#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

// Kinds of index mix neither with each other nor with plain numbers.
static_assert(!std::is_convertible_v<VgIndex, GranuleId>);
static_assert(!std::is_convertible_v<GranuleId, VgIndex>);
static_assert(!std::is_convertible_v<uint32_t, VgIndex>);
static_assert(!std::is_convertible_v<VgIndex, uint32_t>);
static_assert(!std::is_constructible_v<VgIndex, GranuleId>);

TEST(UnitsTest, AnIndexIsNoneUntilItIsGivenAValue) {
  EXPECT_TRUE(VgIndex().is_none());
  EXPECT_FALSE(VgIndex(0).is_none());
  EXPECT_FALSE(VgIndex(std::numeric_limits<uint32_t>::max() - 1).is_none());
  EXPECT_EQ(VgIndex(), VgIndex());
  EXPECT_NE(VgIndex(), VgIndex(0));
  // None is above every index, so that sorting puts it last.
  EXPECT_LT(VgIndex(1u << 31), VgIndex());
}

TEST(UnitsTest, IndexesCountUpAndDown) {
  EXPECT_EQ(VgIndex(5) + 3, VgIndex(8));
  EXPECT_EQ(VgIndex(5) - 3, VgIndex(2));
  EXPECT_EQ(VgIndex(5) - VgIndex(2), 3u);
  EXPECT_LT(VgIndex(4), VgIndex(5));
  EXPECT_FALSE(VgIndex(5) < VgIndex(5));
  EXPECT_EQ((VgIndex(7) + 1).value(), 8u);
}

TEST(UnitsTest, EqualIndexesHashAlike) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {GranuleId(), GranuleId(0), GranuleId(1), GranuleId(77)}));
}

TEST(UnitsTest, BytesRoundUpToQuanta) {
  EXPECT_EQ(BytesToQuanta(0), 0u);
  EXPECT_EQ(BytesToQuanta(1), 1u);
  EXPECT_EQ(BytesToQuanta(511), 1u);
  EXPECT_EQ(BytesToQuanta(512), 1u);
  EXPECT_EQ(BytesToQuanta(513), 2u);
  // Without overflow at the top.
  EXPECT_EQ(BytesToQuanta(std::numeric_limits<uint64_t>::max()),
            uint64_t{1} << 55);
  EXPECT_EQ(QuantaToBytes(3), 1536u);
  EXPECT_EQ(QuantaToBytes(uint64_t{1} << 40), uint64_t{1} << 49);
}

TEST(UnitsTest, AnIntervalIsAsLongAsItsEndsAreApart) {
  EXPECT_EQ(Extent(3, 10).quanta(), 7u);
  EXPECT_EQ(OffsetInterval().quanta(), 0u);
  EXPECT_TRUE(Extent(1, 2) == Extent(1, 2));
  EXPECT_FALSE(Extent(1, 2) == Extent(1, 3));
  EXPECT_FALSE(Extent(1, 3) == Extent(2, 3));
}

TEST(UnitsTest, ARangeContainsItsGranulesAndNotItsEnd) {
  const VgRange range = Vgs(4, 3);
  EXPECT_EQ(range.end(), VgIndex(7));
  EXPECT_FALSE(range.contains(VgIndex(3)));
  EXPECT_TRUE(range.contains(VgIndex(4)));
  EXPECT_TRUE(range.contains(VgIndex(6)));
  EXPECT_FALSE(range.contains(VgIndex(7)));
  EXPECT_FALSE(range.contains(VgIndex()));
  EXPECT_FALSE(Vgs(4, 0).contains(VgIndex(4)));
  EXPECT_FALSE(Vgs(4, 3) == Vgs(4, 2));
  EXPECT_FALSE(Vgs(4, 3) == Vgs(5, 3));
}

TEST(UnitsTest, ARangeIsWrittenHalfOpen) {
  EXPECT_EQ(ToString(Vgs(4, 3)), "[4, 7)");
}

}  // namespace
}  // namespace firn::testing
