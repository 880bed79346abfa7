// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What pools report about themselves, for other programs: as JSON, and in
// Prometheus' text format.
//
//   const std::string body =
//       firn::StatsToPrometheus(pool->GetStats(), pool->GetTagStats(),
//                               pool->GetDomainStats(), "training");
//   response.Send(firn::kPrometheusContentType, body);
//
// Pure functions: any thread, and no pool is touched. The arguments are read at
// several moments, so where other threads allocate meanwhile, tags, domains and
// fragmentation need not add up to the pool to the byte. docs/statistics.md
// explains the names.

#ifndef FIRN_CORE_STATS_EXPORT_H_
#define FIRN_CORE_STATS_EXPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/core/domain.h"
#include "firn/core/fragmentation_stats.h"
#include "firn/core/ladder.h"
#include "firn/core/pool_stats.h"
#include "firn/core/tags.h"

namespace firn {

// One object in one line, without a newline at its end. The keys are the names
// of the structs' members, in their order, with "tags" and "domains" after the
// pool's own: arrays of objects. Sizes are in bytes, numbers exact integers
// (beyond 2^53 some readers round them) or shares of six digits; what is not
// known is null. `fragmentation`, unless null, is an object, and `ladder` an
// array like "tags"; they come last.
std::string StatsToJson(const PoolStats& stats, absl::Span<const TagStats> tags,
                        absl::Span<const DomainStats> domains,
                        const FragmentationStats* fragmentation = nullptr,
                        absl::Span<const RungStats> ladder = {});

// The HTTP header that goes with what StatsToPrometheus returns.
inline constexpr absl::string_view kPrometheusContentType =
    "text/plain; version=0.0.4; charset=utf-8";

// Text format 0.0.4: a family for each figure, firn_pool_... with the label
// pool, firn_tag_... with pool and tag, firn_domain_... with pool and domain;
// sizes in bytes, counters end in _total. firn_pool_info has what is said in
// words as labels. An empty `pool_name` is, to Prometheus, no label. Where two
// things have one name, " (2)" is added to the second one's, so that no series
// is there twice. `fragmentation`, unless null: firn_fragmentation_... with the
// label pool, and a size where it is of a size. `ladder`: firn_ladder_... with
// pool and rung.
std::string StatsToPrometheus(const PoolStats& stats,
                              absl::Span<const TagStats> tags,
                              absl::Span<const DomainStats> domains,
                              absl::string_view pool_name,
                              const FragmentationStats* fragmentation = nullptr,
                              absl::Span<const RungStats> ladder = {});

// What one pool of several reports; refers to what it is made of.
struct NamedPoolStats {
  absl::string_view pool_name;
  const PoolStats* stats = nullptr;  // not null
  absl::Span<const TagStats> tags;
  absl::Span<const DomainStats> domains;
  const FragmentationStats* fragmentation = nullptr;  // null: left out
  absl::Span<const RungStats> ladder = {};            // empty: likewise
};

// The same for several pools in one answer: no family may be there twice, so
// the texts of single pools must not be joined.
std::string StatsToPrometheus(absl::Span<const NamedPoolStats> pools);

}  // namespace firn

#endif  // FIRN_CORE_STATS_EXPORT_H_
