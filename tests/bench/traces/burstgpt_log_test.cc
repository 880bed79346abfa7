// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/burstgpt_log.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/traces/csv_requests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kHeader[] =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";

absl::StatusOr<std::vector<Request>> ReadAll(const std::string& path) {
  absl::StatusOr<std::unique_ptr<RequestSource>> rows =
      CsvRequests::Open(path, kBurstGptLog);
  if (!rows.ok()) return rows.status();
  std::vector<Request> log;
  Request request;
  while (true) {
    absl::StatusOr<bool> found = (*rows)->Next(&request);
    if (!found.ok()) return found.status();
    if (!*found) return log;
    log.push_back(request);
  }
}

TEST(BurstGptLogTest, ReadsRequestsWhateverTheModel) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<Request> log,
      ReadAll(WriteFile("f", std::string(kHeader) +
                                 "5,ChatGPT,472,18,490,Conversation log\n"
                                 "45.25,GPT-4,1087,230,1317,API log\n")));
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].time_us, 5'000'000);
  EXPECT_EQ(log[0].context_tokens, 472u);
  EXPECT_EQ(log[0].generated_tokens, 18u);
  EXPECT_EQ(log[1].time_us, 45'250'000);
  EXPECT_EQ(log[1].context_tokens, 1087u);
  EXPECT_EQ(log[1].generated_tokens, 230u);
}

TEST(BurstGptLogTest, FindsItsColumnsAmongThoseOfSessions) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<Request> log,
      ReadAll(WriteFile("f",
                        "Timestamp,Session ID,Elapsed time,Model,Request "
                        "tokens,Response tokens,Total tokens,Log Type\r\n"
                        "1.5,7,0.9,GPT-4,10,20,30,API log\r\n")));
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].context_tokens, 10u);
  EXPECT_EQ(log[0].generated_tokens, 20u);
}

TEST(BurstGptLogTest, AFailedRequestHoldsItsPromptForAMoment) {
  const std::string path =
      WriteFile("f", std::string(kHeader) + "5,GPT-4,33,0,33,API log\n");
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      OpenTrace(path + ",block_bytes=1KiB,retain=0,days=0.00001"));
  // 33 tokens are three blocks of 16; last to first.
  EXPECT_EQ(
      Gather(trace.get()),
      (std::vector<TraceEvent>{Allocated(0, 0, 1024), Allocated(0, 1, 1024),
                               Allocated(0, 2, 1024), Freed(0, 2, 1024),
                               Freed(0, 1, 1024), Freed(0, 0, 1024)}));
}

TEST(BurstGptLogTest, NamesLineColumnAndReasonOfABadRow) {
  struct Case {
    std::string row;
    const char* message;
  };
  for (const Case& c : {
           Case{"noon,GPT-4,1,1,2,API log",
                ":2: Timestamp: 'noon' is not a number"},
           Case{",GPT-4,1,1,2,API log", ":2: Timestamp: empty"},
           Case{"-5,GPT-4,1,1,2,API log", ":2: Timestamp: '-5' is negative"},
           Case{"nan,GPT-4,1,1,2,API log",
                ":2: Timestamp: 'nan' is not a number"},
           Case{"1e13,GPT-4,1,1,2,API log",
                ":2: Timestamp: '1e13' is out of range; at most 1e+12"},
           Case{"5,GPT-4,-1,1,2,API log",
                ":2: Request tokens: '-1' is negative"},
           Case{"5,GPT-4,1.5,1,2,API log",
                ":2: Request tokens: '1.5' is not a whole number"},
           Case{"5,GPT-4,,1,2,API log",
                ":2: Request tokens: '' is not a whole number"},
           Case{"5,GPT-4,1,99999999999999999999,2,API log",
                ":2: Response tokens: '99999999999999999999' is beyond 64"},
           Case{"5,GPT-4,1,10000001,2,API log",
                ":2: Response tokens: 10000001 is more than any model's"},
           Case{"5,GPT-4,1,1,2", ":2: 5 fields where the header has 6"},
           Case{"5,GPT-4,1,1,2,API log\n6,GPT-4,x,1,2,API log",
                ":3: Request tokens: 'x' is not a whole number"},
           Case{std::string(100'000, '5'), ":2: a line of more than 65536"},
           Case{"", ": a header and no request"},
       }) {
    EXPECT_THAT(
        ReadAll(WriteFile("f", kHeader + c.row)),
        StatusIs(kInvalid, AllOf(HasSubstr(std::string("/f") + c.message),
                                 Not(HasSubstr("\n")))));
  }
  EXPECT_THAT(OpenTrace(WriteFile("f", "Timestamp,Request tokens,Answer\n")),
              StatusIs(kInvalid, HasSubstr("f:1: no column 'Response tokens'; "
                                           "the header should be Timestamp,")));
}

TEST(BurstGptLogTest, AnUnknownKeyNamesTheFormat) {
  const std::string path =
      WriteFile("f", std::string(kHeader) + "5,GPT-4,33,0,33,API log\n");
  EXPECT_THAT(OpenTrace(path + ",loops=2"),
              StatusIs(kInvalid, HasSubstr("unknown key 'loops'; the keys of a "
                                           "BurstGPT request log are")));
}

}  // namespace
}  // namespace firn::bench
