// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The fields of what a pool reports, one table a struct: what every form that
// statistics are written in (core/stats_export.h) goes by, so that a field that
// is in the table is in each of them. A field added to a struct is added here;
// tests fail until it is.

#ifndef FIRN_CORE_STATS_FIELDS_H_
#define FIRN_CORE_STATS_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/core/domain.h"
#include "firn/core/fragmentation_stats.h"
#include "firn/core/ladder.h"
#include "firn/core/memory_limit.h"
#include "firn/core/pool_stats.h"
#include "firn/core/tags.h"

namespace firn {

enum class StatKind : uint8_t {
  kName,     // tells things apart: a label of everything they report
  kFact,     // words that describe the pool
  kGauge,    // as it is now, or has been at most
  kCounter,  // since creation: only grows
};

enum class StatUnit : uint8_t { kNone, kCount, kBytes };

template <typename Stats>
struct StatsField {
  absl::string_view name;  // the member's
  std::variant<uint64_t Stats::*, std::optional<uint64_t> Stats::*,
               bool Stats::*, std::string Stats::*, MemoryLimit Stats::*,
               Tag Stats::*, DomainId Stats::*, double Stats::*,
               std::optional<double> Stats::*, std::vector<RequestFit> Stats::*,
               std::vector<SizeBucket> Stats::*>
      member;
  StatKind kind = StatKind::kGauge;
  StatUnit unit = StatUnit::kNone;
  absl::string_view help;  // one sentence without its full stop
};

// In the order of the struct. Thread safety: constants.
absl::Span<const StatsField<PoolStats>> PoolStatsFields();
absl::Span<const StatsField<TagStats>> TagStatsFields();
absl::Span<const StatsField<DomainStats>> DomainStatsFields();
absl::Span<const StatsField<RungStats>> RungStatsFields();
absl::Span<const StatsField<FragmentationStats>> FragmentationStatsFields();
// Of members that are structs, or vectors of them.
absl::Span<const StatsField<MemoryLimit>> MemoryLimitFields();
absl::Span<const StatsField<RequestFit>> RequestFitFields();
absl::Span<const StatsField<SizeBucket>> SizeBucketFields();

}  // namespace firn

#endif  // FIRN_CORE_STATS_FIELDS_H_
