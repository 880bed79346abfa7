// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/csv_reader.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(CsvReaderTest, FindsColumnsByNameInAnyOrder) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      CsvReader rows,
      CsvReader::Open(WriteFile("f", "B, C ,A\n1,2,3\n\n 4 ,5,6"), {"A", "B"}));
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(rows.NextRow(), IsOkAndHolds(true));
    EXPECT_EQ(rows.field(0), "3");
    EXPECT_EQ(rows.field(1), "1");
    EXPECT_THAT(rows.NextRow(), IsOkAndHolds(true));
    EXPECT_EQ(rows.field(0), "6");
    EXPECT_EQ(rows.field(1), "4");
    EXPECT_EQ(rows.line_number(), 4u);
    EXPECT_THAT(rows.NextRow(), IsOkAndHolds(false));
    FIRN_ASSERT_OK(rows.Rewind());
  }
}

TEST(CsvReaderTest, NamesTheColumnThatIsMissing) {
  const std::string path = WriteFile("f", "A,b\n1,2\n");
  EXPECT_THAT(CsvReader::Open(path, {"A", "B"}),
              StatusIs(kInvalid, Eq(path + ":1: no column 'B'; the header "
                                           "should be A,B")));
}

TEST(CsvReaderTest, NamesTheLineOfARowThatDoesNotFit) {
  const std::string path = WriteFile("f", "A,B\n1,2\n1\n");
  FIRN_ASSERT_OK_AND_ASSIGN(CsvReader rows, CsvReader::Open(path, {"A", "B"}));
  EXPECT_THAT(rows.NextRow(), IsOkAndHolds(true));
  EXPECT_EQ(rows.FieldError(1, "no good").message(), path + ":2: B: no good");
  EXPECT_THAT(
      rows.NextRow(),
      StatusIs(kInvalid, Eq(path + ":3: 1 fields where the header has 2")));
}

TEST(CsvReaderTest, SkipsBlankLinesWithinLimits) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      CsvReader rows, CsvReader::Open(WriteFile("f", " \n\nA\n\n1"), {"A"}));
  EXPECT_THAT(rows.NextRow(), IsOkAndHolds(true));
  EXPECT_EQ(rows.field(0), "1");
  const std::string newlines(1'000'001, '\n');
  FIRN_ASSERT_OK_AND_ASSIGN(
      CsvReader blank,
      CsvReader::Open(WriteFile("f", "A\n" + newlines), {"A"}));
  EXPECT_THAT(blank.NextRow(),
              StatusIs(kInvalid, HasSubstr("/f:1000002: more than 1000000")));
  EXPECT_THAT(CsvReader::Open(WriteFile("f", newlines), {"A"}),
              StatusIs(kInvalid, HasSubstr("/f:1000001: more than 1000000")));
}

TEST(CsvReaderTest, AnEmptyFileHasNoHeader) {
  const std::string path = WriteFile("f", "");
  EXPECT_THAT(CsvReader::Open(path, {"A", "B"}),
              StatusIs(kInvalid, Eq(path + ": the file is empty; its first "
                                           "line should be A,B")));
}

}  // namespace
}  // namespace firn::bench
