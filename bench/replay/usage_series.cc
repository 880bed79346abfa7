// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/usage_series.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace firn::bench {

UsageSeries::UsageSeries(int64_t first_time_us, int64_t last_time_us)
    : first_time_us_(first_time_us),
      duration_us_(last_time_us - first_time_us),
      intervals_(kIntervals),
      time_us_(first_time_us) {}

int64_t UsageSeries::StartOf(int interval) const {
  // In floating point: the product of two such numbers need not fit.
  return first_time_us_ +
         static_cast<int64_t>(static_cast<double>(duration_us_) * interval /
                              kIntervals);
}

void UsageSeries::Record(int64_t time_us, const MemoryState& state) {
  while (time_us_ < time_us && current_ < kIntervals) {
    const int64_t end = current_ + 1 == kIntervals
                            ? first_time_us_ + duration_us_
                            : StartOf(current_ + 1);
    const int64_t until = std::min(time_us, end);
    const double lasted_us =
        static_cast<double>(std::max<int64_t>(0, until - time_us_));
    Interval& interval = intervals_[static_cast<size_t>(current_)];
    interval.duration_us += lasted_us;
    interval.live_byte_us += lasted_us * static_cast<double>(state_.live_bytes);
    interval.used_byte_us += lasted_us * static_cast<double>(state_.used_bytes);
    interval.held_byte_us += lasted_us * static_cast<double>(state_.held_bytes);
    time_us_ = std::max(time_us_, until);
    if (until == end) ++current_;
  }
  time_us_ = std::max(time_us_, time_us);
  state_ = state;
}

std::string UsageSeries::ToCsv() const {
  std::string csv = "hours,live_bytes,used_bytes,held_bytes\n";
  for (int i = 0; i < kIntervals; ++i) {
    const Interval& interval = intervals_[static_cast<size_t>(i)];
    if (interval.duration_us <= 0) continue;
    const double middle_us =
        static_cast<double>(duration_us_) * (i + 0.5) / kIntervals;
    absl::StrAppendFormat(&csv, "%.4f,%.0f,%.0f,%.0f\n", middle_us / 3.6e9,
                          interval.live_byte_us / interval.duration_us,
                          interval.used_byte_us / interval.duration_us,
                          interval.held_byte_us / interval.duration_us);
  }
  return csv;
}

absl::Status WriteUsageSeries(const UsageSeries& series,
                              const std::string& path) {
  std::ofstream file(path);
  file << series.ToCsv() << std::flush;
  if (file) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("--usage_series: '", path, "': cannot be written"));
}

}  // namespace firn::bench
