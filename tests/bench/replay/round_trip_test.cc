// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Any trace, exported as an RMM log and replayed, gives the very same figures.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench/replay/command_run.h"
#include "tests/bench/traces/small_traces.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/temporary_path.h"

namespace firn::bench {
namespace {

// The figures, but for what the clock of this host says and the trace's name.
nlohmann::json FiguresOf(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_status, kExitOk) << outcome.err;
  nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << outcome.out;
  if (!json.is_object()) return json;
  for (const char* key : {"trace", "alloc_ns_p50", "alloc_ns_p99",
                          "free_ns_p50", "free_ns_p99", "wall_s"}) {
    EXPECT_EQ(json.erase(key), 1u) << key;
  }
  return json;
}

void ExpectTheSameFigures(const std::string& spec, const std::string& copy,
                          const std::vector<std::string>& flags) {
  std::vector<std::string> args = {"--trace=" + spec, "--export_rmm=" + copy,
                                   "--json"};
  args.insert(args.end(), flags.begin(), flags.end());
  const nlohmann::json original = FiguresOf(RunCommand(args));
  args[0] = "--trace=" + copy;
  args.erase(args.begin() + 1);
  EXPECT_EQ(FiguresOf(RunCommand(args)), original)
      << ::testing::PrintToString(flags);
  if (original.is_object()) {
    EXPECT_GT(original["allocs"], 30);
  }
}

class RoundTripTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundTripTest, AnExportedTraceGivesTheSameFigures) {
  const SmallTrace trace = WriteSmallTrace(GetParam());
  const std::string copy = WriteFile("copy.csv", "");
  ExpectTheSameFigures(trace.spec, copy,
                       {"--policy=firn", "--compaction=background"});
  ExpectTheSameFigures(trace.spec, copy,
                       {"--policy=expandable", "--capacity=1.1x"});
  ExpectTheSameFigures(trace.spec, copy, {"--policy=paged", "--capacity=min"});
}

INSTANTIATE_TEST_SUITE_P(Sources, RoundTripTest,
                         ::testing::ValuesIn(SmallTraceNames()),
                         [](const auto& test) { return test.param; });

// The public traces, as they are.
TEST(PublicRoundTripTest, OfTheTrainingSnapshot) {
  FIRN_PUBLIC_TRACE_OR_SKIP(
      path, "pytorch_snapshots/medium_1024_training_memory_snapshot.pickle");
  ExpectTheSameFigures(path, WriteFile("copy.csv", ""), {"--policy=caching"});
}

TEST(PublicRoundTripTest, OfAzuresConversations) {
  FIRN_PUBLIC_TRACE_OR_SKIP(path, "azure/AzureLLMInferenceTrace_conv.csv");
  ExpectTheSameFigures(path + ",days=0.05,dilate=30", WriteFile("copy.csv", ""),
                       {"--policy=buddy"});
}

TEST(PublicRoundTripTest, OfMooncakesConversations) {
  FIRN_PUBLIC_TRACE_OR_SKIP(path, "mooncake/conversation_trace.jsonl");
  ExpectTheSameFigures(path + ",days=0.01", WriteFile("copy.csv", ""),
                       {"--policy=best_fit"});
}

TEST(PublicRoundTripTest, OfServeGensClients) {
  FIRN_PUBLIC_TRACE_OR_SKIP(path, "servegen/language/m-small");
  ExpectTheSameFigures(path + ",days=0.2,events=100K",
                       WriteFile("copy.csv", ""), {"--policy=slab"});
}

}  // namespace
}  // namespace firn::bench
