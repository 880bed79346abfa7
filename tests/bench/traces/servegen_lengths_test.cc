// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_lengths.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kManyLengths = 1000;

TEST(ServeGenLengthsTest, ReadsWindowsThatHaveLengthsByTime) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<LengthWindow> windows,
                            ReadServeGenLengths(WriteFile("f", R"({
            "43200": {"input_tokens": "{7: 1.0}", "output_tokens": "{8: 1.0}"},
            "21600": {"input_tokens": "{}", "output_tokens": "{}"},
            "0": {"output_tokens": "{2: 0.5, 3: 0.5}",
                  "reason_ratio": [1, {"input_tokens": 5}, null, true, -1, 0.5],
                  "input_tokens": "{1: 1.0}", "note": "none"}})"),
                                                kManyLengths));
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].start_s, 0);
  EXPECT_EQ(windows[0].input.At(0), 1u);
  EXPECT_EQ(windows[0].output.lengths(), 2u);
  EXPECT_EQ(windows[1].start_s, 43200);
  EXPECT_EQ(windows[1].output.At(0), 8u);
}

TEST(ServeGenLengthsTest, MayHoldNoLengths) {
  EXPECT_THAT(*ReadServeGenLengths(WriteFile("f", "{}"), kManyLengths),
              IsEmpty());
}

TEST(ServeGenLengthsTest, EachBadFileIsOneLineThatNamesWindowAndField) {
  const std::string fine =
      R"("input_tokens": "{1: 1}", "output_tokens": "{1: 1}")";
  struct Case {
    std::string contents;
    const char* message;
  };
  for (
      const Case& c : {
          Case{"",
               ": byte 1: damaged or cut off at ''; {window: {input_tokens:"},
          Case{"not json", ": byte 2: damaged or cut off at 'no'; {"},
          Case{R"({"0": {)" + fine, ": byte 59: damaged or cut off at "},
          Case{R"({"0": {)" + fine + "}} x",
               ": byte 62: damaged or cut off at "},
          Case{std::string("{\"0\xff\": 1}"),
               ": byte 4: damaged or cut off at "},
          Case{"[]", ": a value of another type; {window: {input_tokens:"},
          Case{"5", ": a value of another type; "},
          Case{R"({"0": 5})", ": window '0': a value of another type"},
          Case{R"({"0": []})", ": window '0': a value of another type"},
          Case{R"({"0": {"input_tokens": {"1": 1}}})",
               ": window '0': input_tokens: a value of another type"},
          Case{R"({"0": {"output_tokens": 5}})",
               ": window '0': output_tokens: a value of another type"},
          Case{R"({"0": {"input_tokens": "{1: 1}"}})",
               ": window '0': no output_tokens; {window: "},
          Case{R"({"0": {}})", ": window '0': no input_tokens; {window: "},
          Case{R"({"0": {"input_tokens": "{}", "output_tokens": "{1: 1}"}})",
               ": window '0': lengths for only one of input_tokens and"},
          Case{R"({"noon": {)" + fine + "}}",
               ": a window's start: 'noon' is not a number"},
          Case{R"({"-600": {)" + fine + "}}",
               ": a window's start: '-600' is negative"},
          Case{R"({"0": {)" + fine + R"(}, "0.0": {)" + fine + "}}",
               ": two windows start at 0 s"},
          Case{R"({"600": {"input_tokens": "{1: 0.5}"}})",
               ": window '600': input_tokens: the probabilities add up to 0.5"},
          Case{R"({"600": {"input_tokens": "{1: -1}"}})",
               ": window '600': input_tokens: the probability of 1: '-1' is"},
          Case{R"({"600": {"output_tokens": "{10000001: 1}"}})",
               ": window '600': output_tokens: a length: 10000001 is more"},
          Case{
              R"({"600": {"output_tokens": "{1: .2, 2: .2, 3: .2, 4: .2, 5: .2}"}})",
              ": window '600': output_tokens: too many lengths in all"},
          Case{std::string(100'000, '['), ": a value of another type"},
          Case{R"({"0": {"x": )" + std::string(100'000, '['),
               ": byte 100013: damaged or cut off at "},
      }) {
    const std::string path = WriteFile("f", c.contents);
    EXPECT_THAT(
        ReadServeGenLengths(path, 4),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith(path + c.message), Not(HasSubstr("\n")))));
  }
}

}  // namespace
}  // namespace firn::bench
