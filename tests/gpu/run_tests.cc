// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gpu/part_process.h"

namespace firn::gpu_check {
namespace {

// Tells the report of each test.
class ReportListener : public ::testing::EmptyTestEventListener {
 public:
  explicit ReportListener(Report* report) : report_(*report) {}

  void OnTestStart(const ::testing::TestInfo& test) override {
    report_.BeginStep(index_++, Name(test));
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    std::string why;
    for (int i = 0; i < result.total_part_count(); ++i) {
      const ::testing::TestPartResult& part = result.GetTestPartResult(i);
      if (part.passed()) continue;
      absl::StrAppend(&why, why.empty() ? "" : "\n",
                      part.file_name() == nullptr ? "" : part.file_name(), ":",
                      part.line_number(), ": ", part.message());
    }
    report_.End(Name(test),
                result.Failed()    ? Outcome::kFailed
                : result.Skipped() ? Outcome::kSkipped
                                   : Outcome::kPassed,
                why);
  }
  // A failure outside every test.
  void OnTestProgramEnd(const ::testing::UnitTest& program) override {
    if (program.Failed() && program.failed_test_count() == 0) {
      report_.End("the test program", Outcome::kFailed,
                  "something failed outside every test");
    }
  }

 private:
  static std::string Name(const ::testing::TestInfo& test) {
    return absl::StrCat(test.test_suite_name(), ".", test.name());
  }

  Report& report_;
  size_t index_ = 0;
};

// Whether this is the other process of a test that expects an exit: it has
// nothing to report.
bool IsDeathTest(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--gtest_internal_run_death_test")) {
      return true;
    }
  }
  return false;
}

}  // namespace

int RunTests(int argc, char** argv, Report* report) {
  const bool reports = report != nullptr && !IsDeathTest(argc, argv);
  ::testing::InitGoogleMock(&argc, argv);
  if (!reports) return RUN_ALL_TESTS();
  ::testing::UnitTest::GetInstance()->listeners().Append(
      new ReportListener(report));
  [[maybe_unused]] const int told_in_the_report = RUN_ALL_TESTS();
  report->Done();
  return kExitPassed;
}

}  // namespace firn::gpu_check
