// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "firn/core/memory_limit.h"
#include "firn/core/stats_export.h"
#include "firn/core/stats_fields.h"
#include "firn/core/text_escapes.h"

namespace firn {
namespace {

// Something that reports, with the labels that tell it from others.
template <typename Stats>
struct Reporter {
  std::string labels;  // name="value",...
  const Stats* stats = nullptr;
};

template <typename Stats>
using Reporters = std::vector<Reporter<Stats>>;

// What the names and the help of the families of a struct begin with.
struct FamilyPrefix {
  std::string metric;
  std::string help;
};

std::string ToLabel(absl::string_view name, absl::string_view value) {
  return absl::StrCat(name, "=\"", EscapeForPrometheusLabel(value), "\"");
}

// Labels of one name that differ even if their values do not.
class DistinctLabels {
 public:
  explicit DistinctLabels(absl::string_view name) : name_(name) {}

  std::string Take(absl::string_view value) {
    std::string label = ToLabel(name_, value);
    for (int number = 2; !taken_.insert(label).second; ++number) {
      label = ToLabel(name_, absl::StrCat(value, " (", number, ")"));
    }
    return label;
  }

 private:
  const absl::string_view name_;
  std::set<std::string> taken_;
};

// "live_bytes" as it is; "bytes_copied" is "copied_bytes": the unit comes last,
// before the "total" of a counter.
template <typename Stats>
std::string ToMetricName(absl::string_view prefix,
                         const StatsField<Stats>& field) {
  absl::string_view name = field.name;
  absl::string_view unit;
  if (field.unit == StatUnit::kBytes && !absl::EndsWith(name, "_bytes")) {
    name = absl::StripPrefix(name, "bytes_");
    unit = "_bytes";
  }
  return absl::StrCat(prefix, name, unit,
                      field.kind == StatKind::kCounter ? "_total" : "");
}

void AppendHead(absl::string_view metric, absl::string_view help,
                absl::string_view type, std::string* text) {
  absl::StrAppend(text, "# HELP ", metric, " ", EscapeForPrometheusHelp(help),
                  ".\n# TYPE ", metric, " ", type, "\n");
}

// The sample's value; none of what is not known, or is no number.
std::optional<std::string> ToSample(uint64_t value) {
  return absl::StrCat(value);
}
std::optional<std::string> ToSample(bool value) { return value ? "1" : "0"; }
// Six digits.
std::optional<std::string> ToSample(double value) {
  return absl::StrCat(value);
}
template <typename Number>
std::optional<std::string> ToSample(const std::optional<Number>& value) {
  if (!value.has_value()) return std::nullopt;
  return ToSample(*value);
}
// What is not one number.
template <typename Value>
std::optional<std::string> ToSample(const Value&) {
  return std::nullopt;
}

template <typename Stats>
void AppendFamily(const FamilyPrefix& prefix, const StatsField<Stats>& field,
                  const Reporters<Stats>& reporters, std::string* text) {
  const std::string metric = ToMetricName(prefix.metric, field);
  std::string samples;
  for (const Reporter<Stats>& reporter : reporters) {
    const std::optional<std::string> value = std::visit(
        [&](auto member) { return ToSample(reporter.stats->*member); },
        field.member);
    if (!value.has_value()) continue;
    absl::StrAppend(&samples, metric, "{", reporter.labels, "} ", *value, "\n");
  }
  if (samples.empty()) return;
  AppendHead(metric, absl::StrCat(prefix.help, field.help),
             field.kind == StatKind::kCounter ? "counter" : "gauge", text);
  absl::StrAppend(text, samples);
}

// What the reporters' members hold, each with the labels that tell it from
// others.
template <typename Stats>
Reporters<MemoryLimit> PartsOf(const Reporters<Stats>& reporters,
                               MemoryLimit Stats::*member) {
  Reporters<MemoryLimit> parts;
  for (const Reporter<Stats>& reporter : reporters) {
    parts.push_back({reporter.labels, &(reporter.stats->*member)});
  }
  return parts;
}

absl::Span<const StatsField<MemoryLimit>> FieldsOf(const MemoryLimit*) {
  return MemoryLimitFields();
}
absl::Span<const StatsField<RequestFit>> FieldsOf(const RequestFit*) {
  return RequestFitFields();
}
absl::Span<const StatsField<SizeBucket>> FieldsOf(const SizeBucket*) {
  return SizeBucketFields();
}

// By the first of their fields, which is their name.
template <typename Stats, typename Part>
Reporters<Part> PartsOf(const Reporters<Stats>& reporters,
                        std::vector<Part> Stats::*member) {
  const StatsField<Part>& name = FieldsOf(static_cast<const Part*>(nullptr))[0];
  Reporters<Part> parts;
  for (const Reporter<Stats>& reporter : reporters) {
    for (const Part& part : reporter.stats->*member) {
      const uint64_t value = part.*std::get<uint64_t Part::*>(name.member);
      parts.push_back({absl::StrCat(reporter.labels, ",",
                                    ToLabel(name.name, absl::StrCat(value))),
                       &part});
    }
  }
  return parts;
}

template <typename Stats>
void AppendFamilies(const FamilyPrefix& prefix,
                    absl::Span<const StatsField<Stats>> fields,
                    const Reporters<Stats>& reporters, std::string* text);

// The families of a field, if it has any of its own.
template <typename Stats, typename Member>
bool AppendPart(const FamilyPrefix& prefix, const StatsField<Stats>& field,
                const Reporters<Stats>& reporters, std::string* text) {
  const auto* const member = std::get_if<Member Stats::*>(&field.member);
  if (member == nullptr) return false;
  const auto parts = PartsOf(reporters, *member);
  AppendFamilies({absl::StrCat(prefix.metric, field.name, "_"),
                  absl::StrCat(prefix.help, field.help, ": ")},
                 FieldsOf(decltype(parts.front().stats){}), parts, text);
  return true;
}

template <typename Stats>
void AppendFamilies(const FamilyPrefix& prefix,
                    absl::Span<const StatsField<Stats>> fields,
                    const Reporters<Stats>& reporters, std::string* text) {
  for (const StatsField<Stats>& field : fields) {
    if (field.kind != StatKind::kGauge && field.kind != StatKind::kCounter) {
      continue;
    }
    if (AppendPart<Stats, MemoryLimit>(prefix, field, reporters, text) ||
        AppendPart<Stats, std::vector<RequestFit>>(prefix, field, reporters,
                                                   text) ||
        AppendPart<Stats, std::vector<SizeBucket>>(prefix, field, reporters,
                                                   text)) {
      continue;
    }
    AppendFamily(prefix, field, reporters, text);
  }
}

// One family whose value is always 1: what is said in words are its labels.
void AppendInfo(const Reporters<PoolStats>& pools, std::string* text) {
  constexpr absl::string_view kMetric = "firn_pool_info";
  if (pools.empty()) return;
  AppendHead(kMetric, "What the pool stands on, in words", "gauge", text);
  for (const Reporter<PoolStats>& pool : pools) {
    std::string labels = pool.labels;
    for (const StatsField<PoolStats>& field : PoolStatsFields()) {
      const auto* const fact =
          std::get_if<std::string PoolStats::*>(&field.member);
      if (fact == nullptr) continue;
      absl::StrAppend(&labels, ",", ToLabel(field.name, pool.stats->**fact));
    }
    absl::StrAppend(text, kMetric, "{", labels, "} 1\n");
  }
}

template <typename Stats>
void AddReporters(const std::string& pool_label, absl::string_view label_name,
                  absl::Span<const Stats> all, Reporters<Stats>* reporters) {
  DistinctLabels labels(label_name);
  for (const Stats& stats : all) {
    reporters->push_back(
        {absl::StrCat(pool_label, ",", labels.Take(stats.name)), &stats});
  }
}

}  // namespace

std::string StatsToPrometheus(absl::Span<const NamedPoolStats> pools) {
  Reporters<PoolStats> pool_reporters;
  Reporters<TagStats> tag_reporters;
  Reporters<DomainStats> domain_reporters;
  Reporters<RungStats> rung_reporters;
  Reporters<FragmentationStats> fragmentation_reporters;
  DistinctLabels pool_labels("pool");
  for (const NamedPoolStats& pool : pools) {
    const std::string label = pool_labels.Take(pool.pool_name);
    pool_reporters.push_back({label, pool.stats});
    AddReporters(label, "tag", pool.tags, &tag_reporters);
    AddReporters(label, "domain", pool.domains, &domain_reporters);
    AddReporters(label, "rung", pool.ladder, &rung_reporters);
    if (pool.fragmentation != nullptr) {
      fragmentation_reporters.push_back({label, pool.fragmentation});
    }
  }
  std::string text;
  AppendInfo(pool_reporters, &text);
  AppendFamilies({"firn_pool_", ""}, PoolStatsFields(), pool_reporters, &text);
  AppendFamilies({"firn_tag_", ""}, TagStatsFields(), tag_reporters, &text);
  AppendFamilies({"firn_domain_", ""}, DomainStatsFields(), domain_reporters,
                 &text);
  AppendFamilies({"firn_ladder_", ""}, RungStatsFields(), rung_reporters,
                 &text);
  AppendFamilies({"firn_fragmentation_", ""}, FragmentationStatsFields(),
                 fragmentation_reporters, &text);
  return text;
}

std::string StatsToPrometheus(const PoolStats& stats,
                              absl::Span<const TagStats> tags,
                              absl::Span<const DomainStats> domains,
                              absl::string_view pool_name,
                              const FragmentationStats* fragmentation,
                              absl::Span<const RungStats> ladder) {
  const NamedPoolStats pool = {pool_name, &stats,        tags,
                               domains,   fragmentation, ladder};
  return StatsToPrometheus(absl::MakeConstSpan(&pool, 1));
}

}  // namespace firn
