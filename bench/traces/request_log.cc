// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/request_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/traces/clock_time.h"

namespace firn::bench {
namespace {

// The rate, in units of the log's, is kMeanRate + kSwing * sin(2 pi t / 24 h).
constexpr double kMeanRate = 0.525;
constexpr double kSwing = 0.475;
constexpr double kUsPerDayReal = static_cast<double>(kUsPerDay);
constexpr double kPi = 3.14159265358979323846;

}  // namespace

double SwungTime(double steady_us) {
  // Requests by t, in units of the log's rate: the integral of the rate. It
  // rises throughout, and the swing cancels out over whole days. Within a day
  // bisect: that always converges, and the same way everywhere.
  constexpr double kRadPerUs = 2 * kPi / kUsPerDayReal;
  constexpr double kPerDay = kMeanRate * kUsPerDayReal;
  const double day = std::floor(steady_us / kPerDay);
  const double wanted = steady_us - day * kPerDay;
  double low = 0;
  double high = kUsPerDayReal;
  while (high - low > 0.25) {
    const double middle = low + (high - low) / 2;
    const double reached =
        kMeanRate * middle +
        kSwing / kRadPerUs * (1 - std::cos(kRadPerUs * middle));
    (reached < wanted ? low : high) = middle;
  }
  return day * kUsPerDayReal + low;
}

RequestLog::RequestLog(std::unique_ptr<RequestSource> rows, double days,
                       double dilate)
    : rows_(std::move(rows)), dilate_(dilate), end_us_(days * kUsPerDayReal) {}

absl::StatusOr<std::unique_ptr<RequestLog>> RequestLog::Create(
    std::unique_ptr<RequestSource> rows, double days, double dilate) {
  std::unique_ptr<RequestLog> log(
      new RequestLog(std::move(rows), days, dilate));
  if (absl::Status status = log->Measure(); !status.ok()) return status;
  return log;
}

absl::Status RequestLog::Measure() {
  Request row;
  uint64_t count = 0;
  while (true) {
    absl::StatusOr<bool> found = rows_->Next(&row);
    if (!found.ok()) return found.status();
    if (!*found) break;
    if (count++ == 0) start_us_ = row.time_us;
    row_us_ = std::max(row_us_, row.time_us - start_us_);
    for (const uint64_t piece : row.prefix_pieces) {
      piece_names_ = std::max(piece_names_, piece + 1);
    }
  }
  const double span_us = static_cast<double>(row_us_);
  // A log of one moment has no gap to go by: it comes once a second.
  const double gap_us = span_us > 0 ? span_us / static_cast<double>(count - 1)
                                    : static_cast<double>(kUsPerSecond);
  period_us_ = (span_us + gap_us) * dilate_;
  swings_ = period_us_ < end_us_;
  return Rewind();
}

absl::StatusOr<bool> RequestLog::NextRow(Request* row) {
  absl::StatusOr<bool> found = rows_->Next(row);
  if (!found.ok() || !*found) return found;
  row_us_ = std::max(row_us_, row->time_us - start_us_);
  row->time_us = row_us_;
  for (uint64_t& piece : row->prefix_pieces) piece += round_ * piece_names_;
  return true;
}

absl::Status RequestLog::StartRound() {
  row_us_ = 0;
  return rows_->Rewind();
}

absl::StatusOr<bool> RequestLog::Next(Request* request) {
  absl::StatusOr<bool> found = NextRow(request);
  if (found.ok() && !*found) {
    ++round_;
    if (absl::Status status = StartRound(); !status.ok()) return status;
    found = NextRow(request);
  }
  if (!found.ok() || !*found) return found;
  const double steady_us = static_cast<double>(round_) * period_us_ +
                           static_cast<double>(request->time_us) * dilate_;
  const double time_us = swings_ ? SwungTime(steady_us) : steady_us;
  if (time_us >= end_us_) return false;
  request->time_us = static_cast<int64_t>(time_us);
  return true;
}

absl::Status RequestLog::Rewind() {
  round_ = 0;
  return StartRound();
}

}  // namespace firn::bench
