// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A trace for tests: a list of events, which may end in an error.

#ifndef FIRN_TESTS_BENCH_REPLAY_EVENT_LIST_H_
#define FIRN_TESTS_BENCH_REPLAY_EVENT_LIST_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/trace.h"

namespace firn::bench {

inline TraceEvent Alloc(int64_t time_us, uint64_t id, uint64_t bytes) {
  return {TraceEventKind::kAllocate, 0, 0, time_us, id, bytes};
}

inline TraceEvent Free(int64_t time_us, uint64_t id, uint64_t bytes) {
  return {TraceEventKind::kFree, 0, 0, time_us, id, bytes};
}

inline TraceEvent Probe(int64_t time_us) {
  return {TraceEventKind::kProbe, 0, 0, time_us, 0, 0};
}

inline TraceEvent UnknownFree(int64_t time_us, uint64_t bytes) {
  return {TraceEventKind::kUnknownFree, 0, 0, time_us, 0, bytes};
}

class EventList : public TraceSource {
 public:
  explicit EventList(std::vector<TraceEvent> events,
                     absl::Status end = absl::OkStatus())
      : events_(std::move(events)), end_(std::move(end)) {}

  absl::string_view name() const override { return "event_list"; }
  absl::StatusOr<bool> Next(TraceEvent* event) override {
    if (next_ == events_.size()) {
      if (!end_.ok()) return end_;
      return false;
    }
    *event = events_[next_++];
    return true;
  }
  absl::Status Rewind() override {
    next_ = 0;
    return absl::OkStatus();
  }

 private:
  const std::vector<TraceEvent> events_;
  const absl::Status end_;
  size_t next_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_REPLAY_EVENT_LIST_H_
