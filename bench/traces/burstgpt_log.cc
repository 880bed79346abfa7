// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/burstgpt_log.h"

#include <cmath>

#include "bench/traces/clock_time.h"
#include "bench/traces/decimal_number.h"

namespace firn::bench {

absl::StatusOr<int64_t> ParseBurstGptTime(absl::string_view text) {
  constexpr double kMaxSeconds = 1e12;
  absl::StatusOr<double> seconds = ParseDecimal(text, kMaxSeconds);
  if (!seconds.ok()) return seconds.status();
  return std::llround(*seconds * static_cast<double>(kUsPerSecond));
}

}  // namespace firn::bench
