// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Times of day and dates as trace files write them, in microseconds.

#ifndef FIRN_BENCH_TRACES_CLOCK_TIME_H_
#define FIRN_BENCH_TRACES_CLOCK_TIME_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

inline constexpr int64_t kUsPerSecond = 1'000'000;
inline constexpr int64_t kUsPerHour = 3600 * kUsPerSecond;
inline constexpr int64_t kUsPerDay = 24 * kUsPerHour;

// H:M:S, with a fraction after '.' or with microseconds after a third ':' (as
// older RMM logs have it). Hours may exceed 23, up
// to what fits 64 bits in microseconds.
absl::StatusOr<int64_t> ParseClockTime(absl::string_view text);

// "YYYY-MM-DD H:M:S.f" (or a T between), which may end in Z or +HH:MM, since
// 1970. The day must exist; the time of day is less than 24:00:01.
absl::StatusOr<int64_t> ParseDateTime(absl::string_view text);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_CLOCK_TIME_H_
