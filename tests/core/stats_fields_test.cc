// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// That no field of a struct of statistics is missing in the tables.

#include "firn/core/stats_fields.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

// Where a member lies in its struct.
struct Place {
  std::string name;
  size_t offset = 0;
  size_t bytes = 0;
  size_t alignment = 0;
};

template <typename Stats>
std::vector<Place> PlacesOf(absl::Span<const StatsField<Stats>> fields) {
  const Stats stats{};
  const auto* const begin = reinterpret_cast<const char*>(&stats);
  std::vector<Place> places;
  for (const StatsField<Stats>& field : fields) {
    std::visit(
        [&](auto member) {
          using Value = std::decay_t<decltype(stats.*member)>;
          const auto* const at =
              reinterpret_cast<const char*>(&(stats.*member));
          places.push_back({std::string(field.name),
                            static_cast<size_t>(at - begin), sizeof(Value),
                            alignof(Value)});
        },
        field.member);
  }
  return places;
}

// What is wrong with a table: gaps between its members that are more than what
// alignment explains, and members that are in it twice or in another order.
template <typename Stats>
std::vector<std::string> FaultsOf(absl::Span<const StatsField<Stats>> fields) {
  std::vector<std::string> faults;
  std::vector<Place> places = PlacesOf(fields);
  places.push_back({"the end", sizeof(Stats), 0, alignof(Stats)});
  size_t end = 0;
  for (const Place& place : places) {
    if (place.offset < end) {
      faults.push_back(absl::StrCat(place.name, " twice, or out of order"));
    } else if (place.offset - end >= place.alignment) {
      faults.push_back(absl::StrCat("something before ", place.name));
    }
    end = place.offset + place.bytes;
  }
  return faults;
}

template <typename Stats>
std::set<std::string> NamesOf(absl::Span<const StatsField<Stats>> fields) {
  std::set<std::string> names;
  for (const StatsField<Stats>& field : fields) {
    EXPECT_TRUE(names.insert(std::string(field.name)).second) << field.name;
  }
  return names;
}

TEST(StatsFieldsTest, TablesLeaveOutNoMember) {
  EXPECT_THAT(FaultsOf(PoolStatsFields()), IsEmpty());
  EXPECT_THAT(FaultsOf(TagStatsFields()), IsEmpty());
  EXPECT_THAT(FaultsOf(DomainStatsFields()), IsEmpty());
  EXPECT_THAT(FaultsOf(MemoryLimitFields()), IsEmpty());
  EXPECT_THAT(FaultsOf(RungStatsFields()), IsEmpty());
  EXPECT_THAT(FaultsOf(FragmentationStatsFields()), IsEmpty());
  EXPECT_THAT(FaultsOf(RequestFitFields()), IsEmpty());
  EXPECT_THAT(FaultsOf(SizeBucketFields()), IsEmpty());
}

// That the test above can fail, for each field.
TEST(StatsFieldsTest, AMissingNumberOrTextIsNoticed) {
  const auto fields = PoolStatsFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (std::holds_alternative<bool PoolStats::*>(fields[i].member)) continue;
    std::vector<StatsField<PoolStats>> fewer(fields.begin(), fields.end());
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_THAT(FaultsOf(absl::MakeConstSpan(fewer)), Not(IsEmpty()))
        << fields[i].name;
  }
}

TEST(StatsFieldsTest, WhatIsPrintedForPeopleIsInTheTable) {
  const std::set<std::string> names = NamesOf(PoolStatsFields());
  int lines = 0;
  for (const absl::string_view line :
       absl::StrSplit(PoolStats().ToString(), '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, ": ");
    EXPECT_THAT(names, Contains(parts[0]));
    ++lines;
  }
  EXPECT_GT(lines, 40);
}

// With a value of its own for each member.
FragmentationStats DistinctFigures() {
  FragmentationStats figures;
  uint64_t next = 1000;
  for (const StatsField<FragmentationStats>& field :
       FragmentationStatsFields()) {
    if (const auto* number =
            std::get_if<uint64_t FragmentationStats::*>(&field.member)) {
      figures.** number = ++next;
    } else if (const auto* share =
                   std::get_if<double FragmentationStats::*>(&field.member)) {
      figures.** share = static_cast<double>(++next);
    }
  }
  return figures;
}

TEST(StatsFieldsTest, FragmentationIsPrintedByTheTable) {
  const std::vector<std::string> lines =
      absl::StrSplit(DistinctFigures().ToString(), '\n');
  uint64_t next = 1000;
  for (const StatsField<FragmentationStats>& field :
       FragmentationStatsFields()) {
    if (field.name == "requests") break;
    EXPECT_THAT(lines, Contains(absl::StrCat(field.name, ": ", ++next)));
  }
  EXPECT_EQ(next, 1023u);
}

// A name next to another one's member would have it printed there.
TEST(StatsFieldsTest, NamesAndMembersBelongTogether) {
  PoolStats stats;
  uint64_t next = 1000;
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    if (const auto* number =
            std::get_if<uint64_t PoolStats::*>(&field.member)) {
      stats.** number = ++next;
    } else if (const auto* text =
                   std::get_if<std::string PoolStats::*>(&field.member)) {
      stats.** text = absl::StrCat("text ", ++next);
    }
  }
  stats.moving = true;
  const std::vector<std::string> lines = absl::StrSplit(stats.ToString(), '\n');
  std::set<std::string> printed;
  for (const absl::string_view line : lines) {
    printed.insert(std::string(line.substr(0, line.find(':'))));
  }
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    if (printed.count(std::string(field.name)) == 0) continue;
    std::string value = "yes";
    if (const auto* number =
            std::get_if<uint64_t PoolStats::*>(&field.member)) {
      value = absl::StrCat(stats.**number);
    } else if (const auto* text =
                   std::get_if<std::string PoolStats::*>(&field.member)) {
      value = stats.**text;
    }
    EXPECT_THAT(lines, Contains(absl::StrCat(field.name, ": ", value)));
  }
}

template <typename Stats>
void ExpectUnitsAgreeWithNames(absl::Span<const StatsField<Stats>> fields) {
  for (const StatsField<Stats>& field : fields) {
    const bool is_in_bytes = absl::EndsWith(field.name, "_bytes") ||
                             absl::StartsWith(field.name, "bytes_");
    EXPECT_EQ(field.unit == StatUnit::kBytes, is_in_bytes) << field.name;
  }
}

TEST(StatsFieldsTest, UnitsAgreeWithNames) {
  ExpectUnitsAgreeWithNames(PoolStatsFields());
  ExpectUnitsAgreeWithNames(FragmentationStatsFields());
}

TEST(StatsFieldsTest, TextsAreFactsAndNothingElseIs) {
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    EXPECT_EQ(field.kind == StatKind::kFact,
              std::holds_alternative<std::string PoolStats::*>(field.member))
        << field.name;
  }
}

// What a scraper takes for a restart, where it is none, spoils every rate.
TEST(StatsFieldsTest, CountersOfAPoolNeverFall) {
  FIRN_ASSERT_OK_AND_ASSIGN(const auto on_cpu, PoolOnCpu::Ghost(16 * kMiB));
  Pool& pool = on_cpu->pool();
  std::vector<PoolStats> history = {pool.GetStats()};
  std::vector<void*> blocks;
  for (const uint64_t kib : {300u, 5000u, 700u, 2048u}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const block, pool.Allocate(kib * kKiB));
    blocks.push_back(block);
    history.push_back(pool.GetStats());
  }
  EXPECT_FALSE(pool.Allocate(32 * kMiB).ok());
  history.push_back(pool.GetStats());
  for (void* const block : blocks) {
    FIRN_EXPECT_OK(pool.Free(block));
    history.push_back(pool.GetStats());
  }
  FIRN_EXPECT_OK(pool.Trim());
  history.push_back(pool.GetStats());
  std::set<std::string> fallen;
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    const auto* const number =
        std::get_if<uint64_t PoolStats::*>(&field.member);
    if (number == nullptr) continue;
    for (size_t i = 1; i < history.size(); ++i) {
      if (history[i].**number >= history[i - 1].**number) continue;
      EXPECT_EQ(field.kind, StatKind::kGauge) << field.name;
      fallen.insert(std::string(field.name));
    }
  }
  EXPECT_THAT(fallen, IsSupersetOf({"live_bytes", "live_allocations",
                                    "used_bytes", "held_bytes", "live_vgs"}));
}

TEST(StatsFieldsTest, PeaksAreNoCounters) {
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    if (!absl::StartsWith(field.name, "peak_")) continue;
    EXPECT_EQ(field.kind, StatKind::kGauge) << field.name;
  }
}

template <typename Stats>
void ExpectHelp(absl::Span<const StatsField<Stats>> fields) {
  for (const StatsField<Stats>& field : fields) {
    EXPECT_THAT(field.help, Not(IsEmpty())) << field.name;
    EXPECT_FALSE(absl::EndsWith(field.help, ".")) << field.name;
  }
}

TEST(StatsFieldsTest, HelpIsASentenceWithoutItsFullStop) {
  ExpectHelp(PoolStatsFields());
  ExpectHelp(FragmentationStatsFields());
  ExpectHelp(RequestFitFields());
  ExpectHelp(SizeBucketFields());
}

TEST(StatsFieldsTest, FragmentationIsAsItIsNow) {
  for (const StatsField<FragmentationStats>& field :
       FragmentationStatsFields()) {
    EXPECT_EQ(field.kind, StatKind::kGauge) << field.name;
  }
}

TEST(StatsFieldsTest, DocumentationNamesEveryField) {
  std::ifstream file(absl::StrCat(FIRN_SOURCE_DIR, "/docs/statistics.md"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" ,;:.()|`\n"), absl::SkipEmpty());
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    if (absl::StartsWith(field.name, "peak_")) continue;  // "peak_..." there
    EXPECT_TRUE(absl::c_linear_search(words, field.name)) << field.name;
  }
  for (const StatsField<FragmentationStats>& field :
       FragmentationStatsFields()) {
    EXPECT_TRUE(absl::c_linear_search(words, field.name)) << field.name;
  }
  for (const StatsField<RequestFit>& field : RequestFitFields()) {
    EXPECT_TRUE(absl::c_linear_search(words, field.name)) << field.name;
  }
  for (const StatsField<SizeBucket>& field : SizeBucketFields()) {
    EXPECT_TRUE(absl::c_linear_search(words, field.name)) << field.name;
  }
}

}  // namespace
}  // namespace firn
