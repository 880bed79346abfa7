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

constexpr double kRadPerUs = 2 * kPi / kUsPerDayReal;
// Results are multiples of this, so that the way to them leaves no trace.
constexpr double kStepUs = 0.25;

// Requests by `us` of a day, in units of the log's rate: the rate's integral.
double RequestsBy(double us) {
  return kMeanRate * us + kSwing / kRadPerUs * (1 - std::cos(kRadPerUs * us));
}

double RateAt(double us) {
  return kMeanRate + kSwing * std::sin(kRadPerUs * us);
}

// Where RequestsBy reaches `wanted`: Newton's method from `near_us`, kept
// between bounds that close in.
double TimeOfDay(double wanted, double near_us) {
  double low = 0;
  double high = kUsPerDayReal;
  double us = std::clamp(near_us, low, high);
  while (high - low > kStepUs) {
    const double missing = wanted - RequestsBy(us);
    (missing > 0 ? low : high) = us;
    const double next = us + missing / RateAt(us);
    if (std::abs(next - us) < kStepUs / 16) break;
    us = next > low && next < high ? next : low + (high - low) / 2;
  }
  // The last step that has not reached it.
  us = std::floor(us / kStepUs) * kStepUs;
  while (us > 0 && RequestsBy(us) >= wanted) us -= kStepUs;
  while (RequestsBy(us + kStepUs) < wanted) us += kStepUs;
  return us;
}

}  // namespace

double SwungTime(double steady_us, double near_us) {
  // The swing cancels out over whole days.
  constexpr double kPerDay = kMeanRate * kUsPerDayReal;
  const double day = std::floor(steady_us / kPerDay);
  const double day_us = day * kUsPerDayReal;
  return day_us + TimeOfDay(steady_us - day * kPerDay, near_us - day_us);
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
  // Shorter rounds would be endless work where they have no event.
  period_us_ =
      std::max((span_us + gap_us) * dilate_, static_cast<double>(kUsPerSecond));
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
  const double time_us = swings_ ? SwungTime(steady_us, last_us_) : steady_us;
  if (time_us >= end_us_) return false;
  last_us_ = time_us;
  request->time_us = static_cast<int64_t>(time_us);
  return true;
}

absl::Status RequestLog::Rewind() {
  round_ = 0;
  last_us_ = 0;
  return StartRound();
}

}  // namespace firn::bench
