// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics in Prometheus' text format.

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/core/pool.h"
#include "firn/core/stats_export.h"
#include "firn/core/stats_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/prometheus_text.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::PrometheusFamily;
using ::firn::testing::PrometheusSample;
using ::firn::testing::ReadPrometheus;
using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TagStats StatsOfTag(absl::string_view name, uint64_t live_bytes) {
  TagStats stats;
  stats.name = std::string(name);
  stats.live_bytes = live_bytes;
  return stats;
}

DomainStats StatsOfDomain(absl::string_view name) {
  DomainStats stats;
  stats.name = std::string(name);
  return stats;
}

// What is in the text, by family; none if it breaks the format.
std::map<std::string, PrometheusFamily> MustRead(absl::string_view text) {
  std::map<std::string, PrometheusFamily> families;
  const auto read = ReadPrometheus(text);
  FIRN_EXPECT_OK(read.status());
  if (!read.ok()) return families;
  for (const PrometheusFamily& family : *read) families[family.name] = family;
  return families;
}

TEST(StatsPrometheusTest, AGaugeAndACounterAreWrittenSo) {
  PoolStats stats;
  stats.moving = true;
  stats.live_bytes = 4096;
  stats.frees = 7;
  stats.bytes_copied = 12;
  const std::string text = StatsToPrometheus(stats, {}, {}, "main");
  EXPECT_THAT(text, HasSubstr("# HELP firn_pool_moving Whether live memory may "
                              "move.\n"
                              "# TYPE firn_pool_moving gauge\n"
                              "firn_pool_moving{pool=\"main\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# HELP firn_pool_live_bytes Requested bytes "
                              "handed out.\n"
                              "# TYPE firn_pool_live_bytes gauge\n"
                              "firn_pool_live_bytes{pool=\"main\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("# HELP firn_pool_frees_total Frees that "
                              "succeeded.\n"
                              "# TYPE firn_pool_frees_total counter\n"
                              "firn_pool_frees_total{pool=\"main\"} 7\n"));
  EXPECT_THAT(text,
              HasSubstr("firn_pool_copied_bytes_total{pool=\"main\"} 12\n"));
}

TEST(StatsPrometheusTest, WordsAreLabelsOfTheInfo) {
  PoolStats stats;
  stats.backend = "cpu";
  stats.device_name = "CPU \"0\"";
  stats.driver_reason = "asked for";
  stats.moving_reason = "C:\\\nyes";
  EXPECT_TRUE(absl::StartsWith(
      StatsToPrometheus(stats, {}, {}, "main"),
      "# HELP firn_pool_info What the pool stands on, in words.\n"
      "# TYPE firn_pool_info gauge\n"
      "firn_pool_info{pool=\"main\",backend=\"cpu\","
      "device_name=\"CPU \\\"0\\\"\",driver_reason=\"asked for\","
      "moving_reason=\"C:\\\\\\nyes\"} 1\n"
      "# HELP "));
}

TEST(StatsPrometheusTest, TagsAndDomainsComeByFamilyNotByName) {
  std::vector<TagStats> tags = {StatsOfTag("untagged", 5),
                                StatsOfTag("weights", 6)};
  tags[0].live_allocations = 1;
  tags[0].allocations = 4;
  tags[1].peak_live_bytes = 9;
  const std::string text = StatsToPrometheus(PoolStats(), tags, {}, "p");
  EXPECT_EQ(
      text.substr(text.find("# HELP firn_tag_")),
      "# HELP firn_tag_live_bytes Requested bytes handed out with the tag.\n"
      "# TYPE firn_tag_live_bytes gauge\n"
      "firn_tag_live_bytes{pool=\"p\",tag=\"untagged\"} 5\n"
      "firn_tag_live_bytes{pool=\"p\",tag=\"weights\"} 6\n"
      "# HELP firn_tag_live_allocations Allocations with the tag not freed.\n"
      "# TYPE firn_tag_live_allocations gauge\n"
      "firn_tag_live_allocations{pool=\"p\",tag=\"untagged\"} 1\n"
      "firn_tag_live_allocations{pool=\"p\",tag=\"weights\"} 0\n"
      "# HELP firn_tag_allocations_total Allocations with the tag that "
      "succeeded.\n"
      "# TYPE firn_tag_allocations_total counter\n"
      "firn_tag_allocations_total{pool=\"p\",tag=\"untagged\"} 4\n"
      "firn_tag_allocations_total{pool=\"p\",tag=\"weights\"} 0\n"
      "# HELP firn_tag_peak_live_bytes The most that was live with the tag; "
      "not known of blocks without one.\n"
      "# TYPE firn_tag_peak_live_bytes gauge\n"
      "firn_tag_peak_live_bytes{pool=\"p\",tag=\"weights\"} 9\n");
}

TEST(StatsPrometheusTest, LimitsOfDomainsAreFamiliesOfTheirOwn) {
  DomainStats tenant = StatsOfDomain("tenant");
  tenant.limit.hard_bytes = 8 * kMiB;
  tenant.limit.soft_bytes = 4 * kMiB;
  tenant.is_closed = true;
  const auto families =
      MustRead(StatsToPrometheus(PoolStats(), {}, {&tenant, 1}, "p"));
  std::map<std::string, std::string> values;
  for (const auto& [name, family] : families) {
    if (!absl::StartsWith(name, "firn_domain_")) continue;
    ASSERT_THAT(family.samples, SizeIs(1));
    EXPECT_THAT(
        family.samples[0].labels,
        UnorderedElementsAre(Pair("pool", "p"), Pair("domain", "tenant")));
    values[name] = family.samples[0].value;
  }
  EXPECT_THAT(values,
              ElementsAre(Pair("firn_domain_allocations_total", "0"),
                          Pair("firn_domain_failed_allocations_total", "0"),
                          Pair("firn_domain_host_used_bytes", "0"),
                          Pair("firn_domain_is_closed", "1"),
                          Pair("firn_domain_limit_hard_bytes", "8388608"),
                          Pair("firn_domain_limit_soft_bytes", "4194304"),
                          Pair("firn_domain_live_allocations", "0"),
                          Pair("firn_domain_live_bytes", "0"),
                          Pair("firn_domain_mapped_bytes", "0"),
                          Pair("firn_domain_used_bytes", "0"),
                          Pair("firn_domain_zeroed_bytes_total", "0")));
}

TEST(StatsPrometheusTest, EveryNumberOfTheTableIsAFamilyWithItsValue) {
  PoolStats stats;
  uint64_t next = std::numeric_limits<uint64_t>::max();
  std::map<std::string, std::string> expected;
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    const auto* const number =
        std::get_if<uint64_t PoolStats::*>(&field.member);
    if (number == nullptr) continue;
    stats.** number = --next;
    expected[std::string(field.name)] = absl::StrCat(next);
  }
  std::map<std::string, std::string> written;
  for (const auto& [name, family] :
       MustRead(StatsToPrometheus(stats, {}, {}, "p"))) {
    ASSERT_TRUE(absl::StartsWith(name, "firn_pool_")) << name;
    ASSERT_THAT(family.samples, SizeIs(1));
    EXPECT_EQ(family.type == "counter", absl::EndsWith(name, "_total")) << name;
    std::string field = name.substr(std::string("firn_pool_").size());
    if (family.type == "counter") field.resize(field.size() - 6);
    for (const std::string what : {"copied", "spilled", "returned"}) {
      if (field == what + "_bytes" && family.type == "counter") {
        field = "bytes_" + what;
      }
    }
    if (field == "info" || field == "moving") continue;
    written[field] = family.samples[0].value;
  }
  EXPECT_EQ(written, expected);
}

TEST(StatsPrometheusTest, NamesOfUsersSurviveWhateverIsInThem) {
  const std::vector<std::string> names = {
      "plain", "\"},x{\"", "back\\slash", "two\nlines",
      "\\n",   "",         "a,b=c",       "\xC3\xBC"};
  std::vector<TagStats> tags;
  for (const std::string& name : names) tags.push_back(StatsOfTag(name, 1));
  const auto families =
      MustRead(StatsToPrometheus(PoolStats(), tags, {}, "\\\"\n"));
  ASSERT_EQ(families.count("firn_tag_live_bytes"), 1u);
  std::vector<std::string> read;
  for (const PrometheusSample& sample :
       families.at("firn_tag_live_bytes").samples) {
    EXPECT_EQ(sample.labels.at("pool"), "\\\"\n");
    read.push_back(sample.labels.at("tag"));
  }
  EXPECT_EQ(read, names);
}

TEST(StatsPrometheusTest, NamesThatLookAlikeAreToldApart) {
  // Two that differ in bytes that are no characters, and one that is what the
  // second of them would be called.
  const std::vector<TagStats> tags = {StatsOfTag("a\xFE", 1),
                                      StatsOfTag("a\xEF\xBF\xBD (2)", 2),
                                      StatsOfTag("a\xFF", 3)};
  const auto families = MustRead(StatsToPrometheus(PoolStats(), tags, {}, "p"));
  ASSERT_EQ(families.count("firn_tag_live_bytes"), 1u);
  EXPECT_THAT(families.at("firn_tag_live_bytes").samples, SizeIs(3));
}

TEST(StatsPrometheusTest, SeveralPoolsShareTheirFamilies) {
  PoolStats small;
  small.live_bytes = 1;
  PoolStats large;
  large.live_bytes = 2;
  const std::vector<TagStats> tags = {StatsOfTag("untagged", 3)};
  const std::vector<DomainStats> domains = {StatsOfDomain("default")};
  const std::vector<NamedPoolStats> pools = {{"kv", &small, tags, domains},
                                             {"kv", &large, tags, domains},
                                             {"x", &large, {}, domains}};
  const auto families = MustRead(StatsToPrometheus(pools));
  std::vector<std::string> values;
  for (const PrometheusSample& sample :
       families.at("firn_pool_live_bytes").samples) {
    values.push_back(
        absl::StrCat(sample.labels.at("pool"), ": ", sample.value));
  }
  EXPECT_THAT(values, ElementsAre("kv: 1", "kv (2): 2", "x: 2"));
  EXPECT_THAT(families.at("firn_pool_info").samples, SizeIs(3));
  EXPECT_THAT(families.at("firn_tag_live_bytes").samples, SizeIs(2));
  EXPECT_THAT(families.at("firn_domain_live_bytes").samples, SizeIs(3));
}

TEST(StatsPrometheusTest, FragmentationIsFamiliesOfItsOwn) {
  FragmentationStats figures;
  figures.utilization = 0.25;
  figures.potential_granules = 3;
  figures.requests.resize(2);
  figures.requests[0].request_bytes = 512;
  figures.requests[1].request_bytes = 2048;
  figures.requests[1].unusable_share = 0.00001234;
  figures.requests[1].fragmentation_index = 1;
  figures.live_sizes = {{512, 2, 700}, {1024, 0, 0}};
  const PoolStats stats;
  const std::string text = StatsToPrometheus(stats, {}, {}, "p", &figures);
  EXPECT_TRUE(absl::StartsWith(text, StatsToPrometheus(stats, {}, {}, "p")));
  auto families = MustRead(text);
  const auto samples = [&](const std::string& name) {
    std::vector<std::string> lines;
    for (const PrometheusSample& sample : families[name].samples) {
      std::string line;
      for (const auto& [label, value] : sample.labels) {
        absl::StrAppend(&line, label, "=", value, " ");
      }
      lines.push_back(line + sample.value);
    }
    return lines;
  };
  EXPECT_EQ(families["firn_fragmentation_utilization"].type, "gauge");
  EXPECT_THAT(samples("firn_fragmentation_utilization"),
              ElementsAre("pool=p 0.25"));
  EXPECT_THAT(samples("firn_fragmentation_potential_granules"),
              ElementsAre("pool=p 3"));
  EXPECT_THAT(samples("firn_fragmentation_requests_unusable_share"),
              ElementsAre("pool=p request_bytes=512 0",
                          "pool=p request_bytes=2048 1.234e-05"));
  // What is not known is no sample.
  EXPECT_THAT(samples("firn_fragmentation_requests_fragmentation_index"),
              ElementsAre("pool=p request_bytes=2048 1"));
  EXPECT_THAT(
      samples("firn_fragmentation_live_sizes_pieces"),
      ElementsAre("pool=p up_to_bytes=512 2", "pool=p up_to_bytes=1024 0"));
  EXPECT_THAT(
      samples("firn_fragmentation_live_sizes_sum_bytes"),
      ElementsAre("pool=p up_to_bytes=512 700", "pool=p up_to_bytes=1024 0"));
  EXPECT_EQ(families.count("firn_fragmentation_free_sizes_pieces"), 0u);
  EXPECT_EQ(families["firn_fragmentation_live_sizes_pieces"].help,
            "Live blocks by what was asked for, up to a power of two: how "
            "many.");
}

TEST(StatsPrometheusTest, FragmentationOfSeveralPoolsIsToldApart) {
  const PoolStats stats;
  FragmentationStats figures;
  figures.free_pieces = 7;
  const std::vector<NamedPoolStats> pools = {{"kv", &stats, {}, {}},
                                             {"kv", &stats, {}, {}, &figures}};
  auto families = MustRead(StatsToPrometheus(pools));
  const auto& samples = families["firn_fragmentation_free_pieces"].samples;
  ASSERT_THAT(samples, SizeIs(1));
  EXPECT_EQ(samples[0].labels.at("pool"), "kv (2)");
  EXPECT_EQ(samples[0].value, "7");
}

TEST(StatsPrometheusTest, WhatNobodyReportsIsNotMentioned) {
  const std::string text = StatsToPrometheus(PoolStats(), {}, {}, "p");
  EXPECT_THAT(text, Not(HasSubstr("firn_tag_")));
  EXPECT_THAT(text, Not(HasSubstr("firn_domain_")));
  EXPECT_THAT(text, Not(HasSubstr("firn_fragmentation_")));
  EXPECT_EQ(StatsToPrometheus({}), "");
}

TEST(StatsPrometheusTest, APoolReportsWhatItsStructsSay) {
  FIRN_ASSERT_OK_AND_ASSIGN(const auto on_cpu, PoolOnCpu::Ghost(64 * kMiB));
  Pool& pool = on_cpu->pool();
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool.RegisterTag("weights"));
  AllocateOptions options;
  options.tag = tag;
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block,
                            pool.Allocate(100 * kKiB, options));
  EXPECT_FALSE(pool.Allocate(64 * kMiB).ok());
  const auto families = MustRead(StatsToPrometheus(
      pool.GetStats(), pool.GetTagStats(), pool.GetDomainStats(), "p",
      /*fragmentation=*/nullptr, pool.GetLadderStats()));
  const auto value = [&](const std::string& family, size_t sample) {
    const auto found = families.find(family);
    if (found == families.end() || found->second.samples.size() <= sample) {
      return std::string("missing");
    }
    return found->second.samples[sample].value;
  };
  EXPECT_EQ(value("firn_pool_live_bytes", 0), "102400");
  EXPECT_EQ(value("firn_pool_allocations_total", 0), "1");
  EXPECT_EQ(value("firn_tag_live_bytes", 0), "0");
  EXPECT_EQ(value("firn_tag_live_bytes", 1), "102400");
  EXPECT_EQ(value("firn_tag_peak_live_bytes", 0), "102400");
  EXPECT_EQ(value("firn_domain_live_bytes", 0), "102400");
  EXPECT_EQ(value("firn_ladder_tried_total", 0), "1");
  EXPECT_EQ(value("firn_ladder_recovered_bytes_total", 8), "0");
  EXPECT_EQ(families.at("firn_ladder_tried_total").samples.size(), kRungCount);
  FIRN_EXPECT_OK(pool.Free(block));
}

// The reader that the tests above go by refuses what scrapers refuse.
TEST(PrometheusTextTest, WhatBreaksTheFormatIsRefused) {
  const std::string head = "# HELP a A.\n# TYPE a gauge\n";
  FIRN_EXPECT_OK(
      ReadPrometheus(head + "a{x=\"1\"} 1\na{x=\"2\"} 1\n").status());
  for (const std::string& text :
       {std::string(),
        head + "a{x=\"1\"} 1",
        std::string("a{x=\"1\"} 1\n"),
        std::string("# HELP a A.\na{x=\"1\"} 1\n"),
        head,
        head + "a{x=\"1\"} 1\n" + head + "a{x=\"2\"} 1\n",
        head + "a{x=\"1\"} 1\na{x=\"1\"} 2\n",
        head + "b{x=\"1\"} 1\n",
        head + "a{x=\"1\"} one\n",
        head + "a{x=\"1\"} 1e5\n",
        head + "a{x=\"1\"} .5\n",
        head + "a{x=\"1\"} 1.\n",
        head + "a{x=\"1\"}1\n",
        head + "a{x=\"1\" 1\n",
        head + "a{x=\"\\x\"} 1\n",
        head + "a{x=\"1} 1\n",
        head + "a{1x=\"1\"} 1\n",
        head + "a{x=\"1\",x=\"2\"} 1\n",
        head + "a{x=\"1\"} 1\n\n",
        std::string("# TYPE a gauge\n# HELP a A.\na{x=\"1\"} 1\n"),
        std::string("# HELP a A.\n# TYPE a number\na{x=\"1\"} 1\n")}) {
    EXPECT_THAT(ReadPrometheus(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

}  // namespace
}  // namespace firn
