// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_folder.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/servegen_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr char kSteady[] = "0,1,1,Gamma,1,1\n600,1,1,Gamma,1,1\n";
constexpr char kSilent[] = "0,0,0,,0,0\n600,0,0,,0,0\n";

TEST(ServeGenFolderTest, ReadsClientsByNumberAndLeavesOutTheUnknown) {
  const std::string path = WriteServeGenFolder({
      {"chunk-10-trace.csv", kSteady},
      {"chunk-10-dataset.json", LengthsFile("10: 1", "1: 1")},
      {"chunk-9-trace.csv", kSteady},
      {"chunk-9-dataset.json", LengthsFile("9: 1", "1: 1")},
      // Without a dataset, without lengths, without requests, without rates.
      {"chunk-3-trace.csv", "0,1,1,Gamma,1,1\n900,1,1,Gamma,1,1\n"},
      {"chunk-4-trace.csv", kSteady},
      {"chunk-4-dataset.json", LengthsFile("", "")},
      {"chunk-5-trace.csv", kSilent},
      {"chunk-5-dataset.json", LengthsFile("5: 1", "1: 1")},
      {"chunk-6-dataset.json", LengthsFile("6: 1", "1: 1")},
      {"chunk-07-trace.csv", "no client's"},
      {"README.md", "neither"},
  });
  FIRN_ASSERT_OK_AND_ASSIGN(const ServeGenFolder folder,
                            ReadServeGenFolder(path));
  ASSERT_EQ(folder.clients.size(), 2u);
  EXPECT_EQ(folder.clients[0].number, 9u);
  EXPECT_EQ(folder.clients[0].lengths[0].input.At(0), 9u);
  EXPECT_EQ(folder.clients[1].number, 10u);
  EXPECT_EQ(folder.span_s, 1800) << "of client 3, too";
}

TEST(ServeGenFolderTest, TimesCountFromTheEarliestWindow) {
  const std::string path = WriteServeGenFolder({
      {"chunk-0-trace.csv", "1200,1,1,Gamma,1,1\n"},
      {"chunk-0-dataset.json",
       R"({"600": {"input_tokens": "{1: 1}", "output_tokens": "{1: 1}"},
          "1200": {"input_tokens": "{2: 1}", "output_tokens": "{1: 1}"},
          "1800": {"input_tokens": "{3: 1}", "output_tokens": "{1: 1}"}})"},
      {"chunk-1-trace.csv", "600,0,0,,0,0\n"},
  });
  FIRN_ASSERT_OK_AND_ASSIGN(const ServeGenFolder folder,
                            ReadServeGenFolder(path));
  ASSERT_EQ(folder.clients.size(), 1u);
  const ServeGenClient& client = folder.clients[0];
  EXPECT_EQ(client.rates[0].start_s, 600);
  EXPECT_EQ(client.rates[0].end_s, 1200);
  EXPECT_EQ(folder.span_s, 1200);
  EXPECT_EQ(client.LengthsAt(0).input.At(0), 1u);
  EXPECT_EQ(client.LengthsAt(599).input.At(0), 1u);
  EXPECT_EQ(client.LengthsAt(600).input.At(0), 2u);
  EXPECT_EQ(client.LengthsAt(1e9).input.At(0), 3u);
}

TEST(ServeGenFolderTest, BeforeTheFirstLengthsThoseHold) {
  const std::string path = WriteServeGenFolder({
      {"chunk-0-trace.csv", kSteady},
      {"chunk-0-dataset.json",
       R"({"0": {"input_tokens": "{}", "output_tokens": "{}"},
          "600": {"input_tokens": "{2: 1}", "output_tokens": "{1: 1}"}})"},
  });
  FIRN_ASSERT_OK_AND_ASSIGN(const ServeGenFolder folder,
                            ReadServeGenFolder(path));
  EXPECT_EQ(folder.clients[0].LengthsAt(0).input.At(0), 2u);
}

TEST(ServeGenFolderTest, ExpectsRequestsByRatesAndTokensByHistograms) {
  const std::string path = WriteServeGenFolder({
      {"chunk-0-trace.csv", "0,1,1,Gamma,1,1\n600,0.5,1,Gamma,1,1\n"},
      {"chunk-0-dataset.json", LengthsFile("10: 0.5, 20: 0.5", "5: 1")},
  });
  FIRN_ASSERT_OK_AND_ASSIGN(const ServeGenFolder folder,
                            ReadServeGenFolder(path));
  EXPECT_DOUBLE_EQ(ExpectedLoad(folder, 1200).requests, 900);
  EXPECT_DOUBLE_EQ(ExpectedLoad(folder, 1200).tokens, 900 * 20);
  EXPECT_DOUBLE_EQ(ExpectedLoad(folder, 300).requests, 300);
  // Two whole rounds, a whole window and a third of one.
  EXPECT_DOUBLE_EQ(ExpectedLoad(folder, 3200).requests, 1800 + 600 + 100);
}

TEST(ServeGenFolderTest, EachBadFolderIsOneLineThatNamesTheFile) {
  using Files = std::map<std::string, std::string>;
  const std::string lengths = LengthsFile("1: 1", "1: 1");
  struct Case {
    Files files;
    const char* message;  // after the folder's path
  };
  for (const Case& c : {
           Case{{{"chunk-0-trace.csv", kSteady}},
                ": no client sends requests of known length; for a client N,"},
           Case{{{"chunk-0-dataset.json", lengths}}, ": no client sends"},
           Case{{{"chunk-0-trace.csv", kSilent},
                 {"chunk-0-dataset.json", lengths}},
                ": no client sends"},
           Case{
               {{"chunk-0-trace.csv", kSteady}, {"chunk-0-dataset.json", "{}"}},
               ": no client sends"},
           Case{{{"chunk-7-trace.csv", "0,-1,1,Gamma,1,1\n"},
                 {"chunk-7-dataset.json", lengths}},
                "/chunk-7-trace.csv:1: rate: '-1' is negative"},
           Case{{{"chunk-7-trace.csv", ""}}, "/chunk-7-trace.csv: no window"},
           Case{{{"chunk-7-trace.csv", kSteady},
                 {"chunk-7-dataset.json", "{\"0\""}},
                "/chunk-7-dataset.json: byte 5: damaged or cut off"},
       }) {
    const std::string path = WriteServeGenFolder(c.files);
    EXPECT_THAT(ReadServeGenFolder(path),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::StartsWith(path + c.message)));
  }
  EXPECT_THAT(ReadServeGenFolder("/nowhere"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("/nowhere: the folder cannot be read: No ")));
}

TEST(ServeGenFolderTest, IsOneThatHoldsATrace) {
  EXPECT_TRUE(IsServeGenFolder(
      WriteServeGenFolder({{"chunk-0-trace.csv", "damaged"}})));
  const std::string other =
      WriteServeGenFolder({{"chunk-x-trace.csv", kSteady}});
  EXPECT_FALSE(IsServeGenFolder(other));
  EXPECT_FALSE(IsServeGenFolder("/nowhere"));
  EXPECT_THAT(
      OpenTrace(other),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a folder of ServeGen data (chunk-N-trace.csv, ")));
}

}  // namespace
}  // namespace firn::bench
