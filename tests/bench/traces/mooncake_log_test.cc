// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/mooncake_log.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kGoodLine[] =
    "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 0, "
    "\"hash_ids\": [0]}\n";

absl::StatusOr<std::vector<Request>> ReadAll(const std::string& path) {
  absl::StatusOr<std::unique_ptr<RequestSource>> rows =
      MooncakeRows::Open(path);
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

std::string Row(absl::string_view timestamp, absl::string_view input,
                absl::string_view output, absl::string_view ids) {
  return absl::StrCat(
      "{\"timestamp\": ", timestamp, ", \"input_length\": ", input,
      ", \"output_length\": ", output, ", \"hash_ids\": ", ids, "}");
}

TEST(MooncakeLogTest, ReadsRequestsWithTheirPieces) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<Request> log,
      ReadAll(WriteFile(
          "f", absl::StrCat(Row("27482", "513", "52", "[46, 47]"), "\r\n\n",
                            // Fields in any order, and others.
                            "{\"hash_ids\":[],\"turn\":[[]],\"output_length\":3"
                            ",\"input_length\":0,\"timestamp\":27483}"))));
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].time_us, 27'482'000);
  EXPECT_EQ(log[0].context_tokens, 513u);
  EXPECT_EQ(log[0].generated_tokens, 52u);
  EXPECT_THAT(log[0].prefix_pieces, ElementsAre(46, 47));
  EXPECT_EQ(log[0].prefix_piece_tokens, 512u);
  EXPECT_EQ(log[1].time_us, 27'483'000);
  EXPECT_EQ(log[1].generated_tokens, 3u);
  EXPECT_THAT(log[1].prefix_pieces, ElementsAre());
}

TEST(MooncakeLogTest, NamesLineFieldAndReasonOfABadLine) {
  struct Case {
    std::string line;
    const char* message;
  };
  for (const Case& c : {
           Case{"{\"timestamp\": 1, \"hash_ids\"", "is no JSON; give {\"time"},
           Case{"[1, 2]", "'[1, 2]' is no JSON object; give {\"timestamp\""},
           Case{"7", "'7' is no JSON object"},
           Case{"\x80\x01\xff\x02", "is no JSON"},
           Case{"{\"timestamp\": 1}", "input_length: missing"},
           Case{"{\"input_length\": 1}", "timestamp: missing"},
           Case{"{\"timestamp\": 1, \"input_length\": 1}",
                "output_length: missing"},
           Case{"{\"timestamp\":1,\"input_length\":1,\"output_length\":1}",
                "hash_ids: missing"},
           Case{Row("-3", "1", "1", "[1]"),
                "timestamp: -3 is negative; give 0 or more"},
           Case{Row("1000000000000001", "1", "1", "[1]"),
                "timestamp: 1000000000000001 is too late; at most "
                "1000000000000000"},
           Case{Row("1", "1.5", "1", "[1]"),
                "input_length: 1.5 is not a whole number"},
           Case{Row("1", "99999999999999999999", "1", "[1]"),
                "input_length: 1e+20 is not a whole number of at most 64 bits"},
           Case{Row("1", "\"x\"", "1", "[1]"),
                "input_length: of type string; give a whole number"},
           Case{Row("1", "1", "null", "[1]"),
                "output_length: of type null; give a whole number"},
           Case{Row("1", "1", "10000001", "[1]"),
                "output_length: 10000001 is more than any model's context; at "
                "most 10000000"},
           Case{Row("1", "513", "1", "[1]"),
                "hash_ids: 1 numbers for 513 tokens; give 2, one for each 512 "
                "tokens, the last may be for fewer"},
           Case{Row("1", "512", "1", "[1, 2]"),
                "hash_ids: 2 numbers for 512 tokens; give 1"},
           Case{Row("1", "1", "1", "3"),
                "hash_ids: of type number; give an array"},
           Case{Row("1", "1", "1", "[true]"),
                "hash_ids: of type boolean; give a whole number"},
           Case{Row("1", "1", "1", "[-1]"), "hash_ids: -1 is negative"},
           Case{Row("1", "1", "1", "[1099511627776]"),
                "hash_ids: 1099511627776 is too large to number a piece; at "
                "most 1099511627775"},
           Case{Row("-1e3", "1", "1", "[1]"),
                "timestamp: -1000.0 is negative; give 0 or more"},
           Case{Row("1e15", "1", "1", "[1.5]"), "hash_ids: 1.5 is not a whole"},
           Case{Row("1e16", "1", "1", "[1]"),
                "timestamp: 10000000000000000 is too late"},
           Case{std::string(70'000, ' '),
                "a line of more than 65536 characters, the most that is read"},
       }) {
    EXPECT_THAT(
        ReadAll(WriteFile("f", absl::StrCat(kGoodLine, c.line, "\n"))),
        StatusIs(kInvalid, AllOf(HasSubstr("/f:2: "), HasSubstr(c.message))))
        << c.line.substr(0, 100);
  }
}

TEST(MooncakeLogTest, AWholeNumberIsWholeHoweverItIsWritten) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<Request> log,
      ReadAll(WriteFile("f", Row("1e3", "513.0", "5.2e1", "[46.0, 4.7e1]"))));
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].time_us, 1'000'000);
  EXPECT_EQ(log[0].context_tokens, 513u);
  EXPECT_EQ(log[0].generated_tokens, 52u);
  EXPECT_THAT(log[0].prefix_pieces, ElementsAre(46, 47));
}

TEST(MooncakeLogTest, BlankLinesHaveALimit) {
  EXPECT_THAT(
      ReadAll(WriteFile("f", kGoodLine + std::string(1'000'001, '\n'))),
      StatusIs(kInvalid, HasSubstr("/f:1000002: more than 1000000 characters "
                                   "of blank lines")));
}

TEST(MooncakeLogTest, DeeplyNestedLinesAreRefused) {
  constexpr size_t kDepth = 32'000;
  const std::string open(kDepth, '[');
  const std::string nested = open + std::string(kDepth, ']');
  for (const std::string& line :
       {open + open, nested, Row("1", nested, "1", "[1]"),
        Row("1", "1", "1", nested), Row("1", "1", "1", open)}) {
    EXPECT_THAT(ReadAll(WriteFile("f", line)),
                StatusIs(kInvalid, HasSubstr("/f:1: ")));
  }
}

TEST(MooncakeLogTest, ALogWithoutRequestsIsAnError) {
  for (const std::string contents : {"", "\n \n"}) {
    EXPECT_THAT(ReadAll(WriteFile("f", contents)),
                StatusIs(kInvalid, EndsWith("/f: no request; one JSON object a "
                                            "line is expected")));
  }
}

TEST(MooncakeLogTest, IsRecognisedByItsFirstLine) {
  EXPECT_TRUE(IsMooncakeLog(kGoodLine));
  EXPECT_TRUE(IsMooncakeLog(" {\"hash_ids\": [1, 2"));
  EXPECT_TRUE(IsMooncakeLog("{\"timestamp\": 1, \"input_length\": 5}"));
  EXPECT_FALSE(IsMooncakeLog("{\"timestamp\": 1}"));
  EXPECT_FALSE(IsMooncakeLog("hash_ids,\"hash_ids\""));
  EXPECT_FALSE(IsMooncakeLog(""));
  // Whatever else is wrong, the message is that of the format.
  EXPECT_THAT(OpenTrace(WriteFile("f", "{\"hash_ids\": [1]}")),
              StatusIs(kInvalid, EndsWith("/f:1: timestamp: missing")));
}

TEST(MooncakeLogTest, RefusesTheKeysThatContentsReplace) {
  const std::string path = WriteFile("f", kGoodLine);
  EXPECT_THAT(
      OpenTrace(path + ",hit=0.5"),
      StatusIs(kInvalid, AllOf(StartsWith(path + ": key hit='0.5': this log "),
                               HasSubstr("blocks are shared by that"))));
  EXPECT_THAT(
      OpenTrace(path + ",loops=2"),
      StatusIs(kInvalid, path +
                             ": unknown key 'loops'; the keys of a Mooncake "
                             "request log are layout, block_bytes, "
                             "block_tokens, token_bytes, decode_tps, retain, "
                             "retain_budget, hit, days, dilate, events, seed"));
  FIRN_EXPECT_OK(OpenTrace(path + ",layout=sequences,hit=0.5").status());
}

TEST(MooncakeLogTest, ALogPlayedAgainHasOtherContents) {
  const std::string path =
      WriteFile("f", absl::StrCat(Row("0", "1024", "0", "[0, 1]"), "\n",
                                  Row("9000", "1024", "0", "[0, 2]"), "\n"));
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      OpenTrace(path + ",days=0.001,block_tokens=512,block_bytes=1"));
  // Allocations by the time: two, then one, and that again and again.
  std::vector<int> allocs;
  int64_t time_us = -1;
  for (const TraceEvent& event : Gather(trace.get())) {
    ASSERT_EQ(event.kind, TraceEventKind::kAllocate);
    if (event.time_us != time_us) allocs.push_back(0);
    time_us = event.time_us;
    ++allocs.back();
  }
  // 86.4 s at little more than half the log's own rate (0.525 of it) have what
  // the log has in 45.4 s: a request each 9 s.
  EXPECT_THAT(allocs, ElementsAre(2, 1, 2, 1, 2, 1));
}

TEST(MooncakeLogTest, TheConversationsShareTheirIdealShare) {
  FIRN_PUBLIC_TRACE_OR_SKIP(path, "mooncake/conversation_trace.jsonl");
  FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<Request> log, ReadAll(path));
  EXPECT_EQ(log.size(), 12'031u);
  // One model, blocks of a piece, and all the budget there is: the blocks that
  // are asked for and not allocated are the pieces met before, but for last
  // ones of fewer tokens.
  KvOptions options;
  options.block_bytes = {1};
  options.block_tokens = options.shared_piece_tokens = kMooncakePieceTokens;
  options.retain_budget_bytes = uint64_t{1} << 50;
  uint64_t pieces = 0;
  uint64_t asked = 0;
  for (const Request& request : log) {
    pieces += request.prefix_pieces.size();
    asked += MostKvEvents(request, options) / 2;
  }
  EXPECT_EQ(pieces, 288'500u);
  KvServer server("kv", std::make_unique<ListedRequests>(log), options);
  const TraceTotals totals = TotalsOf(Gather(&server));
  EXPECT_NEAR(
      static_cast<double>(asked - totals.allocs) / static_cast<double>(pieces),
      0.366, 0.0005);
}

}  // namespace
}  // namespace firn::bench
