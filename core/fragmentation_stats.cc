// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/fragmentation_stats.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "firn/core/stats_fields.h"

namespace firn {
namespace {

template <typename Value>
void AppendLine(absl::string_view name, const Value& value, std::string* text) {
  if constexpr (std::is_arithmetic_v<Value>) {
    absl::StrAppend(text, name, ": ", value, "\n");
  }
}

void AppendLine(absl::string_view name, const std::vector<RequestFit>& fits,
                std::string* text) {
  for (const RequestFit& fit : fits) {
    absl::StrAppend(text, name, " of ", fit.request_bytes, ": unusable_share ",
                    fit.unusable_share, ", extfrag_share ", fit.extfrag_share);
    if (fit.fragmentation_index.has_value()) {
      absl::StrAppend(text, ", fragmentation_index ", *fit.fragmentation_index);
    }
    absl::StrAppend(text, "\n");
  }
}

void AppendLine(absl::string_view name, const std::vector<SizeBucket>& buckets,
                std::string* text) {
  for (const SizeBucket& bucket : buckets) {
    if (bucket.pieces == 0) continue;
    absl::StrAppend(text, name, " up to ", bucket.up_to_bytes, ": pieces ",
                    bucket.pieces, ", sum_bytes ", bucket.sum_bytes, "\n");
  }
}

}  // namespace

absl::string_view FragmentationStats::greatest_bound() const {
  std::pair<absl::string_view, uint64_t> greatest = {"bytes",
                                                     bound_by_bytes_granules};
  for (const auto& bound : {std::pair<absl::string_view, uint64_t>(
                                "depth", bound_by_depth_granules),
                            {"large", bound_by_large_granules},
                            {"pins", bound_by_pins_granules},
                            {"packing", bound_by_packing_granules}}) {
    if (bound.second > greatest.second) greatest = bound;
  }
  return greatest.first;
}

std::string FragmentationStats::ToString() const {
  std::string text;
  for (const StatsField<FragmentationStats>& field :
       FragmentationStatsFields()) {
    std::visit(
        [&](auto member) { AppendLine(field.name, this->*member, &text); },
        field.member);
  }
  absl::StrAppend(&text, "greatest_bound: ", greatest_bound(), "\n");
  return text;
}

}  // namespace firn
