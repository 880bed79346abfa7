// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool_stats.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace firn {
namespace {

template <typename T>
void AppendLine(std::string* text, const char* name, const T& value) {
  absl::StrAppend(text, name, ": ", value, "\n");
}

}  // namespace

std::string PoolStats::ToString() const {
  std::string text;
  AppendLine(&text, "backend", backend);
  AppendLine(&text, "device_name", device_name);
  AppendLine(&text, "driver_reason", driver_reason);
  AppendLine(&text, "moving", moving ? "yes" : "no");
  AppendLine(&text, "moving_reason", moving_reason);
  AppendLine(&text, "granule_bytes", granule_bytes);
  AppendLine(&text, "capacity_bytes", capacity_bytes);
  AppendLine(&text, "limit_bytes", limit_bytes);
  AppendLine(&text, "soft_limit_bytes", soft_limit_bytes);
  AppendLine(&text, "live_bytes", live_bytes);
  AppendLine(&text, "live_allocations", live_allocations);
  AppendLine(&text, "used_bytes", used_bytes);
  AppendLine(&text, "held_bytes", held_bytes);
  AppendLine(&text, "cached_bytes", cached_bytes);
  AppendLine(&text, "pending_free_bytes", pending_free_bytes);
  AppendLine(&text, "parked_blocks", parked_blocks);
  AppendLine(&text, "mapped_vgs", mapped_vgs);
  AppendLine(&text, "live_vgs", live_vgs);
  AppendLine(&text, "partial_granules", partial_granules);
  AppendLine(&text, "pinned_blocks", pinned_blocks);
  AppendLine(&text, "pinned_bytes", pinned_bytes);
  AppendLine(&text, "idle_blocks", idle_blocks);
  AppendLine(&text, "idle_bytes", idle_bytes);
  AppendLine(&text, "spillable_blocks", spillable_blocks);
  AppendLine(&text, "spillable_bytes", spillable_bytes);
  AppendLine(&text, "spilled_bytes", spilled_bytes);
  AppendLine(&text, "host_used_bytes", host_used_bytes);
  AppendLine(&text, "host_held_bytes", host_held_bytes);
  AppendLine(&text, "host_limit_bytes", host_limit_bytes);
  AppendLine(&text, "read_only_blocks", read_only_blocks);
  AppendLine(&text, "read_only_bytes", read_only_bytes);
  AppendLine(&text, "pinned_granules", pinned_granules);
  AppendLine(&text, "graph_pools", graph_pools);
  AppendLine(&text, "graph_pool_bytes", graph_pool_bytes);
  AppendLine(&text, "exportable_bytes", exportable_bytes);
  AppendLine(&text, "peak_live_bytes", peak_live_bytes);
  AppendLine(&text, "peak_used_bytes", peak_used_bytes);
  AppendLine(&text, "peak_held_bytes", peak_held_bytes);
  AppendLine(&text, "peak_mapped_vgs", peak_mapped_vgs);
  AppendLine(&text, "allocations", allocations);
  AppendLine(&text, "frees", frees);
  AppendLine(&text, "failed_allocations", failed_allocations);
  AppendLine(&text, "cache_hits", cache_hits);
  AppendLine(&text, "refused_frees", refused_frees);
  AppendLine(&text, "compaction_passes", compaction_passes);
  AppendLine(&text, "failed_passes", failed_passes);
  AppendLine(&text, "granules_moved", granules_moved);
  AppendLine(&text, "granules_recovered", granules_recovered);
  AppendLine(&text, "bytes_copied", bytes_copied);
  AppendLine(&text, "granules_spilled", granules_spilled);
  AppendLine(&text, "granules_returned", granules_returned);
  AppendLine(&text, "bytes_spilled", bytes_spilled);
  AppendLine(&text, "bytes_returned", bytes_returned);
  AppendLine(&text, "zeroed_bytes", zeroed_bytes);
  AppendLine(&text, "vetoed_sources", vetoed_sources);
  AppendLine(&text, "handles_created", handles_created);
  AppendLine(&text, "handles_released", handles_released);
  AppendLine(&text, "possibly_held_elsewhere", possibly_held_elsewhere);
  AppendLine(&text, "gate_closings", gate_closings);
  AppendLine(&text, "gate_timeouts", gate_timeouts);
  AppendLine(&text, "gate_refusals", gate_refusals);
  AppendLine(&text, "blocked_scopes", blocked_scopes);
  AppendLine(&text, "scope_tokens", scope_tokens);
  AppendLine(&text, "device_waits", device_waits);
  AppendLine(&text, "unscoped_reports", unscoped_reports);
  return text;
}

std::string CompactionReport::ToString() const {
  std::string text;
  AppendLine(&text, "granules_before", granules_before);
  AppendLine(&text, "granules_after", granules_after);
  AppendLine(&text, "lower_bound_granules", lower_bound_granules);
  AppendLine(&text, "granules_recovered", granules_recovered);
  AppendLine(&text, "moves", moves);
  AppendLine(&text, "bytes_copied", bytes_copied);
  AppendLine(&text, "rejected_sources", rejected_sources);
  AppendLine(&text, "vetoed_sources", vetoed_sources);
  AppendLine(&text, "pinned_granules", pinned_granules);
  AppendLine(&text, "busy_granules", busy_granules);
  AppendLine(&text, "budget_exhausted", budget_exhausted ? "yes" : "no");
  AppendLine(&text, "duration", absl::FormatDuration(duration));
  AppendLine(&text, "pause", absl::FormatDuration(pause));
  AppendLine(&text, "planned_us", absl::StrFormat("%.1f", planned_us));
  return text;
}

}  // namespace firn
