// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Finished {
  int exit_status = -1;
  std::string output;
};

// Runs a shell's command.
Finished RunCommand(const std::string& command) {
  Finished finished;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return finished;
  char buffer[4096];
  size_t count = 0;
  while ((count = fread(buffer, 1, sizeof(buffer), pipe)) > 0) {
    finished.output.append(buffer, count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) finished.exit_status = WEXITSTATUS(status);
  return finished;
}

// Runs firn_info with a shell's arguments and redirections.
Finished RunFirnInfo(absl::string_view arguments) {
  return RunCommand(absl::StrCat(FIRN_INFO_BINARY, " ", arguments));
}

TEST(FirnInfoTest, HelpGoesToStandardOutput) {
  const Finished finished = RunFirnInfo("--help 2>/dev/null");
  EXPECT_EQ(finished.exit_status, 0);
  EXPECT_THAT(finished.output, StartsWith("usage: firn_info"));
}

TEST(FirnInfoTest, AnUnknownFlagIsNamedInOneLineOnStandardError) {
  const Finished finished = RunFirnInfo("--bogus 2>&1 >/dev/null");
  EXPECT_EQ(finished.exit_status, 2);
  EXPECT_EQ(finished.output,
            "firn_info: unknown flag '--bogus' (see --help)\n");
  EXPECT_THAT(RunFirnInfo("--bogus 2>/dev/null").output, IsEmpty());
}

TEST(FirnInfoTest, AFlagWithoutItsValueIsUnknown) {
  EXPECT_EQ(RunFirnInfo("--library= 2>&1 >/dev/null").output,
            "firn_info: unknown flag '--library=' (see --help)\n");
  EXPECT_EQ(RunFirnInfo("--json --library 2>/dev/null").exit_status, 2);
}

TEST(FirnInfoTest, BothDriversAreReported) {
  const Finished finished = RunFirnInfo("");
  EXPECT_EQ(finished.exit_status, 0);
  EXPECT_THAT(finished.output,
              AllOf(StartsWith("CUDA driver\n"), HasSubstr("\nCPU driver\n"),
                    ContainsRegex("minimum granularity +2 MiB"),
                    ContainsRegex("memory +[0-9.]+ [MGT]iB free of ")));
}

TEST(FirnInfoTest, ALibraryThatIsNotThereIsTheReasonForNoDevice) {
  const Finished finished = RunFirnInfo("--library=/nowhere/libcuda.so.1");
  EXPECT_EQ(finished.exit_status, 0);
  EXPECT_THAT(finished.output,
              ContainsRegex("^CUDA driver\n  unavailable +cannot open the CUDA "
                            "driver: /nowhere/libcuda.so.1: "));
  EXPECT_THAT(finished.output, Not(HasSubstr("no (there is no virtual")));
}

// The CPU driver's library is a CUDA driver with two devices here.
constexpr char kSmallDevices[] =
    "FIRN_CPU_DRIVER=devices=2,device_bytes=64MiB,granularity=64KiB ";

std::string WithCpuLibrary(absl::string_view settings,
                           absl::string_view flags) {
  return absl::StrCat(settings, FIRN_INFO_BINARY,
                      " --library=", FIRN_CPU_LIBCUDA, " ", flags);
}

TEST(FirnInfoTest, EveryDeviceOfTheLibraryIsReportedWithWhatItCanDo) {
  const Finished finished = RunCommand(WithCpuLibrary(kSmallDevices, ""));
  EXPECT_EQ(finished.exit_status, 0);
  const std::string cuda =
      finished.output.substr(0, finished.output.find("\nCPU driver\n"));
  EXPECT_THAT(cuda, AllOf(ContainsRegex("device +0 \\(firn CPU driver\\)\n"),
                          ContainsRegex("device +1 \\(firn CPU driver\\)\n"),
                          ContainsRegex("driver version +13.0\n"),
                          ContainsRegex("minimum granularity +64 KiB\n"),
                          ContainsRegex("minimum granularity, host +64 KiB\n"),
                          ContainsRegex("memory +64 MiB free of 64 MiB\n")));
  EXPECT_THAT(
      cuda,
      AllOf(ContainsRegex("virtual memory +yes \\(attribute 102 of the device "
                          "is 1, and a trial succeeded\\)\n"),
            ContainsRegex("64-bit stream values +yes \\("),
            ContainsRegex("fabric handles +no \\(attribute 128 of the device "
                          "is 0\\)\n"),
            ContainsRegex("host spill +yes \\(memory of the host: "),
            ContainsRegex("peer access +yes \\(1 of 1 other devices\\)\n"),
            ContainsRegex("access to device 0 +yes \\("),
            ContainsRegex("access to device 1 +yes \\(")));
}

TEST(FirnInfoTest, WhatADeviceRefusesIsTheReason) {
  const Finished finished = RunCommand(
      WithCpuLibrary("FIRN_CPU_DRIVER=device_bytes=64MiB,errors=quiet,"
                     "fail=cuMemCreate:1:NOT_PERMITTED ",
                     ""));
  EXPECT_EQ(finished.exit_status, 0);
  EXPECT_THAT(finished.output,
              AllOf(ContainsRegex("virtual memory +no \\(cuMemCreate: "
                                  "CUDA_ERROR_NOT_PERMITTED \\(800\\)\\)\n"),
                    ContainsRegex("host spill +no \\(there is no virtual ")));
}

TEST(FirnInfoTest, JsonHasTheSame) {
  const Finished finished = RunCommand(WithCpuLibrary(kSmallDevices, "--json"));
  EXPECT_EQ(finished.exit_status, 0);
  const auto json = nlohmann::json::parse(finished.output);
  ASSERT_EQ(json["drivers"].size(), 2u);
  const auto& cuda = json["drivers"][0];
  EXPECT_EQ(cuda["name"], "CUDA driver");
  ASSERT_EQ(cuda["devices"].size(), 2u);
  const auto& device = cuda["devices"][1];
  EXPECT_EQ(device["ordinal"], 1);
  EXPECT_EQ(device["name"], "firn CPU driver");
  EXPECT_EQ(device["driver_version"], 13000);
  EXPECT_EQ(device["granularity"]["minimum_bytes"], 65536);
  EXPECT_EQ(device["host_granularity"]["recommended_bytes"], 65536);
  EXPECT_EQ(device["memory"]["total_bytes"], 67108864);
  EXPECT_EQ(device["capabilities"]["virtual memory"]["available"], true);
  EXPECT_EQ(device["capabilities"]["fabric handles"]["available"], false);
  EXPECT_EQ(device["capabilities"]["fabric handles"]["reason"],
            "attribute 128 of the device is 0");
  EXPECT_EQ(device["peers"][0]["ordinal"], 0);
  EXPECT_EQ(device["peers"][0]["access"]["available"], true);
  EXPECT_EQ(json["drivers"][1]["name"], "CPU driver");
}

TEST(FirnInfoTest, JsonSaysWhyThereIsNoDeviceWhateverCharactersThatTakes) {
  const Finished finished =
      RunFirnInfo("--json --library='/no\"where\\\\\tlibcuda.so.1'");
  const auto json = nlohmann::json::parse(finished.output);
  const auto& cuda = json["drivers"][0];
  EXPECT_TRUE(cuda["devices"].empty());
  EXPECT_THAT(cuda["unavailable"].get<std::string>(),
              HasSubstr("/no\"where\\\\\tlibcuda.so.1"));
}

}  // namespace
}  // namespace firn::testing
