// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics as JSON, to the character. That a JSON reader takes them:
// tests/bench/core/stats_json_reader_test.cc.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "firn/core/stats_export.h"
#include "firn/core/stats_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatsJsonTest, BeginsWithThePoolAndEndsWithTagsAndDomains) {
  PoolStats stats;
  stats.backend = "cpu";
  stats.device_name = "CPU \"0\"";
  stats.moving_reason = "a\nb";
  stats.granule_bytes = std::numeric_limits<uint64_t>::max();
  stats.unscoped_reports = 3;
  const std::string text = StatsToJson(stats, {}, {});
  EXPECT_TRUE(absl::StartsWith(
      text,
      "{\"backend\":\"cpu\",\"device_name\":\"CPU \\\"0\\\"\","
      "\"driver_reason\":\"\",\"moving\":false,\"moving_reason\":\"a\\u000ab\","
      "\"granule_bytes\":18446744073709551615,\"capacity_bytes\":0,"))
      << text;
  EXPECT_TRUE(absl::EndsWith(
      text, ",\"unscoped_reports\":3,\"tags\":[],\"domains\":[]}"))
      << text;
}

TEST(StatsJsonTest, TagsAndDomainsAreObjects) {
  std::vector<TagStats> tags(2);
  tags[0].name = "untagged";
  tags[0].live_bytes = 5;
  tags[1].tag = Tag{1};
  tags[1].name = "back\\slash";
  tags[1].peak_live_bytes = 9;
  DomainStats domain;
  domain.id = DomainId{7};
  domain.name = "tenant";
  domain.limit.hard_bytes = 8;
  domain.is_closed = true;
  const std::string text = StatsToJson(PoolStats(), tags, {&domain, 1});
  EXPECT_EQ(
      text.substr(text.find("\"tags\"")),
      "\"tags\":["
      "{\"tag\":0,\"name\":\"untagged\",\"live_bytes\":5,"
      "\"live_allocations\":0,\"allocations\":0,\"peak_live_bytes\":null},"
      "{\"tag\":1,\"name\":\"back\\\\slash\",\"live_bytes\":0,"
      "\"live_allocations\":0,\"allocations\":0,\"peak_live_bytes\":9}],"
      "\"domains\":["
      "{\"id\":7,\"name\":\"tenant\",\"limit\":{\"hard_bytes\":8,"
      "\"soft_bytes\":0},\"is_closed\":true,\"live_bytes\":0,"
      "\"live_allocations\":0,\"used_bytes\":0,\"mapped_bytes\":0,"
      "\"allocations\":0,\"failed_allocations\":0,\"zeroed_bytes\":0}]}");
}

TEST(StatsJsonTest, IsOneLine) {
  PoolStats stats;
  stats.device_name = "a\nb";
  EXPECT_THAT(StatsToJson(stats, {}, {}), Not(HasSubstr("\n")));
}

TEST(StatsJsonTest, EveryFieldOfTheTableIsThere) {
  const std::string text = StatsToJson(PoolStats(), {}, {});
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\"", field.name, "\":")));
  }
}

}  // namespace
}  // namespace firn
