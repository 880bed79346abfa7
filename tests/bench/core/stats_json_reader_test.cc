// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool's statistics as JSON, read by a JSON reader that is not ours: here,
// not with the library's tests, because those have none.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "firn/core/stats_export.h"
#include "firn/core/stats_fields.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace firn {
namespace {

// Of the form that parsing gives if the text is no JSON.
nlohmann::ordered_json Parse(const std::string& text) {
  return nlohmann::ordered_json::parse(text, /*cb=*/nullptr,
                                       /*allow_exceptions=*/false);
}

TEST(StatsJsonReaderTest, NumbersAreExactAndKeysInTheirOrder) {
  PoolStats stats;
  uint64_t next = UINT64_MAX;
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    if (const auto* number =
            std::get_if<uint64_t PoolStats::*>(&field.member)) {
      stats.** number = --next;
    }
  }
  const nlohmann::ordered_json json = Parse(StatsToJson(stats, {}, {}));
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json.size(), PoolStatsFields().size() + 2);
  auto item = json.begin();
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    EXPECT_EQ(item.key(), field.name);
    if (const auto* number =
            std::get_if<uint64_t PoolStats::*>(&field.member)) {
      ASSERT_TRUE(item->is_number_unsigned()) << field.name;
      EXPECT_EQ(item->get<uint64_t>(), stats.**number) << field.name;
    }
    ++item;
  }
  EXPECT_TRUE(json["moving"].is_boolean());
  EXPECT_TRUE(json["tags"].is_array());
  EXPECT_TRUE(json["domains"].is_array());
}

TEST(StatsJsonReaderTest, NamesSurviveWhateverIsInThem) {
  // Every byte that is a character by itself, NUL among them.
  std::string all_ascii;
  for (char c = 0; c < 0x7F; ++c) all_ascii += c;
  const std::vector<std::string> names = {
      all_ascii, "", "\"},{\"", "\\u0041",
      "\xF0\x9F\x8F\x94 \xC3\xBC \xE2\x80\xA8"};
  std::vector<TagStats> tags;
  for (const std::string& name : names) {
    tags.emplace_back().name = name;
  }
  const nlohmann::ordered_json json = Parse(StatsToJson(PoolStats(), tags, {}));
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json["tags"].size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(json["tags"][i]["name"], names[i]);
    EXPECT_TRUE(json["tags"][i]["peak_live_bytes"].is_null());
  }
}

TEST(StatsJsonReaderTest, FragmentationIsAnObjectOfNumbersAndArrays) {
  FragmentationStats figures;
  figures.used_bytes = UINT64_MAX;
  figures.utilization = 1.0 / 3;
  figures.requests.resize(2);
  figures.requests[1].unusable_share = 1e-9;
  figures.requests[1].fragmentation_index = 1;
  figures.free_sizes.resize(3);
  figures.free_sizes[2].sum_bytes = 1024;
  const nlohmann::ordered_json json =
      Parse(StatsToJson(PoolStats(), {}, {}, &figures));
  ASSERT_TRUE(json.is_object());
  const nlohmann::ordered_json& object = json["fragmentation"];
  ASSERT_EQ(object.size(), FragmentationStatsFields().size());
  auto item = object.begin();
  for (const StatsField<FragmentationStats>& field :
       FragmentationStatsFields()) {
    EXPECT_EQ(item.key(), field.name);
    ++item;
  }
  EXPECT_EQ(object["used_bytes"].get<uint64_t>(), UINT64_MAX);
  EXPECT_NEAR(object["utilization"].get<double>(), 1.0 / 3, 1e-6);
  ASSERT_EQ(object["requests"].size(), 2u);
  EXPECT_TRUE(object["requests"][0]["fragmentation_index"].is_null());
  EXPECT_NEAR(object["requests"][1]["unusable_share"].get<double>(), 1e-9,
              1e-15);
  EXPECT_EQ(object["requests"][1]["fragmentation_index"].get<double>(), 1);
  ASSERT_EQ(object["free_sizes"].size(), 3u);
  EXPECT_EQ(object["free_sizes"][2]["sum_bytes"], 1024);
}

TEST(StatsJsonReaderTest, WhatIsNoUtf8IsReplaced) {
  DomainStats domain;
  domain.name = "a\xFF\xC3";
  const nlohmann::ordered_json json =
      Parse(StatsToJson(PoolStats(), {}, {&domain, 1}));
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["domains"][0]["name"], "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace firn
