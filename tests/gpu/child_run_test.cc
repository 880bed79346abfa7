// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The child is this test program, running one of the disabled tests below.

#include "tests/gpu/child_run.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gpu/report.h"

namespace firn::gpu_check {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// --- What children do ---

// The descriptor that the parent told this process of.
int ReportFd() {
  int fd = -1;
  for (const std::string& word : ::testing::internal::GetArgvs()) {
    absl::string_view value = word;
    if (absl::ConsumePrefix(&value, "--report_fd=")) {
      (void)absl::SimpleAtoi(value, &fd);
    }
  }
  return fd;
}

TEST(ChildTest, DISABLED_Talks) {
  Report report(ReportFd());
  report.Note("one");
  std::printf("aloud\n");
  std::fprintf(stderr, "in anger\n");
  report.Note(std::getenv("FIRN_CHILD_TEST"));
}
TEST(ChildTest, DISABLED_Dies) { raise(SIGKILL); }
TEST(ChildTest, DISABLED_EndsWithThree) { _exit(3); }
TEST(ChildTest, DISABLED_SaysNothing) { absl::SleepFor(absl::Seconds(60)); }
TEST(ChildTest, DISABLED_TalksForEver) {
  Report report(ReportFd());
  for (;;) {
    report.Note("still here");
    absl::SleepFor(absl::Milliseconds(5));
  }
}
TEST(ChildTest, DISABLED_LeavesAProcessBehind) {
  Report report(ReportFd());
  const pid_t child = fork();
  if (child == 0) {
    absl::SleepFor(absl::Seconds(60));
    _exit(0);
  }
  report.Note(absl::StrCat(child));
  _exit(0);
}

// --- What is made of it ---

struct Heard {
  ChildEnd end;
  std::vector<std::string> report;
  std::vector<std::string> output;
};

Heard RunSelf(const std::string& test, absl::Duration limit = absl::Seconds(50),
              absl::Duration silence_limit = absl::Seconds(50)) {
  ChildRun run;
  run.arguments = {absl::StrCat("--gtest_filter=ChildTest.DISABLED_", test),
                   "--gtest_also_run_disabled_tests"};
  run.environment = {{"FIRN_CHILD_TEST", "from the parent"}};
  run.limit = limit;
  run.silence_limit = silence_limit;
  Heard heard;
  heard.end = RunChild(
      run, [&heard](const std::string& line) { heard.report.push_back(line); },
      [&heard](const std::string& line) { heard.output.push_back(line); });
  return heard;
}

TEST(ChildRunTest, PassesOnWhatTheChildReportsAndPrints) {
  const Heard heard = RunSelf("Talks");
  EXPECT_EQ(heard.end.kind, ChildEnd::Kind::kExited);
  EXPECT_EQ(heard.end.code, 0);
  EXPECT_THAT(heard.report,
              ElementsAre(HasSubstr("one"), HasSubstr("from the parent")));
  EXPECT_THAT(heard.output, Contains("aloud"));
  EXPECT_THAT(heard.output, Contains("in anger"));
}

TEST(ChildRunTest, TellsHowTheChildEnded) {
  const Heard died = RunSelf("Dies");
  EXPECT_EQ(died.end.kind, ChildEnd::Kind::kSignalled);
  EXPECT_EQ(died.end.code, SIGKILL);
  EXPECT_EQ(DescribeEnd(died.end), "it died: Killed");
  const Heard ended = RunSelf("EndsWithThree");
  EXPECT_EQ(ended.end.kind, ChildEnd::Kind::kExited);
  EXPECT_EQ(ended.end.code, 3);
}

TEST(ChildRunTest, StopsAChildThatIsSilentForTooLong) {
  const Heard heard =
      RunSelf("SaysNothing", absl::Seconds(50), absl::Milliseconds(200));
  EXPECT_EQ(heard.end.kind, ChildEnd::Kind::kSilent);
}

TEST(ChildRunTest, StopsAChildWhoseTimeIsUpHoweverMuchItSays) {
  const Heard heard =
      RunSelf("TalksForEver", absl::Milliseconds(500), absl::Milliseconds(400));
  EXPECT_EQ(heard.end.kind, ChildEnd::Kind::kTimeUp);
}

TEST(ChildRunTest, StopsWhatTheChildLeftBehind) {
  const Heard heard = RunSelf("LeavesAProcessBehind");
  ASSERT_THAT(heard.report, SizeIs(1));
  pid_t left = 0;
  const size_t colon = heard.report[0].find(':');
  ASSERT_TRUE(absl::SimpleAtoi(
      absl::StripSuffix(heard.report[0].substr(colon + 2), "\"}"), &left))
      << heard.report[0];
  // It is no child of ours: whoever adopted it may take a while to bury it.
  for (int i = 0; i < 500 && kill(left, 0) == 0; ++i) {
    std::FILE* const file =
        std::fopen(absl::StrCat("/proc/", left, "/stat").c_str(), "r");
    char text[256] = "";
    if (file != nullptr) {
      if (std::fgets(text, sizeof(text), file) == nullptr) text[0] = '\0';
      std::fclose(file);
    }
    if (absl::StrContains(text, ") Z ")) return;
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_NE(kill(left, 0), 0);
}

}  // namespace
}  // namespace firn::gpu_check
