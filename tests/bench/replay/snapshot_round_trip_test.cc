// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of a replay is a trace itself: of the events that led to it.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench/replay/command_run.h"
#include "tests/support/temporary_path.h"

namespace firn::bench {
namespace {

using ::firn::testing::TemporaryPath;
using ::testing::HasSubstr;

nlohmann::json MustReplay(const std::vector<std::string>& args) {
  const Outcome outcome = RunCommand(args);
  EXPECT_EQ(outcome.exit_status, kExitOk) << outcome.err;
  return nlohmann::json::parse(outcome.out, nullptr, false);
}

TEST(SnapshotRoundTripTest, TheSnapshotEndsWhereMostIsLive) {
  const std::string file = TemporaryPath("peak.pickle");
  const nlohmann::json original =
      MustReplay({"--trace=gen:steady,steps=3,layers=4", "--json",
                  "--export_snapshot=" + file});
  // All blocks of it are of firn's quanta: none is rounded up on the way.
  const nlohmann::json copy = MustReplay({"--trace=" + file, "--json"});
  ASSERT_TRUE(original.is_object() && copy.is_object());
  EXPECT_EQ(copy["peak_live_bytes"], original["peak_live_bytes"]);
  EXPECT_GT(copy["allocs"], 0);
  EXPECT_LT(copy["allocs"], original["allocs"]);
}

TEST(SnapshotRoundTripTest, AReplayIsTheSameWithASnapshot) {
  const std::string file = TemporaryPath("same.pickle");
  nlohmann::json with =
      MustReplay({"--trace=gen:steady,steps=3,layers=4", "--json",
                  "--capacity=1.02x", "--export_snapshot=" + file});
  nlohmann::json without = MustReplay(
      {"--trace=gen:steady,steps=3,layers=4", "--json", "--capacity=1.02x"});
  for (nlohmann::json* json : {&with, &without}) {
    for (const char* key : {"alloc_ns_p50", "alloc_ns_p99", "free_ns_p50",
                            "free_ns_p99", "wall_s"}) {
      json->erase(key);
    }
  }
  EXPECT_EQ(with, without);
}

TEST(SnapshotRoundTripTest, AFileThatCannotBeWrittenIsNamed) {
  const Outcome outcome =
      RunCommand({"--trace=gen:steady,steps=3,layers=4",
                  "--export_snapshot=/nowhere/peak.pickle"});
  EXPECT_EQ(outcome.exit_status, kExitBadInput);
  EXPECT_THAT(outcome.err,
              HasSubstr("--export_snapshot: '/nowhere/peak.pickle'"));
}

}  // namespace
}  // namespace firn::bench
