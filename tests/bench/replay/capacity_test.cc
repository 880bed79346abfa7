// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/capacity.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;

constexpr uint64_t kGranule = uint64_t{2} << 20;

TEST(CapacityTest, ParsesSizesMultiplesAndMin) {
  FIRN_ASSERT_OK_AND_ASSIGN(Capacity capacity, ParseCapacity("80GiB"));
  EXPECT_EQ(capacity.kind, Capacity::Kind::kBytes);
  EXPECT_EQ(capacity.bytes, uint64_t{80} << 30);
  FIRN_ASSERT_OK_AND_ASSIGN(capacity, ParseCapacity("1.02x"));
  EXPECT_EQ(capacity.kind, Capacity::Kind::kPeakMultiple);
  EXPECT_EQ(capacity.peak_millionths, 1020000u);
  FIRN_ASSERT_OK_AND_ASSIGN(capacity, ParseCapacity("2x"));
  EXPECT_EQ(capacity.peak_millionths, 2000000u);
  FIRN_ASSERT_OK_AND_ASSIGN(capacity, ParseCapacity("0.000001x"));
  EXPECT_EQ(capacity.peak_millionths, 1u);
  FIRN_ASSERT_OK_AND_ASSIGN(capacity, ParseCapacity("min"));
  EXPECT_EQ(capacity.kind, Capacity::Kind::kMinimum);
}

TEST(CapacityTest, RefusesEverythingElse) {
  for (const absl::string_view text :
       {"",           "0",        "0GiB",
        "x",          ".x",       "1.x",
        ".5x",        "0x",       "0.0x",
        "-1x",        "1.02X",    "1e3x",
        "1.0000001x", "1000001x", "99999999999999999999x",
        "80 GiB",     "80GB",     "-80GiB",
        "minimum",    "65TiB",    "99999999999999999999"}) {
    EXPECT_THAT(ParseCapacity(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(CapacityTest, AMultipleIsRoundedDownToWholeGranules) {
  const uint64_t peak_bytes = 100 * kGranule;
  EXPECT_EQ(CapacityOfPeakMultiple(1000000, peak_bytes, kGranule),
            100 * kGranule);
  EXPECT_EQ(CapacityOfPeakMultiple(1029999, peak_bytes, kGranule),
            102 * kGranule);
  EXPECT_EQ(CapacityOfPeakMultiple(1030000, peak_bytes, kGranule),
            103 * kGranule);
}

TEST(CapacityTest, AMultipleIsAtLeastThePeakInWholeGranules) {
  const uint64_t peak_bytes = 100 * kGranule + 1;
  EXPECT_EQ(CapacityOfPeakMultiple(1000000, peak_bytes, kGranule),
            101 * kGranule);
  EXPECT_EQ(CapacityOfPeakMultiple(1005000, peak_bytes, kGranule),
            101 * kGranule);
  EXPECT_EQ(CapacityOfPeakMultiple(500000, peak_bytes, kGranule),
            101 * kGranule);
  EXPECT_EQ(CapacityOfPeakMultiple(1000000, 0, kGranule), kGranule);
}

TEST(CapacityTest, AMultipleIsAtMostTheLargestCapacity) {
  EXPECT_EQ(CapacityOfPeakMultiple(1000000000000, uint64_t{1} << 45, kGranule),
            kLargestCapacityBytes);
}

}  // namespace
}  // namespace firn::bench
