// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/replay_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/replay/full_passes.h"
#include "nlohmann/json.hpp"

namespace firn::bench {
namespace {

constexpr double kGib = 1 << 30;

// The value of which `share` of all values are no larger (nearest rank), 0 of
// none.
double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

nlohmann::ordered_json OrNull(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

double DriverUsPerGib(const ReplayFigures& figures) {
  if (figures.bytes_allocated == 0) return 0;
  return figures.policy.driver_us_modelled /
         (static_cast<double>(figures.bytes_allocated) / kGib);
}

std::string Gib(uint64_t bytes) {
  return absl::StrFormat("%.3f GiB", static_cast<double>(bytes) / kGib);
}

void AddLine(std::string* text, absl::string_view name,
             absl::string_view value) {
  absl::StrAppendFormat(text, "%-24s %s\n", name, value);
}

std::string Number(double value) { return absl::StrFormat("%.4f", value); }

void AddFullPasses(std::string* text, const FullPassFigures& figures) {
  if (figures.passes == 0) return;
  std::string value = absl::StrFormat("%d of %d full passes count",
                                      figures.counted_passes, figures.passes);
  if (figures.counted_passes > 0) {
    value = absl::StrFormat("%s worst, %s mean (%s)",
                            Number(*figures.worst_used_over_bound),
                            Number(*figures.mean_used_over_bound), value);
  }
  AddLine(text, "used / bound", value);
}

}  // namespace

std::string ToJson(const ReplayResult& result) {
  const ReplayFigures& figures = result.figures;
  const UsageFigures& usage = figures.usage;
  const PolicyReport& policy = figures.policy;
  nlohmann::ordered_json json;
  json["trace"] = result.trace;
  json["policy"] = result.policy;
  json["tolerated_waste_percent"] = OrNull(result.tolerated_waste_percent);
  json["events"] = figures.events;
  json["allocs"] = figures.allocs;
  json["frees"] = figures.frees;
  json["unknown_frees"] = figures.unknown_frees;
  json["failed_allocs"] = figures.failed_allocs;
  json["min_capacity_over_peak"] = OrNull(result.min_capacity_over_peak);
  json["peak_live_bytes"] = usage.peak_live_bytes;
  json["peak_used_bytes"] = usage.peak_used_bytes;
  json["peak_held_bytes"] = usage.peak_held_bytes;
  json["mean_utilization"] = usage.mean_utilization;
  json["held_utilization"] = usage.held_utilization;
  json["used_over_live_p99"] = usage.used_over_live_p99;
  json["trough_used_over_live"] = usage.trough_used_over_live;
  json["trough_held_over_live"] = usage.trough_held_over_live;
  json["end_held_bytes"] = usage.end_held_bytes;
  json["worst_probe_used_over_live"] = OrNull(usage.worst_probe_used_over_live);
  json["lower_bound_bytes_at_peak"] = figures.lower_bound_bytes_at_peak;
  json["full_passes"] = figures.full_passes.passes;
  json["worst_used_over_bound"] =
      OrNull(figures.full_passes.worst_used_over_bound);
  json["mean_used_over_bound"] =
      OrNull(figures.full_passes.mean_used_over_bound);
  json["alloc_ns_p50"] = figures.alloc_ns_p50;
  json["alloc_ns_p99"] = figures.alloc_ns_p99;
  json["free_ns_p50"] = figures.free_ns_p50;
  json["free_ns_p99"] = figures.free_ns_p99;
  json["bytes_allocated"] = figures.bytes_allocated;
  json["bytes_copied"] = policy.bytes_copied;
  json["bytes_recovered"] = policy.bytes_recovered;
  json["granules_moved"] = policy.granules_moved;
  json["mapped_vgs_peak"] = usage.mapped_vgs_peak;
  json["vgs_per_granule_mean"] = usage.vgs_per_granule_mean;
  json["driver_calls"] = {{"create", policy.driver_calls.create},
                          {"map", policy.driver_calls.map},
                          {"unmap", policy.driver_calls.unmap},
                          {"set_access", policy.driver_calls.set_access},
                          {"release", policy.driver_calls.release}};
  json["driver_us_modelled"] = policy.driver_us_modelled;
  json["driver_us_create"] = policy.driver_us_create;
  json["driver_us_per_gib"] = DriverUsPerGib(figures);
  json["pause_us_p50"] = Percentile(policy.pause_us, 0.5);
  json["pause_us_p99"] = Percentile(policy.pause_us, 0.99);
  json["pause_us_max"] = Percentile(policy.pause_us, 1);
  json["content_errors"] = policy.content_errors;
  json["wall_s"] = result.wall_s;
  // A trace's name may hold any bytes.
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string ToText(const ReplayResult& result) {
  const ReplayFigures& figures = result.figures;
  const UsageFigures& usage = figures.usage;
  const PolicyReport& policy = figures.policy;
  std::string text;
  AddLine(&text, "trace", result.trace);
  AddLine(&text, "policy", result.policy);
  AddLine(&text, "capacity", Gib(result.capacity_bytes));
  if (result.tolerated_waste_percent) {
    AddLine(&text, "tolerated waste",
            absl::StrCat(*result.tolerated_waste_percent, " %"));
  }
  if (result.min_capacity_over_peak) {
    AddLine(&text, "min capacity / peak",
            Number(*result.min_capacity_over_peak));
  }
  AddLine(&text, "events",
          absl::StrFormat("%d (%d allocations, %d failed)", figures.events,
                          figures.allocs, figures.failed_allocs));
  if (figures.unknown_frees > 0) {
    AddLine(&text, "unknown frees", absl::StrCat(figures.unknown_frees));
  }
  AddLine(&text, "peak live", Gib(usage.peak_live_bytes));
  AddLine(&text, "peak used", Gib(usage.peak_used_bytes));
  AddLine(&text, "peak held", Gib(usage.peak_held_bytes));
  AddLine(&text, "mean live / used", Number(usage.mean_utilization));
  AddLine(&text, "mean live / held", Number(usage.held_utilization));
  AddLine(&text, "used / live, p99", Number(usage.used_over_live_p99));
  AddLine(&text, "used / live in trough", Number(usage.trough_used_over_live));
  AddLine(&text, "held / live in trough", Number(usage.trough_held_over_live));
  if (usage.worst_probe_used_over_live) {
    AddLine(&text, "used / live, worst probe",
            Number(*usage.worst_probe_used_over_live));
  }
  AddFullPasses(&text, figures.full_passes);
  AddLine(&text, "copied", Gib(policy.bytes_copied));
  AddLine(&text, "granules moved", absl::StrCat(policy.granules_moved));
  AddLine(&text, "driver time, modelled",
          absl::StrFormat("%.3f s (%.0f us per GiB allocated)",
                          policy.driver_us_modelled / 1e6,
                          DriverUsPerGib(figures)));
  AddLine(&text, "longest pause, modelled",
          absl::StrFormat("%.3f ms", Percentile(policy.pause_us, 1) / 1e3));
  AddLine(&text, "allocate p50, p99",
          absl::StrFormat("%.0f ns, %.0f ns", figures.alloc_ns_p50,
                          figures.alloc_ns_p99));
  AddLine(&text, "free p50, p99",
          absl::StrFormat("%.0f ns, %.0f ns", figures.free_ns_p50,
                          figures.free_ns_p99));
  AddLine(&text, "content errors", absl::StrCat(policy.content_errors));
  AddLine(&text, "wall time", absl::StrFormat("%.2f s", result.wall_s));
  return text;
}

}  // namespace firn::bench
