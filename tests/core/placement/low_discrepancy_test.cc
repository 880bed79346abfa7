// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/low_discrepancy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> First(LowDiscrepancySequence sequence, size_t count,
                            uint32_t choices) {
  std::vector<uint32_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(sequence.Next(choices));
  return values;
}

class LowDiscrepancyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  LowDiscrepancySequence Sequence() const {
    return LowDiscrepancySequence(GetParam());
  }
};

TEST(LowDiscrepancyConstantsTest, TheyAreTheFractionsThatTheyAreNamedAfter) {
  const long double scale = std::ldexp(1.0L, 64);
  EXPECT_NEAR(static_cast<double>(LowDiscrepancySequence::kGoldenRatio / scale -
                                  (std::sqrt(5.0L) - 1) / 2),
              0, 1e-15);
  EXPECT_NEAR(static_cast<double>(LowDiscrepancySequence::kRootOfTwo / scale -
                                  (std::sqrt(2.0L) - 1)),
              0, 1e-15);
}

TEST(LowDiscrepancyConstantsTest, TheFirstMultiplesOfTheGoldenRatio) {
  // .618, .236, .854, .472, .090, .708, .326, .944
  EXPECT_THAT(
      First(LowDiscrepancySequence(LowDiscrepancySequence::kGoldenRatio), 8,
            10),
      ElementsAre(6, 2, 8, 4, 0, 7, 3, 9));
}

TEST_P(LowDiscrepancyTest, EachValueIsTheFloorOfTheFractionTimesTheChoices) {
  const long double alpha =
      static_cast<long double>(GetParam()) / std::ldexp(1.0L, 64);
  for (const uint32_t choices : {1u, 2u, 7u, 32u, 1000u}) {
    LowDiscrepancySequence sequence = Sequence();
    for (int n = 1; n <= 1000; ++n) {
      const long double fraction =
          std::fmod(static_cast<long double>(n) * alpha, 1.0L);
      const long double exact = fraction * choices;
      const uint32_t value = sequence.Next(choices);
      ASSERT_LT(value, choices);
      // Near a whole number 32 bits of the fraction may not tell.
      if (std::abs(exact - std::round(exact)) < 1e-5L) continue;
      ASSERT_EQ(value, static_cast<uint32_t>(exact)) << n;
    }
  }
}

TEST_P(LowDiscrepancyTest, ValuesStayInRangeForAnyNumberOfChoices) {
  LowDiscrepancySequence sequence = Sequence();
  for (uint32_t choices = 1; choices < 2000; ++choices) {
    ASSERT_LT(sequence.Next(choices), choices);
  }
  ASSERT_LT(sequence.Next(~uint32_t{0}), ~uint32_t{0});
}

// Whatever regular pattern picks members of the sequence, they are spread: no
// offset gets more than three times its share. (Multiples of an odd number
// modulo 32 would all get one and the same offset for a stride of 32.)
TEST_P(LowDiscrepancyTest, EveryStrideIsSpreadOverAllChoices) {
  constexpr uint32_t kSurvivors = 256;
  for (const uint32_t choices : {4u, 8u, 32u}) {
    for (uint32_t stride = 1; stride <= 32; ++stride) {
      LowDiscrepancySequence sequence = Sequence();
      std::vector<uint32_t> counts(choices, 0);
      for (uint32_t n = 0; n < kSurvivors * stride; ++n) {
        const uint32_t value = sequence.Next(choices);
        if (n % stride == 0) ++counts[value];
      }
      ASSERT_LE(*std::max_element(counts.begin(), counts.end()),
                kSurvivors / choices * 3)
          << "one in " << stride << " of " << choices;
    }
  }
}

TEST_P(LowDiscrepancyTest, TheSameStartGivesTheSameValues) {
  EXPECT_EQ(First(Sequence(), 50, 32), First(Sequence(), 50, 32));
}

INSTANTIATE_TEST_SUITE_P(Alphas, LowDiscrepancyTest,
                         ::testing::Values(LowDiscrepancySequence::kGoldenRatio,
                                           LowDiscrepancySequence::kRootOfTwo));

// Pairs of the two cover a square, not a line.
TEST(LowDiscrepancyPairTest, TheTwoSequencesDoNotFollowEachOther) {
  LowDiscrepancySequence a(LowDiscrepancySequence::kGoldenRatio);
  LowDiscrepancySequence b(LowDiscrepancySequence::kRootOfTwo);
  std::set<uint32_t> cells;
  for (int n = 0; n < 512; ++n) {
    const uint32_t row = a.Next(8);
    cells.insert(row * 8 + b.Next(8));
  }
  EXPECT_EQ(cells.size(), 64u);
}

}  // namespace
}  // namespace firn::testing
