// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/core/memory_limit.h"
#include "firn/core/stats_export.h"
#include "firn/core/stats_fields.h"
#include "firn/core/text_escapes.h"

namespace firn {
namespace {

template <typename Stats>
std::string ToMembers(absl::Span<const StatsField<Stats>> fields,
                      const Stats& stats);
template <typename Stats>
std::string ToArray(absl::Span<const StatsField<Stats>> fields,
                    absl::Span<const Stats> all);

std::string ToValue(uint64_t value) { return absl::StrCat(value); }
std::string ToValue(bool value) { return value ? "true" : "false"; }
std::string ToValue(Tag tag) { return ToValue(static_cast<uint64_t>(tag)); }
std::string ToValue(DomainId id) { return ToValue(static_cast<uint64_t>(id)); }

// Six digits; always finite.
std::string ToValue(double value) { return absl::StrCat(value); }

template <typename Number>
std::string ToValue(const std::optional<Number>& value) {
  return value.has_value() ? ToValue(*value) : "null";
}

std::string ToValue(const std::string& text) {
  return absl::StrCat("\"", EscapeForJson(text), "\"");
}

std::string ToValue(const MemoryLimit& limit) {
  return absl::StrCat("{", ToMembers(MemoryLimitFields(), limit), "}");
}

std::string ToValue(const std::vector<RequestFit>& fits) {
  return ToArray(RequestFitFields(), absl::MakeConstSpan(fits));
}

std::string ToValue(const std::vector<SizeBucket>& buckets) {
  return ToArray(SizeBucketFields(), absl::MakeConstSpan(buckets));
}

// "key":value,... without the braces.
template <typename Stats>
std::string ToMembers(absl::Span<const StatsField<Stats>> fields,
                      const Stats& stats) {
  std::string text;
  absl::string_view separator;
  for (const StatsField<Stats>& field : fields) {
    const std::string value = std::visit(
        [&](auto member) { return ToValue(stats.*member); }, field.member);
    absl::StrAppend(&text, separator, "\"", field.name, "\":", value);
    separator = ",";
  }
  return text;
}

template <typename Stats>
std::string ToArray(absl::Span<const StatsField<Stats>> fields,
                    absl::Span<const Stats> all) {
  std::string text = "[";
  absl::string_view separator;
  for (const Stats& stats : all) {
    absl::StrAppend(&text, separator, "{", ToMembers(fields, stats), "}");
    separator = ",";
  }
  return text + "]";
}

}  // namespace

std::string StatsToJson(const PoolStats& stats, absl::Span<const TagStats> tags,
                        absl::Span<const DomainStats> domains,
                        const FragmentationStats* fragmentation,
                        absl::Span<const RungStats> ladder) {
  std::string text =
      absl::StrCat("{", ToMembers(PoolStatsFields(), stats),
                   ",\"tags\":", ToArray(TagStatsFields(), tags),
                   ",\"domains\":", ToArray(DomainStatsFields(), domains));
  if (fragmentation != nullptr) {
    absl::StrAppend(&text, ",\"fragmentation\":{",
                    ToMembers(FragmentationStatsFields(), *fragmentation), "}");
  }
  if (!ladder.empty()) {
    absl::StrAppend(&text, ",\"ladder\":", ToArray(RungStatsFields(), ladder));
  }
  return text + "}";
}

}  // namespace firn
