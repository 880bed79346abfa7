// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/part_result.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::gpu_check {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The lines that `say` makes a report write.
template <typename Say>
std::vector<std::string> LinesOf(Say say) {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return {};
  Report report(ends[1]);
  say(report);
  close(ends[1]);
  std::string text;
  char chunk[512];
  for (ssize_t count = read(ends[0], chunk, sizeof(chunk)); count > 0;
       count = read(ends[0], chunk, sizeof(chunk))) {
    text.append(chunk, static_cast<size_t>(count));
  }
  close(ends[0]);
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

class PartResultTest : public ::testing::Test {
 protected:
  template <typename Say>
  void Hear(ReportReader& reader, Say say) {
    for (const std::string& line : LinesOf(say)) reader.ReadLine(line);
  }

  PartResult result_;
};

TEST_F(PartResultTest, PutsTogetherWhatTwoProcessesReport) {
  const Table table = {"t", "a title", {"a", "b"}, {}};
  for (int process = 0; process < 2; ++process) {
    ReportReader reader(&result_);
    Hear(reader, [&](Report& report) {
      report.BeginTable(table);
      report.AddRow("t", {TextCell("x"), NumberCell(process)});
      report.Note("the same");
    });
  }
  ASSERT_THAT(result_.tables, SizeIs(1));
  EXPECT_EQ(result_.tables[0].title, "a title");
  ASSERT_THAT(result_.tables[0].rows, SizeIs(2));
  EXPECT_EQ(CellText(result_.tables[0].rows[1][1]), "1");
  EXPECT_THAT(result_.notes, ElementsAre("the same"));
}

TEST_F(PartResultTest, IsFailedIfAnItemIsAndSkippedIfNothingPassed) {
  ReportReader reader(&result_);
  EXPECT_EQ(result_.outcome(), Outcome::kSkipped);
  Hear(reader,
       [](Report& report) { report.End("a", Outcome::kSkipped, "why"); });
  EXPECT_EQ(result_.outcome(), Outcome::kSkipped);
  Hear(reader, [](Report& report) { report.End("b", Outcome::kPassed); });
  EXPECT_EQ(result_.outcome(), Outcome::kPassed);
  Hear(reader, [](Report& report) { report.End("c", Outcome::kFailed); });
  EXPECT_EQ(result_.outcome(), Outcome::kFailed);
}

TEST_F(PartResultTest, AStepThatNeverCameBackIsAFailedItem) {
  ReportReader reader(&result_);
  Hear(reader, [](Report& report) {
    report.BeginStep(0, "one");
    report.End("one", Outcome::kPassed);
    report.BeginStep(1, "two");
  });
  ASSERT_TRUE(reader.open_step().has_value());
  EXPECT_EQ(*reader.open_step(), 1u);
  EXPECT_FALSE(reader.done());
  reader.LoseOpenStep("it died");
  ASSERT_THAT(result_.items, SizeIs(2));
  EXPECT_EQ(result_.items[1].name, "two");
  EXPECT_EQ(result_.items[1].outcome, Outcome::kFailed);
  EXPECT_EQ(result_.items[1].why, "it died");
}

TEST_F(PartResultTest, AStepThatForesawItsEndIsAFinding) {
  ReportReader reader(&result_);
  Hear(reader, [](Report& report) {
    report.BeginTable({"t", "", {"a", "b"}, {}});
    report.BeginStep(4, "double release");
    report.RowIfLost("t", {TextCell("dies"), TextCell("DIFFERS")});
  });
  EXPECT_THAT(result_.tables[0].rows, IsEmpty());
  reader.LoseOpenStep("it died");
  ASSERT_THAT(result_.tables[0].rows, SizeIs(1));
  EXPECT_EQ(CellText(result_.tables[0].rows[0][0]), "dies");
  EXPECT_EQ(result_.outcome(), Outcome::kPassed);
}

TEST_F(PartResultTest, WhatIsNoReportIsAFailure) {
  ReportReader reader(&result_);
  reader.ReadLine("Segmentation fault");
  reader.ReadLine("{\"unknown\":1}");
  EXPECT_THAT(result_.failures, SizeIs(2));
  EXPECT_EQ(result_.outcome(), Outcome::kFailed);
}

TEST_F(PartResultTest, CarriesWhatADeviceIs) {
  DeviceFacts facts;
  facts.name = "NVIDIA \"X\" \xff";  // not UTF-8
  facts.driver_version = 12080;
  facts.is_gpu = true;
  ReportReader reader(&result_);
  Hear(reader, [&facts](Report& report) { report.Device(facts); });
  EXPECT_THAT(result_.failures, IsEmpty());
  ASSERT_TRUE(reader.device().has_value());
  EXPECT_EQ(reader.device()->name.substr(0, 10), "NVIDIA \"X\"");
  EXPECT_EQ(reader.device()->driver_version, 12080);
  EXPECT_TRUE(reader.device()->is_gpu);
}

}  // namespace
}  // namespace firn::gpu_check
