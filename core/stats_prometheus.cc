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
std::optional<uint64_t> ToNumber(uint64_t value) { return value; }
std::optional<uint64_t> ToNumber(bool value) { return value ? 1 : 0; }
std::optional<uint64_t> ToNumber(const std::optional<uint64_t>& value) {
  return value;
}
std::optional<uint64_t> ToNumber(const std::string&) { return std::nullopt; }
std::optional<uint64_t> ToNumber(const MemoryLimit&) { return std::nullopt; }
std::optional<uint64_t> ToNumber(Tag) { return std::nullopt; }
std::optional<uint64_t> ToNumber(DomainId) { return std::nullopt; }

template <typename Stats>
void AppendFamily(const FamilyPrefix& prefix, const StatsField<Stats>& field,
                  const Reporters<Stats>& reporters, std::string* text) {
  const std::string metric = ToMetricName(prefix.metric, field);
  std::string samples;
  for (const Reporter<Stats>& reporter : reporters) {
    const std::optional<uint64_t> value = std::visit(
        [&](auto member) { return ToNumber(reporter.stats->*member); },
        field.member);
    if (!value.has_value()) continue;
    absl::StrAppend(&samples, metric, "{", reporter.labels, "} ", *value, "\n");
  }
  if (samples.empty()) return;
  AppendHead(metric, absl::StrCat(prefix.help, field.help),
             field.kind == StatKind::kCounter ? "counter" : "gauge", text);
  absl::StrAppend(text, samples);
}

template <typename Stats>
void AppendFamilies(const FamilyPrefix& prefix,
                    absl::Span<const StatsField<Stats>> fields,
                    const Reporters<Stats>& reporters, std::string* text) {
  for (const StatsField<Stats>& field : fields) {
    if (field.kind != StatKind::kGauge && field.kind != StatKind::kCounter) {
      continue;
    }
    const auto* const limit = std::get_if<MemoryLimit Stats::*>(&field.member);
    if (limit == nullptr) {
      AppendFamily(prefix, field, reporters, text);
      continue;
    }
    Reporters<MemoryLimit> limits;
    for (const Reporter<Stats>& reporter : reporters) {
      limits.push_back({reporter.labels, &(reporter.stats->**limit)});
    }
    AppendFamilies({absl::StrCat(prefix.metric, field.name, "_"),
                    absl::StrCat(prefix.help, field.help, ": ")},
                   MemoryLimitFields(), limits, text);
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
  DistinctLabels pool_labels("pool");
  for (const NamedPoolStats& pool : pools) {
    const std::string label = pool_labels.Take(pool.pool_name);
    pool_reporters.push_back({label, pool.stats});
    AddReporters(label, "tag", pool.tags, &tag_reporters);
    AddReporters(label, "domain", pool.domains, &domain_reporters);
  }
  std::string text;
  AppendInfo(pool_reporters, &text);
  AppendFamilies({"firn_pool_", ""}, PoolStatsFields(), pool_reporters, &text);
  AppendFamilies({"firn_tag_", ""}, TagStatsFields(), tag_reporters, &text);
  AppendFamilies({"firn_domain_", ""}, DomainStatsFields(), domain_reporters,
                 &text);
  return text;
}

std::string StatsToPrometheus(const PoolStats& stats,
                              absl::Span<const TagStats> tags,
                              absl::Span<const DomainStats> domains,
                              absl::string_view pool_name) {
  const NamedPoolStats pool = {pool_name, &stats, tags, domains};
  return StatsToPrometheus(absl::MakeConstSpan(&pool, 1));
}

}  // namespace firn
