// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/options.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::gpu_check {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OptionsTest, ByDefaultAllIsDoneOnDeviceZeroInUnderFourMinutes) {
  const auto options = ParseOptions({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->only, "");
  EXPECT_EQ(options->device, 0);
  EXPECT_LT(options->budget_s, 240);
}

TEST(OptionsTest, TakesWhatItKnows) {
  const auto options =
      ParseOptions({"--only=waits", "--json=a.json", "--library=/l.so",
                    "--device=3", "--budget_s=1.5"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->only, "waits");
  EXPECT_EQ(options->json, "a.json");
  EXPECT_EQ(options->library, "/l.so");
  EXPECT_EQ(options->device, 3);
  EXPECT_EQ(options->budget_s, 1.5);
}

TEST(OptionsTest, PassesOnWhatIsForTheTests) {
  const auto options =
      ParseOptions({"--only=tests", "--gtest_filter=A.*", "--gtest_shuffle"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->gtest_flags,
              ElementsAre("--gtest_filter=A.*", "--gtest_shuffle"));
}

TEST(OptionsTest, NamesWhatIsWrong) {
  for (const char* const word :
       {"--only=everything", "--only=", "--only=device",
        "--json=", "--library=", "--device=-1", "--device=x",
        "--device=", "--budget_s=0", "--budget_s=nan", "--budget_s=1e9",
        "--budget_s=", "--nonsense", "word", ""}) {
    const auto options = ParseOptions({word});
    ASSERT_FALSE(options.ok()) << word;
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(word));
  }
}

TEST(OptionsTest, FlagsOfTestsThatAreLeftOutAreRefused) {
  const auto options = ParseOptions({"--only=measure", "--gtest_filter=A.*"});
  ASSERT_FALSE(options.ok());
  EXPECT_THAT(std::string(options.status().message()),
              HasSubstr("--gtest_filter=A.*"));
}

}  // namespace
}  // namespace firn::gpu_check
