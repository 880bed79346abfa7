// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/event_recorder.h"

#include "absl/memory/memory.h"

namespace firn {

absl::StatusOr<std::unique_ptr<EventRecorder>> EventRecorder::Create(
    const PoolOptions& options) {
  std::unique_ptr<HistoryRing> ring;
  if (options.history_entries > 0) {
    ring = absl::make_unique<HistoryRing>(options.history_entries,
                                          options.history_stacks);
  }
  std::unique_ptr<RmmLog> log;
  if (!options.rmm_log.empty()) {
    absl::StatusOr<std::unique_ptr<RmmLog>> created =
        RmmLog::Create(options.rmm_log);
    if (!created.ok()) return created.status();
    log = *std::move(created);
  }
  if (ring == nullptr && log == nullptr) {
    return std::unique_ptr<EventRecorder>();
  }
  return absl::WrapUnique(new EventRecorder(std::move(ring), std::move(log)));
}

}  // namespace firn
