// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/token_histogram.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

TEST(TokenHistogramTest, GivesEachLengthItsShare) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const TokenHistogram histogram,
      TokenHistogram::Parse(" {5: 0.25, 7 :0.5,100: 2.5e-1} "));
  EXPECT_EQ(histogram.lengths(), 3u);
  EXPECT_DOUBLE_EQ(histogram.mean_tokens(), 29.75);
  EXPECT_EQ(histogram.At(0), 5u);
  EXPECT_EQ(histogram.At(0.249), 5u);
  EXPECT_EQ(histogram.At(0.25), 7u);
  EXPECT_EQ(histogram.At(0.749), 7u);
  EXPECT_EQ(histogram.At(0.75), 100u);
  EXPECT_EQ(histogram.At(0.9999999), 100u);
}

TEST(TokenHistogramTest, MayBeEmptyAndALittleOff) {
  EXPECT_TRUE(TokenHistogram::Parse("{}")->empty());
  EXPECT_TRUE(TokenHistogram::Parse("{ }")->empty());
  FIRN_ASSERT_OK_AND_ASSIGN(const TokenHistogram histogram,
                            TokenHistogram::Parse("{0: 0.4995, 1: 0.5}"));
  EXPECT_EQ(histogram.At(0.9999999), 1u);
}

TEST(TokenHistogramTest, EveryWayOfBeingWrongHasItsWords) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c : {
           Case{"", "'' is not of the form {length: probability, ...}"},
           Case{"[1, 2]", "'[1, 2]' is not of the form {length:"},
           Case{"{1: 1", "'{1: 1' is not of the form {length:"},
           Case{"{", "'{' is not of the form {length:"},
           Case{"{1}", "'1' is not of the form length: probability"},
           Case{"{1: 1,}", "'' is not of the form length: probability"},
           Case{"{-5: 1}", "a length: '-5' is negative"},
           Case{"{5.5: 1}", "a length: '5.5' is not a whole number"},
           Case{"{10000001: 1}", "a length: 10000001 is more than any model's"},
           Case{"{5: -0.5, 6: 1}", "the probability of 5: '-0.5' is negative"},
           Case{"{5: 1.5}", "the probability of 5: '1.5' is out of range"},
           Case{"{5: nan}", "the probability of 5: 'nan' is not a number"},
           Case{"{5: 0.5: 6}", "the probability of 5: '0.5: 6' is not a"},
           Case{"{5: 0.5, 6: 0.25}",
                "the probabilities add up to 0.75; 1 is expected"},
           Case{"{5: 1, 6: 1}", "the probabilities add up to 2; 1 is expected"},
       }) {
    EXPECT_THAT(
        TokenHistogram::Parse(c.text),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace firn::bench
