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

RequestLog::RequestLog(std::vector<Request> log, double days, double dilate)
    : log_(std::move(log)), dilate_(dilate), end_us_(days * kUsPerDayReal) {
  // Requests of one moment stay in the order of the log.
  std::stable_sort(
      log_.begin(), log_.end(),
      [](const Request& a, const Request& b) { return a.time_us < b.time_us; });
  const int64_t start_us = log_.front().time_us;
  for (Request& request : log_) request.time_us -= start_us;
  const double span_us = static_cast<double>(log_.back().time_us);
  // A log of one moment has no gap to go by: it comes once a second.
  const double gap_us = span_us > 0
                            ? span_us / static_cast<double>(log_.size() - 1)
                            : static_cast<double>(kUsPerSecond);
  period_us_ = (span_us + gap_us) * dilate_;
  swings_ = period_us_ < end_us_;
}

absl::StatusOr<bool> RequestLog::Next(Request* request) {
  if (next_ == log_.size()) {
    next_ = 0;
    ++round_;
  }
  const double steady_us = static_cast<double>(round_) * period_us_ +
                           static_cast<double>(log_[next_].time_us) * dilate_;
  const double time_us = swings_ ? SwungTime(steady_us) : steady_us;
  if (time_us >= end_us_) return false;
  *request = log_[next_++];
  request->time_us = static_cast<int64_t>(time_us);
  return true;
}

absl::Status RequestLog::Rewind() {
  next_ = 0;
  round_ = 0;
  return absl::OkStatus();
}

}  // namespace firn::bench
