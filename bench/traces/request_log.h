// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes a log of requests as long as a trace is to be, at the trace's pace.

#ifndef FIRN_BENCH_TRACES_REQUEST_LOG_H_
#define FIRN_BENCH_TRACES_REQUEST_LOG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/traces/request.h"

namespace firn::bench {

// Plays a log for `days` days (24 h each, may be fractional), its times
// multiplied by `dilate`. A longer log is cut. A shorter one is played again
// and again, one mean gap between its last request and its first, and the rate
// of arrivals swings with the time of day between the log's own and a twentieth
// of it: it starts half-way up, is highest after 6 h and lowest after 18 h.
//
// Thread safety: none.
class RequestLog : public RequestSource {
 public:
  // `log` must not be empty; it is sorted by time here. `days` and `dilate` are
  // greater than 0.
  RequestLog(std::vector<Request> log, double days, double dilate);

  absl::StatusOr<bool> Next(Request* request) override;
  absl::Status Rewind() override;

 private:
  std::vector<Request> log_;  // times from 0
  double dilate_;
  double end_us_;       // of the trace
  double period_us_;    // from one start of the log to the next, dilated
  bool swings_;         // the log is shorter than the trace
  size_t next_ = 0;     // of log_
  uint64_t round_ = 0;  // how often the log was played
};

// When the swinging rate has brought as many requests as the log's own rate
// had by `steady_us`.
double SwungTime(double steady_us);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_REQUEST_LOG_H_
