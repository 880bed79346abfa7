// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn_gpu_check as a program, on the CPU driver's library.

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/gpu/parts.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_path.h"

namespace firn::gpu_check {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kNoGpu = 77;

testing::Ended Check(const std::string& arguments,
                     const std::string& settings = "") {
  return testing::RunProgram(absl::StrCat(settings, settings.empty() ? "" : " ",
                                          FIRN_GPU_CHECK, " ", arguments));
}
testing::Ended CheckLibrary(const std::string& arguments,
                            const std::string& settings = "") {
  return Check(absl::StrCat("--library=", FIRN_CPU_LIBCUDA, " ", arguments),
               settings);
}

// What a run with `arguments` writes as JSON.
nlohmann::json ResultsOf(const std::string& arguments,
                         const std::string& settings = "") {
  const std::string path = testing::TemporaryPath("gpu_check.json");
  const testing::Ended ended =
      CheckLibrary(absl::StrCat(arguments, " --json=", path), settings);
  EXPECT_EQ(ended.exit_status, 0) << ended.output;
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  std::remove(path.c_str());
  return json;
}

// The rows of the table of the part `name`, which has one.
nlohmann::json RowsOf(const nlohmann::json& results, const std::string& name) {
  for (const nlohmann::json& part : results["parts"]) {
    if (part["name"] == name) return part["tables"][0]["rows"];
  }
  return nlohmann::json::array();
}

TEST(GpuCheckTest, NamesABadOptionAndEndsWithTwo) {
  for (const char* const option :
       {"--bogus", "--only=nothing", "--budget_s=x", "--device=-2",
        "--library=/nowhere/libcuda.so.1"}) {
    const testing::Ended ended = Check(option);
    EXPECT_EQ(ended.exit_status, kUsage) << option;
    EXPECT_THAT(ended.output, HasSubstr(option));
  }
}

TEST(GpuCheckTest, ADeviceThatDoesNotExistIsABadOption) {
  const testing::Ended ended = CheckLibrary("--only=copies --device=7");
  EXPECT_EQ(ended.exit_status, kUsage) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("--device=7"));
}

TEST(GpuCheckTest, HelpNamesEachPart) {
  const testing::Ended ended = Check("--help");
  EXPECT_EQ(ended.exit_status, 0);
  for (const Part& part : AllParts()) {
    EXPECT_THAT(ended.output, HasSubstr(part.name));
  }
}

TEST(GpuCheckTest, WithoutAGpuItIsSkippedAndSaysWhy) {
  const testing::Ended ended =
      Check("", "LD_LIBRARY_PATH= CUDA_VISIBLE_DEVICES=");
  if (ended.exit_status != kNoGpu) GTEST_SKIP() << "there is a GPU here";
  EXPECT_THAT(ended.output, HasSubstr("skipped: there is no GPU"));
}

TEST(GpuCheckTest, NothingButSkipsIsAFailure) {
  const testing::Ended ended =
      CheckLibrary("--only=tests --budget_s=20 --gtest_filter=No.SuchTest");
  EXPECT_EQ(ended.exit_status, kFailed) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("FAILED tests: nothing but skips"));
}

TEST(GpuCheckTest, AMeasurementThatIsNotPossibleAloneIsAFailureWithItsReason) {
  // A device of two granules.
  const testing::Ended ended =
      CheckLibrary("--only=aliases --budget_s=10",
                   "FIRN_CPU_DRIVER=granularity=64KiB,device_bytes=128KiB");
  EXPECT_EQ(ended.exit_status, kFailed) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("not possible: too little free memory"));
  EXPECT_THAT(ended.output, HasSubstr("FAILED measure: nothing but skips"));
}

TEST(GpuCheckTest, SaysLoudlyThatTheLibraryIsNoGpu) {
  const testing::Ended ended = CheckLibrary("--only=copies --budget_s=2");
  EXPECT_EQ(ended.exit_status, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("THIS IS NOT A GPU"));
  EXPECT_THAT(ended.output, HasSubstr("WORTHLESS"));
}

TEST(GpuCheckTest, OnTheCpuDriversLibraryNoAnswerDiffersFromTheCpuDrivers) {
  const nlohmann::json results = ResultsOf("--only=misuse --budget_s=60");
  const nlohmann::json rows = RowsOf(results, "misuse");
  EXPECT_GT(rows.size(), 60u);
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["differs"], "") << row;
    EXPECT_THAT(row["CPU driver"].get<std::string>(),
                Not(HasSubstr("no setting")))
        << row;
  }
}

TEST(GpuCheckTest, FindsOutWhereADriverDiffers) {
  const nlohmann::json rows =
      RowsOf(ResultsOf("--only=misuse --budget_s=60",
                       "FIRN_CPU_DRIVER=granularity=64KiB,device_bytes=64MiB,"
                       "errors=quiet,defect=map_over_mapped_allowed"),
             "misuse");
  bool found = false;
  for (const nlohmann::json& row : rows) {
    if (row["misuse"] != "map over what is mapped") continue;
    found = true;
    EXPECT_EQ(row["differs"], "DIFFERS") << row;
    EXPECT_EQ(row["this device"], "CUDA_SUCCESS");
  }
  EXPECT_TRUE(found);
}

class WaitsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WaitsTest, TellsADriverThatWaitsFromOneThatDoesNot) {
  const std::string sync = GetParam();
  const nlohmann::json rows = RowsOf(
      ResultsOf("--only=waits --budget_s=30",
                absl::StrCat("FIRN_CPU_DRIVER=granularity=64KiB,device_bytes="
                             "64MiB,errors=quiet,sync=",
                             sync)),
      "waits");
  int unmaps = 0;
  for (const nlohmann::json& row : rows) {
    if (row["call"] == "cuMemUnmap") {
      ++unmaps;
      EXPECT_EQ(row["waits"], sync == "draining" ? "yes" : "no") << row;
    }
    if (row["call"] == "cuMemCreate") {
      EXPECT_EQ(row["waits"], "no") << row;
    }
  }
  EXPECT_EQ(unmaps, 4);
}

INSTANTIATE_TEST_SUITE_P(Extremes, WaitsTest,
                         ::testing::Values("lazy", "draining"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(GpuCheckTest, EachRowOfTheJsonNamesTheDeviceAndItsDriver) {
  const nlohmann::json results =
      ResultsOf("--only=batching --budget_s=3",
                "FIRN_CPU_DRIVER=granularity=64KiB,device_bytes=64MiB,"
                "device_name=the-one");
  EXPECT_EQ(results["schema"], 1);
  EXPECT_EQ(results["is_gpu"], false);
  EXPECT_EQ(results["passed"], true);
  EXPECT_EQ(results["device"]["name"], "the-one");
  const nlohmann::json rows = RowsOf(results, "batching");
  EXPECT_GT(rows.size(), 5u);
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["device"], "the-one");
    EXPECT_GT(row["driver_version"], 11000);
    EXPECT_GT(row["count"], 0);
  }
}

TEST(GpuCheckTest, ACallThatShouldHaveWorkedIsAFailureThatIsNamed) {
  const testing::Ended ended = CheckLibrary(
      "--only=moves --budget_s=5",
      "FIRN_CPU_DRIVER=granularity=64KiB,device_bytes=64MiB,errors=quiet,"
      "fail=cuMemSetAccess:3:OUT_OF_MEMORY");
  EXPECT_EQ(ended.exit_status, kFailed) << ended.output;
  EXPECT_THAT(ended.output, ContainsRegex("FAILED moves: cuMemSetAccess: "
                                          "CUDA_ERROR_OUT_OF_MEMORY"));
}

}  // namespace
}  // namespace firn::gpu_check
