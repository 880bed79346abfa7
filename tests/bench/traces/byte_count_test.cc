// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/byte_count.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ByteCountTest, ReadsPlainBytesAndBinaryUnits) {
  EXPECT_THAT(ParseByteCount("512"), IsOkAndHolds(512u));
  EXPECT_THAT(ParseByteCount("512B"), IsOkAndHolds(512u));
  EXPECT_THAT(ParseByteCount("32KiB"), IsOkAndHolds(32u << 10));
  EXPECT_THAT(ParseByteCount("2MiB"), IsOkAndHolds(2u << 20));
  EXPECT_THAT(ParseByteCount("80GiB"), IsOkAndHolds(uint64_t{80} << 30));
  EXPECT_THAT(ParseByteCount("1.5GiB"), IsOkAndHolds(uint64_t{3} << 29));
  EXPECT_THAT(ParseByteCount("0.001KiB"), IsOkAndHolds(1u));
}

TEST(ByteCountTest, RefusesOtherUnitsAndForms) {
  for (const char* text : {"", "KiB", "12KB", "12 KiB", "1.5", "1.2345KiB",
                           "1.KiB", "1.2.3KiB", ".5KiB", "1e3", "12kib"}) {
    EXPECT_THAT(ParseByteCount(text), StatusIs(kInvalid, HasSubstr("is not a")))
        << text;
  }
  EXPECT_THAT(ParseByteCount("-2MiB"),
              StatusIs(kInvalid, HasSubstr("negative")));
}

TEST(ByteCountTest, RefusesAmountsBeyond64Bits) {
  EXPECT_THAT(ParseByteCount("16777215.999TiB"),
              IsOkAndHolds(uint64_t{16777215} * (uint64_t{1} << 40) +
                           999 * (uint64_t{1} << 40) / 1000));
  EXPECT_THAT(ParseByteCount("16777216TiB"),
              StatusIs(kInvalid, HasSubstr("beyond 64 bits")));
}

TEST(CountTest, ReadsDecimalUnits) {
  EXPECT_THAT(ParseCount("300"), IsOkAndHolds(300u));
  EXPECT_THAT(ParseCount("50K"), IsOkAndHolds(50'000u));
  EXPECT_THAT(ParseCount("20M"), IsOkAndHolds(20'000'000u));
  EXPECT_THAT(ParseCount("1.5G"), IsOkAndHolds(1'500'000'000u));
  EXPECT_THAT(ParseCount("20MiB"), StatusIs(kInvalid, HasSubstr("20M")));
}

TEST(FormatByteCountTest, UsesTheLargestUnitThatIsExact) {
  EXPECT_EQ(FormatByteCount(0), "0B");
  EXPECT_EQ(FormatByteCount(1000), "1000B");
  EXPECT_EQ(FormatByteCount(32 << 10), "32KiB");
  EXPECT_EQ(FormatByteCount(uint64_t{80} << 30), "80GiB");
  EXPECT_EQ(FormatByteCount(uint64_t{1536} << 20), "1536MiB");
}

}  // namespace
}  // namespace firn::bench
