// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// To whom a pool tells its events: the history and the RMM log, where its
// options want either.

#ifndef FIRN_CORE_EVENT_RECORDER_H_
#define FIRN_CORE_EVENT_RECORDER_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "firn/core/history.h"
#include "firn/core/history_ring.h"
#include "firn/core/pool_options.h"
#include "firn/core/rmm_log.h"

namespace firn {

// Thread safety: all methods may be called from any thread.
class EventRecorder {
 public:
  // Null if `options`, which are valid, want no events recorded.
  // InvalidArgument: the log's file cannot be written.
  static absl::StatusOr<std::unique_ptr<EventRecorder>> Create(
      const PoolOptions& options);

  // Any lock may be held; a free is recorded before anybody else can be given
  // the block.
  void Record(const EventRecord& record) {
    if (ring_ != nullptr) ring_->Record(record);
    if (log_ != nullptr) log_->Add(record);
  }
  // Without a lock: does what Record has put off.
  void Settle() {
    if (log_ != nullptr) log_->MaybeWrite();
  }

  History Read() const { return ring_ != nullptr ? ring_->Read() : History(); }

 private:
  EventRecorder(std::unique_ptr<HistoryRing> ring, std::unique_ptr<RmmLog> log)
      : ring_(std::move(ring)), log_(std::move(log)) {}

  const std::unique_ptr<HistoryRing> ring_;
  const std::unique_ptr<RmmLog> log_;
};

}  // namespace firn

#endif  // FIRN_CORE_EVENT_RECORDER_H_
