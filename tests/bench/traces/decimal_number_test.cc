// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/decimal_number.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::Eq;

TEST(DecimalNumberTest, ReadsFractionsAndExponents) {
  EXPECT_EQ(*ParseDecimal("0", 1e9), 0);
  EXPECT_EQ(*ParseDecimal("600", 600), 600);
  EXPECT_EQ(*ParseDecimal("0.25", 1), 0.25);
  EXPECT_EQ(*ParseDecimal("2.5e-05", 1), 2.5e-05);
}

TEST(DecimalNumberTest, EveryWayOfBeingWrongHasItsWords) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c : {
           Case{"", "empty"},
           Case{"fast", "'fast' is not a number"},
           Case{"1.5x", "'1.5x' is not a number"},
           Case{"1,5", "'1,5' is not a number"},
           Case{"0x10", "'0x10' is not a number"},
           Case{"0X1p1", "'0X1p1' is not a number"},
           Case{"-0x1", "'-0x1' is not a number"},
           Case{"nan", "'nan' is not a number"},
           Case{"-1e-9", "'-1e-9' is negative"},
           Case{"-inf", "'-inf' is negative"},
           Case{"inf", "'inf' is out of range; at most 100"},
           Case{"1e999", "'1e999' is out of range; at most 100"},
           Case{"100.5", "'100.5' is out of range; at most 100"},
       }) {
    EXPECT_THAT(ParseDecimal(c.text, 100),
                StatusIs(absl::StatusCode::kInvalidArgument, Eq(c.message)));
  }
}

}  // namespace
}  // namespace firn::bench
