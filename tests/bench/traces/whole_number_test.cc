// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/whole_number.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(WholeNumberTest, ReadsAll64Bits) {
  EXPECT_THAT(ParseWholeNumber("0"), IsOkAndHolds(0u));
  EXPECT_THAT(ParseWholeNumber("007"), IsOkAndHolds(7u));
  EXPECT_THAT(ParseWholeNumber("18446744073709551615"),
              IsOkAndHolds(~uint64_t{0}));
}

TEST(WholeNumberTest, NamesEachWayOfBeingWrong) {
  EXPECT_THAT(ParseWholeNumber(""),
              StatusIs(kInvalid, HasSubstr("'' is not a whole number")));
  EXPECT_THAT(ParseWholeNumber("-5"),
              StatusIs(kInvalid, HasSubstr("'-5' is negative")));
  EXPECT_THAT(ParseWholeNumber("18446744073709551616"),
              StatusIs(kInvalid, HasSubstr("beyond 64 bits")));
  EXPECT_THAT(ParseWholeNumber("99999999999999999999999"),
              StatusIs(kInvalid, HasSubstr("beyond 64 bits")));
  for (const char* text : {"12x", "x", "1.5", " 1", "+1", "-", "0x10"}) {
    EXPECT_THAT(ParseWholeNumber(text),
                StatusIs(kInvalid, HasSubstr("is not a whole number")))
        << text;
  }
}

TEST(PointerTest, ReadsHexadecimalWithAndWithoutPrefix) {
  EXPECT_THAT(ParsePointer("0x7fABcd"), IsOkAndHolds(0x7fabcdu));
  EXPECT_THAT(ParsePointer("7f00"), IsOkAndHolds(0x7f00u));
  EXPECT_THAT(ParsePointer("(nil)"), IsOkAndHolds(0u));
  EXPECT_THAT(ParsePointer("0xffffffffffffffff"), IsOkAndHolds(~uint64_t{0}));
}

TEST(PointerTest, RefusesWhatIsNoHexadecimalNumber) {
  for (const char* text : {"", "0x", "0xg", "-1"}) {
    EXPECT_THAT(ParsePointer(text),
                StatusIs(kInvalid, HasSubstr("hexadecimal")))
        << text;
  }
  EXPECT_THAT(ParsePointer("0x10000000000000000"),
              StatusIs(kInvalid, HasSubstr("beyond 64 bits")));
}

TEST(QuotedTest, CutsLongTextAndMakesItPrintable) {
  EXPECT_EQ(Quoted("a\nb"), "'a\\nb'");
  EXPECT_EQ(Quoted(std::string(1'000'000, 'x')),
            "'" + std::string(40, 'x') + "'...");
}

}  // namespace
}  // namespace firn::bench
