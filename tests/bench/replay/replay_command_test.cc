// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/policies/make_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench/replay/command_run.h"
#include "tests/support/temporary_path.h"

namespace firn::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A log in RMM's format, in a file of its own.
std::string WriteLog(const std::string& name, const std::string& lines) {
  const std::string file = ::firn::testing::TemporaryPath(name);
  std::ofstream(file) << "Thread,Time,Action,Pointer,Size,Stream\n" << lines;
  return file;
}

// Peak: 6 MiB + 512 bytes.
std::string SmallLog() {
  return WriteLog("replay_command_test_small.csv",
                  "1,10:00:00.000000,allocate,0x1000,4194304,0\n"
                  "1,10:00:01.000000,allocate,0x2000,2097152,0\n"
                  "1,10:00:02.000000,allocate,0x3000,512,0\n"
                  "1,10:00:03.000000,free,0x1000,4194304,0\n"
                  "1,10:00:05.000000,free,0x2000,2097152,0\n");
}

TEST(ReplayCommandTest, PrintsOneJsonObjectAndNothingElse) {
  const Outcome outcome =
      RunCommand({"--trace=" + SmallLog(), "--policy=paged", "--json"});
  EXPECT_EQ(outcome.exit_status, kExitOk);
  EXPECT_THAT(outcome.err, IsEmpty());
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["trace"], SmallLog());
  EXPECT_EQ(json["policy"], "paged");
  EXPECT_EQ(json["events"], 5);
  EXPECT_EQ(json["allocs"], 3);
  EXPECT_EQ(json["frees"], 2);
  EXPECT_EQ(json["failed_allocs"], 0);
  EXPECT_EQ(json["peak_live_bytes"], 6291968);
  EXPECT_EQ(json["peak_used_bytes"], 8 << 20);
  EXPECT_EQ(json["end_held_bytes"], 2 << 20);
  EXPECT_TRUE(json["min_capacity_over_peak"].is_null());
}

TEST(ReplayCommandTest, PrintsATableWithoutJson) {
  const Outcome outcome =
      RunCommand({"--trace=" + SmallLog(), "--policy=ideal"});
  EXPECT_EQ(outcome.exit_status, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("ideal"));
}

TEST(ReplayCommandTest, AnIdleShareGivesTheSameFiguresEachTime) {
  const std::vector<std::string> args = {
      "--trace=gen:kv,days=0.02,events=20K",
      "--compaction=background",
      "--idle_share=0.5",
      "--capacity=1.2x",
      "--json",
  };
  nlohmann::json first;
  for (int run = 0; run < 2; ++run) {
    const Outcome outcome = RunCommand(args);
    ASSERT_EQ(outcome.exit_status, kExitOk) << outcome.err;
    nlohmann::json json = nlohmann::json::parse(outcome.out);
    EXPECT_GT(json["granules_moved"], 0);
    for (const char* const measured : {"wall_s", "alloc_ns_p50", "alloc_ns_p99",
                                       "free_ns_p50", "free_ns_p99"}) {
      json.erase(measured);
    }
    if (run == 0) first = json;
    EXPECT_EQ(json, first);
  }
}

TEST(ReplayCommandTest, AnIdleShareWithoutBackgroundIsABadFlag) {
  const Outcome outcome =
      RunCommand({"--trace=gen:kv", "--idle_share=0.5", "--json"});
  EXPECT_EQ(outcome.exit_status, kExitBadInput);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("--idle_share"));
}

// Of firn and of the policy that moves blocks under new addresses.
TEST(ReplayCommandTest, TheMoreWasteIsToleratedTheLessIsCopied) {
  for (const std::string policy : {"firn", "paged_migrating"}) {
    uint64_t last_copied = ~uint64_t{0};
    for (const std::string percent : {"0", "10", "100"}) {
      const Outcome outcome =
          RunCommand({"--trace=gen:kv,days=0.02,events=20K",
                      "--policy=" + policy, "--compaction=background",
                      "--tolerated_waste=" + percent, "--json"});
      ASSERT_EQ(outcome.exit_status, kExitOk) << outcome.err;
      const auto json = nlohmann::json::parse(outcome.out);
      EXPECT_EQ(json["tolerated_waste_percent"], std::stod(percent));
      EXPECT_LT(json["bytes_copied"], last_copied) << policy << percent;
      last_copied = json["bytes_copied"];
    }
  }
}

TEST(ReplayCommandTest, WithoutAWordThreePercentAreTolerated) {
  std::vector<std::string> args = {"--trace=gen:kv,days=0.02,events=20K",
                                   "--compaction=background", "--json"};
  const auto by_default = nlohmann::json::parse(RunCommand(args).out);
  EXPECT_EQ(by_default["tolerated_waste_percent"], 3);
  args.push_back("--tolerated_waste=3");
  const auto given = nlohmann::json::parse(RunCommand(args).out);
  EXPECT_GT(given["bytes_copied"], 0);
  EXPECT_EQ(given["bytes_copied"], by_default["bytes_copied"]);
  EXPECT_EQ(given["driver_us_modelled"], by_default["driver_us_modelled"]);
}

TEST(ReplayCommandTest, FullPassesShowHowCloseToTheBoundFirnComes) {
  const Outcome outcome = RunCommand(
      {"--trace=gen:kv,days=0.02,events=20K", "--full_passes=20", "--json"});
  ASSERT_EQ(outcome.exit_status, kExitOk) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_GT(json["granules_moved"], 0);
  EXPECT_EQ(json["full_passes"], 20);
  EXPECT_GE(json["mean_used_over_bound"], 1);
  EXPECT_LE(json["mean_used_over_bound"], json["worst_used_over_bound"]);
  EXPECT_LE(json["worst_used_over_bound"], 1.10);
}

TEST(ReplayCommandTest, FailedAllocationsAreNoFailure) {
  const Outcome outcome = RunCommand(
      {"--trace=" + SmallLog(), "--policy=paged", "--capacity=4MiB", "--json"});
  EXPECT_EQ(outcome.exit_status, kExitOk);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["failed_allocs"], 2);
  EXPECT_EQ(json["frees"], 1);
}

TEST(ReplayCommandTest, FindsTheLeastCapacity) {
  const Outcome outcome = RunCommand(
      {"--trace=" + SmallLog(), "--policy=paged", "--capacity=min", "--json"});
  EXPECT_EQ(outcome.exit_status, kExitOk);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_DOUBLE_EQ(json["min_capacity_over_peak"], 8388608.0 / 6291968.0);
  EXPECT_EQ(json["failed_allocs"], 0);
}

TEST(ReplayCommandTest, EveryPolicyReplaysAndGivesTheSameFiguresAgain) {
  for (const absl::string_view name : PolicyNames()) {
    const std::string policy(name);
    const std::vector<std::string> args = {"--trace=" + SmallLog(),
                                           "--policy=" + policy,
                                           "--capacity=min", "--json"};
    const Outcome first = RunCommand(args);
    ASSERT_EQ(first.exit_status, kExitOk) << first.err;
    auto json = nlohmann::json::parse(first.out);
    auto again = nlohmann::json::parse(RunCommand(args).out);
    for (const char* key : {"alloc_ns_p50", "alloc_ns_p99", "free_ns_p50",
                            "free_ns_p99", "wall_s"}) {
      json.erase(key);
      again.erase(key);
    }
    EXPECT_EQ(json, again) << policy;
    EXPECT_EQ(json["events"], 5) << policy;
  }
}

TEST(ReplayCommandTest, ContentsAreCheckedOnRealStorage) {
  const Outcome outcome =
      RunCommand({"--trace=" + SmallLog(), "--storage=real", "--verify",
                  "--capacity=16MiB", "--json"});
  EXPECT_EQ(outcome.exit_status, kExitOk) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["content_errors"], 0);
}

void ExpectOneLine(const Outcome& outcome, int exit_status) {
  EXPECT_EQ(outcome.exit_status, exit_status);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
      << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("firn_replay: "));
}

TEST(ReplayCommandTest, ABadFlagIsExitStatus2) {
  for (const std::string flag :
       {"--nonsense", "--capacity=0", "--granule=3MiB", "--policy=nobody",
        "--verify", "--storage=real"}) {
    std::vector<std::string> args = {"--trace=" + SmallLog(), flag};
    if (flag == "--storage=real") args.push_back("--policy=buddy");
    const Outcome outcome = RunCommand(args);
    ExpectOneLine(outcome, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr(flag.substr(0, flag.find('='))));
  }
}

TEST(ReplayCommandTest, AMissingTraceIsExitStatus2) {
  const Outcome outcome = RunCommand({"--trace=/no/such/trace.csv"});
  ExpectOneLine(outcome, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("/no/such/trace.csv"));
}

TEST(ReplayCommandTest, ABadTraceIsExitStatus2) {
  const std::string file = WriteLog("replay_command_test_bad.csv",
                                    "1,10:00:00.000000,allocate,0x1000,-4,0\n");
  const Outcome outcome = RunCommand({"--trace=" + file, "--policy=ideal"});
  ExpectOneLine(outcome, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr(file));
}

TEST(ReplayCommandTest, APathOfSeveralLinesGivesAMessageOfOne) {
  const Outcome outcome = RunCommand({"--trace=no\nsuch\tfile\x1b[31m"});
  EXPECT_EQ(outcome.exit_status, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("no\\nsuch\\tfile\\x1b[31m"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
}

TEST(ReplayCommandTest, AnExportOntoTheTraceItselfIsRefused) {
  const std::string file = SmallLog();
  const Outcome outcome =
      RunCommand({"--trace=" + file, "--export_rmm=" + file});
  EXPECT_EQ(outcome.exit_status, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("would replace"));
  EXPECT_EQ(RunCommand({"--trace=" + file}).exit_status, kExitOk);
}

TEST(ReplayCommandTest, AnEventThatCannotBeReplayedIsExitStatus1) {
  const std::string file = WriteLog("replay_command_test_unknown.csv",
                                    "1,10:00:00.000000,free,0x1000,4,0\n");
  const Outcome outcome = RunCommand({"--trace=" + file, "--policy=ideal"});
  ExpectOneLine(outcome, kExitFailure);
  EXPECT_THAT(outcome.err, HasSubstr(file));
}

TEST(ReplayCommandTest, HelpGoesToStandardOutput) {
  const Outcome outcome = RunCommand({"--help"});
  EXPECT_EQ(outcome.exit_status, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("--trace=SPEC"));
  EXPECT_THAT(outcome.err, IsEmpty());
}

}  // namespace
}  // namespace firn::bench
