// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/line_reader.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Lines(LineReader* reader) {
  std::vector<std::string> lines;
  absl::string_view line;
  while (true) {
    const absl::StatusOr<bool> found = reader->Next(&line);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !*found) return lines;
    lines.emplace_back(line);
  }
}

TEST(LineReaderTest, SplitsAtNewlinesAndNeedsNoneAtTheEnd) {
  FIRN_ASSERT_OK_AND_ASSIGN(LineReader reader,
                            LineReader::Open(WriteFile("f",
                                                       "\xef\xbb\xbf"
                                                       "a,b\r\n\nlast")));
  EXPECT_THAT(Lines(&reader), ElementsAre("a,b", "", "last"));
  EXPECT_EQ(reader.line_number(), 3u);
  FIRN_ASSERT_OK(reader.Rewind());
  EXPECT_THAT(Lines(&reader), ElementsAre("a,b", "", "last"));
}

TEST(LineReaderTest, AFinalNewlineBeginsNoLine) {
  FIRN_ASSERT_OK_AND_ASSIGN(LineReader reader,
                            LineReader::Open(WriteFile("f", "a\nb\n")));
  EXPECT_THAT(Lines(&reader), ElementsAre("a", "b"));
  FIRN_ASSERT_OK_AND_ASSIGN(LineReader empty,
                            LineReader::Open(WriteFile("e", "")));
  EXPECT_THAT(Lines(&empty), IsEmpty());
}

TEST(LineReaderTest, KeepsLinesWholeAcrossReads) {
  std::string contents;
  std::vector<std::string> lines;
  for (size_t i = 0; i < 5000; ++i) {
    lines.push_back(std::to_string(i) + std::string(i % 97, 'x'));
    contents += lines.back() + "\n";
  }
  FIRN_ASSERT_OK_AND_ASSIGN(LineReader reader,
                            LineReader::Open(WriteFile("f", contents)));
  EXPECT_EQ(Lines(&reader), lines);
}

TEST(LineReaderTest, TakesALineOfTheGreatestLengthAndRefusesALongerOne) {
  const std::string longest(LineReader::kMaxLineBytes, 'x');
  FIRN_ASSERT_OK_AND_ASSIGN(LineReader reader,
                            LineReader::Open(WriteFile("f", longest + "\nb")));
  EXPECT_THAT(Lines(&reader), ElementsAre(longest, "b"));

  for (const char* tail : {"", "\n"}) {
    const std::string path = WriteFile("g", "a\n" + longest + "x" + tail);
    FIRN_ASSERT_OK_AND_ASSIGN(LineReader longer, LineReader::Open(path));
    absl::string_view line;
    EXPECT_THAT(longer.Next(&line), IsOkAndHolds(true));
    EXPECT_THAT(longer.Next(&line),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(path + ":2: a line of more than 65536")));
  }
}

TEST(LineReaderTest, SkipsBlankLinesButNotWithoutEnd) {
  const std::string line(999, ' ');
  std::string contents;
  for (int i = 0; i < 1000; ++i) contents += line + "\n";
  FIRN_ASSERT_OK_AND_ASSIGN(
      LineReader reader,
      LineReader::Open(WriteFile("f", contents + "a\n" + contents + "b\n")));
  absl::string_view found;
  for (const char* expected : {"a", "b"}) {
    EXPECT_THAT(reader.NextNotBlank(&found), IsOkAndHolds(true));
    EXPECT_EQ(found, expected);
  }
  EXPECT_THAT(reader.NextNotBlank(&found), IsOkAndHolds(false));

  const std::string path = WriteFile("g", contents + "\na");
  FIRN_ASSERT_OK_AND_ASSIGN(LineReader longer, LineReader::Open(path));
  EXPECT_THAT(longer.NextNotBlank(&found),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       Eq(path + ":1001: more than 1000000 characters of blank "
                                 "lines in a row; leave them out")));
}

TEST(LineReaderTest, AMillionCharactersAreOneShortError) {
  const std::string path = WriteFile("f", std::string(1'000'000, 'x'));
  FIRN_ASSERT_OK_AND_ASSIGN(LineReader reader, LineReader::Open(path));
  absl::string_view line;
  const absl::StatusOr<bool> found = reader.Next(&line);
  EXPECT_THAT(found, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr(path + ":1: ")));
  EXPECT_LT(found.status().message().size(), path.size() + 100);
}

}  // namespace
}  // namespace firn::bench
