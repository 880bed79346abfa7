// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/azure_log.h"

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
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kHeader[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

absl::StatusOr<std::vector<Request>> ReadAll(const std::string& path) {
  absl::StatusOr<std::unique_ptr<RequestSource>> rows =
      CsvRequests::Open(path, kAzureLog);
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

TEST(AzureLogTest, ReadsRequestsAndNeedsNoFinalNewline) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<Request> log,
      ReadAll(WriteFile("f", std::string(kHeader) +
                                 "2023-11-16 18:15:46.6805900,374,44\n"
                                 "2023-11-16 18:15:50.9951690,396,109")));
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].context_tokens, 374u);
  EXPECT_EQ(log[1].context_tokens, 396u);
  EXPECT_EQ(log[1].generated_tokens, 109u);
  EXPECT_EQ(log[1].time_us - log[0].time_us, 4'314'579);
}

TEST(AzureLogTest, NamesLineColumnAndReasonOfABadRow) {
  struct Case {
    const char* row;
    const char* message;
  };
  for (const Case& c : {
           Case{"yesterday,374,44", ":2: TIMESTAMP: 'yesterday' is not a time"},
           Case{"2023-11-16 18:15:46,-374,44",
                ":2: ContextTokens: '-374' is negative"},
           Case{"2023-11-16 18:15:46,374,99999999999999999999",
                ":2: GeneratedTokens: '99999999999999999999' is beyond 64"},
           Case{"2023-11-16 18:15:46,374,10000001",
                ":2: GeneratedTokens: 10000001 is more than any model's"},
           Case{"2023-11-16 18:15:46,3.5,1", ":2: ContextTokens: '3.5' is not"},
           Case{"2023-11-16 18:15:46,374", ":2: 2 fields where the header has"},
           Case{"", ": a header and no request"},
       }) {
    EXPECT_THAT(ReadAll(WriteFile("f", std::string(kHeader) + c.row)),
                StatusIs(kInvalid, HasSubstr(std::string("/f") + c.message)));
  }
}

TEST(AzureLogTest, AnUnknownKeyListsThoseOfRequestLogs) {
  const std::string path = WriteFile(
      "f", std::string(kHeader) + "2023-11-16 18:15:46.6805900,374,44\n");
  EXPECT_THAT(OpenTrace(path + ",loops=2"),
              StatusIs(kInvalid,
                       Eq(path + ": unknown key 'loops'; the keys of an Azure "
                                 "request log are layout, block_bytes, "
                                 "block_tokens, token_bytes, decode_tps, "
                                 "retain, retain_budget, hit, days, dilate, "
                                 "events, seed")));
  EXPECT_THAT(OpenTrace(path + ",block_bytes=32KiB+0"),
              StatusIs(kInvalid, HasSubstr("key block_bytes='32KiB+0': out of "
                                           "range; give 1B to 1TiB")));
}

TEST(AzureLogTest, ThreeDaysOfConversationsHaveTheirKnownFigures) {
  FIRN_PUBLIC_TRACE_OR_SKIP(path, "azure/AzureLLMInferenceTrace_conv.csv");
  FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<Request> log, ReadAll(path));
  EXPECT_EQ(log.size(), 19'366u);
  // What matters to a pool: about 4.4 GiB at the peak and some 400 GiB in all.
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenTrace(path + ",days=3,dilate=30"));
  const std::vector<TraceEvent> events = Gather(trace.get());
  const TraceTotals totals = TotalsOf(events);
  constexpr double kGib = 1 << 30;
  EXPECT_NEAR(static_cast<double>(totals.peak_live_bytes) / kGib, 4.4, 0.4);
  EXPECT_NEAR(static_cast<double>(totals.allocated_bytes) / kGib, 400, 50);
  EXPECT_EQ(totals.greatest_id + 1, totals.most_live_blocks);
  EXPECT_NEAR(static_cast<double>(events.back().time_us) / 3600e6, 72, 1);
}

}  // namespace
}  // namespace firn::bench
