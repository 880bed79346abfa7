// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/trace_summary.h"

#include <algorithm>

namespace firn::bench {

absl::StatusOr<TraceSummary> SummarizeTrace(TraceSource* trace) {
  if (absl::Status status = trace->Rewind(); !status.ok()) return status;
  TraceSummary summary;
  uint64_t live_bytes = 0;
  TraceEvent event;
  while (true) {
    absl::StatusOr<bool> has_event = trace->Next(&event);
    if (!has_event.ok()) return has_event.status();
    if (!*has_event) return summary;
    if (event.kind != TraceEventKind::kAllocate &&
        event.kind != TraceEventKind::kFree) {
      continue;
    }
    if (summary.events++ == 0) summary.first_time_us = event.time_us;
    summary.last_time_us = event.time_us;
    if (event.kind == TraceEventKind::kAllocate) {
      live_bytes += event.bytes;
      summary.peak_live_bytes = std::max(summary.peak_live_bytes, live_bytes);
    } else {
      live_bytes -= event.bytes;
    }
  }
}

}  // namespace firn::bench
