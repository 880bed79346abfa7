// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/replay_report.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> KeysOf(const nlohmann::ordered_json& json) {
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  return keys;
}

TEST(ReplayReportTest, JsonHasTheseKeysInThisOrder) {
  const auto json = nlohmann::ordered_json::parse(ToJson(ReplayResult()));
  EXPECT_THAT(
      KeysOf(json),
      ElementsAre(
          "trace", "policy", "tolerated_waste_percent", "events", "allocs",
          "frees", "unknown_frees", "failed_allocs", "min_capacity_over_peak",
          "peak_live_bytes", "peak_used_bytes", "peak_held_bytes",
          "mean_utilization", "held_utilization", "used_over_live_p99",
          "trough_used_over_live", "trough_held_over_live", "end_held_bytes",
          "worst_probe_used_over_live", "lower_bound_bytes_at_peak",
          "full_passes", "worst_used_over_bound", "mean_used_over_bound",
          "alloc_ns_p50", "alloc_ns_p99", "free_ns_p50", "free_ns_p99",
          "bytes_allocated", "bytes_copied", "bytes_recovered",
          "granules_moved", "mapped_vgs_peak", "vgs_per_granule_mean",
          "driver_calls", "driver_us_modelled", "driver_us_create",
          "driver_us_per_gib", "pause_us_p50", "pause_us_p99", "pause_us_max",
          "content_errors", "wall_s"));
  EXPECT_THAT(KeysOf(json["driver_calls"]),
              ElementsAre("create", "map", "unmap", "set_access", "release"));
}

TEST(ReplayReportTest, WhatWasNotLookedForIsNull) {
  const auto json = nlohmann::json::parse(ToJson(ReplayResult()));
  EXPECT_TRUE(json["min_capacity_over_peak"].is_null());
  EXPECT_TRUE(json["tolerated_waste_percent"].is_null());
  EXPECT_TRUE(json["worst_probe_used_over_live"].is_null());
  EXPECT_EQ(json["full_passes"], 0);
  EXPECT_TRUE(json["worst_used_over_bound"].is_null());
  EXPECT_TRUE(json["mean_used_over_bound"].is_null());
  EXPECT_EQ(json["pause_us_p99"], 0);
  EXPECT_EQ(json["driver_us_per_gib"], 0);
}

TEST(ReplayReportTest, JsonHoldsTheFigures) {
  ReplayResult result;
  result.trace = "a \"quoted\" \xff name";
  result.policy = "buddy";
  result.tolerated_waste_percent = 3.5;
  result.min_capacity_over_peak = 1.25;
  result.figures.failed_allocs = 3;
  result.figures.bytes_allocated = uint64_t{4} << 30;
  result.figures.usage.worst_probe_used_over_live = 2.5;
  result.figures.full_passes = {20, 18, 1.25, 1.0625};
  result.figures.policy.driver_us_modelled = 1000;
  result.figures.policy.driver_calls = {1, 2, 3, 4, 5};
  // Not sorted; nearest rank.
  for (int i = 200; i >= 1; --i) result.figures.policy.pause_us.push_back(i);
  const auto json = nlohmann::json::parse(ToJson(result));
  EXPECT_EQ(json["policy"], "buddy");
  EXPECT_EQ(json["tolerated_waste_percent"], 3.5);
  EXPECT_EQ(json["min_capacity_over_peak"], 1.25);
  EXPECT_EQ(json["failed_allocs"], 3);
  EXPECT_EQ(json["worst_probe_used_over_live"], 2.5);
  EXPECT_EQ(json["full_passes"], 20);
  EXPECT_EQ(json["worst_used_over_bound"], 1.25);
  EXPECT_EQ(json["mean_used_over_bound"], 1.0625);
  EXPECT_EQ(json["driver_us_per_gib"], 250);
  EXPECT_EQ(json["driver_calls"]["set_access"], 4);
  EXPECT_EQ(json["pause_us_p50"], 100);
  EXPECT_EQ(json["pause_us_p99"], 198);
  EXPECT_EQ(json["pause_us_max"], 200);
}

TEST(ReplayReportTest, TextNamesTraceAndPolicyAndLeavesOutWhatIsNot) {
  ReplayResult result;
  result.trace = "a.csv";
  result.policy = "paged";
  EXPECT_THAT(ToText(result), HasSubstr("a.csv"));
  EXPECT_THAT(ToText(result), HasSubstr("paged"));
  EXPECT_THAT(ToText(result), Not(HasSubstr("min capacity")));
  EXPECT_THAT(ToText(result), Not(HasSubstr("tolerated waste")));
  result.tolerated_waste_percent = 3.5;
  EXPECT_THAT(ToText(result), HasSubstr("3.5 %"));
  result.min_capacity_over_peak = 1.015;
  EXPECT_THAT(ToText(result), HasSubstr("1.0150"));
}

TEST(ReplayReportTest, TextSaysHowManyFullPassesCount) {
  ReplayResult result;
  EXPECT_THAT(ToText(result), Not(HasSubstr("used / bound")));
  result.figures.full_passes.passes = 5;
  EXPECT_THAT(ToText(result), HasSubstr("0 of 5 full passes count"));
  result.figures.full_passes = {5, 4, 1.25, 1.0625};
  EXPECT_THAT(ToText(result), HasSubstr("1.2500 worst, 1.0625 mean "
                                        "(4 of 5 full passes count)"));
}

}  // namespace
}  // namespace firn::bench
