// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes a log of requests as long as a trace is to be, at the trace's pace.

#ifndef FIRN_BENCH_TRACES_REQUEST_LOG_H_
#define FIRN_BENCH_TRACES_REQUEST_LOG_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/traces/request.h"

namespace firn::bench {

// Plays a log for `days` days (24 h each, may be fractional), its times
// multiplied by `dilate`. A longer log is cut. A shorter one is played again
// and again, one mean gap between its last request and its first but no more
// than once a second, and the rate of arrivals swings with the time of day
// between the log's own and a twentieth of it: it starts half-way up, is
// highest after 6 h and lowest after 18 h. This day has 24 h of the trace's
// clock, whatever `dilate` is: dilating changes the log's own rate alone. What
// was recorded once is other contents each time it is played: the names of
// prefix pieces differ from round to round.
//
// The log is read as a stream, once to learn how long it is; a time that falls
// stands still instead. Thread safety: none.
class RequestLog : public RequestSource {
 public:
  // `rows` are the requests as recorded, at least one, with times of any
  // origin. `days` and `dilate` are greater than 0. The rows' errors are
  // returned as they are.
  static absl::StatusOr<std::unique_ptr<RequestLog>> Create(
      std::unique_ptr<RequestSource> rows, double days, double dilate);

  absl::StatusOr<bool> Next(Request* request) override;
  absl::Status Rewind() override;

 private:
  RequestLog(std::unique_ptr<RequestSource> rows, double days, double dilate);

  // Reads all rows for what does not change from round to round.
  absl::Status Measure();
  // The next row with its time since the first; false at the end of the rows.
  absl::StatusOr<bool> NextRow(Request* row);
  absl::Status StartRound();

  const std::unique_ptr<RequestSource> rows_;
  const double dilate_;
  const double end_us_;       // of the trace
  int64_t start_us_ = 0;      // of the rows' clock
  double period_us_ = 0;      // from one start of the log to the next, dilated
  bool swings_ = false;       // the log is shorter than the trace
  uint64_t piece_names_ = 0;  // of one round: 0 to this, exclusive
  int64_t row_us_ = 0;        // of the row read last, since the first
  uint64_t round_ = 0;        // how often the log was played
  double last_us_ = 0;        // of the request given out last
};

// When the swinging rate has brought as many requests as the log's own rate
// had by `steady_us`; a guess near it is quicker, and changes nothing.
double SwungTime(double steady_us, double near_us = 0);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_REQUEST_LOG_H_
