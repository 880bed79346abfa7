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
      "\"host_used_bytes\":0,"
      "\"allocations\":0,\"failed_allocations\":0,\"zeroed_bytes\":0}]}");
}

TEST(StatsJsonTest, FragmentationComesLastIfThereIsAny) {
  FragmentationStats figures;
  figures.live_blocks = 3;
  figures.utilization = 0.25;
  figures.requests.resize(2);
  figures.requests[0].request_bytes = 512;
  figures.requests[0].unusable_share = 0.00001234;
  figures.requests[1].request_bytes = 2048;
  figures.requests[1].fragmentation_index = 0.5;
  figures.live_sizes = {{512, 2, 700}, {1024, 1, 1000}};
  const std::string text = StatsToJson(PoolStats(), {}, {}, &figures);
  EXPECT_THAT(text, HasSubstr(",\"domains\":[],\"fragmentation\":{"
                              "\"live_blocks\":3,\"requested_bytes\":0,"));
  EXPECT_THAT(text, HasSubstr(",\"utilization\":0.25,"));
  EXPECT_TRUE(absl::EndsWith(
      text,
      ",\"depth_skew\":1,\"requests\":["
      "{\"request_bytes\":512,\"unusable_share\":1.234e-05,"
      "\"extfrag_share\":0,\"fragmentation_index\":null},"
      "{\"request_bytes\":2048,\"unusable_share\":0,\"extfrag_share\":0,"
      "\"fragmentation_index\":0.5}],"
      "\"live_sizes\":[{\"up_to_bytes\":512,\"pieces\":2,\"sum_bytes\":700},"
      "{\"up_to_bytes\":1024,\"pieces\":1,\"sum_bytes\":1000}],"
      "\"free_sizes\":[]}}"))
      << text;
  EXPECT_EQ(StatsToJson(PoolStats(), {}, {}, nullptr),
            StatsToJson(PoolStats(), {}, {}));
}

TEST(StatsJsonTest, TheLadderIsAnArrayIfItIsGiven) {
  std::vector<RungStats> ladder(2);
  ladder[0] = {"pending_frees", 3, 2, 1, 4096};
  ladder[1].name = "merging";
  const std::string text = StatsToJson(PoolStats(), {}, {}, nullptr, ladder);
  EXPECT_TRUE(absl::EndsWith(
      text,
      ",\"domains\":[],\"ladder\":["
      "{\"name\":\"pending_frees\",\"tried\":3,\"changed\":2,\"rescued\":1,"
      "\"recovered_bytes\":4096},"
      "{\"name\":\"merging\",\"tried\":0,\"changed\":0,\"rescued\":0,"
      "\"recovered_bytes\":0}]}"))
      << text;
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
  const FragmentationStats figures;
  const std::string longer = StatsToJson(PoolStats(), {}, {}, &figures);
  for (const StatsField<FragmentationStats>& field :
       FragmentationStatsFields()) {
    EXPECT_THAT(longer, HasSubstr(absl::StrCat("\"", field.name, "\":")));
  }
}

}  // namespace
}  // namespace firn
