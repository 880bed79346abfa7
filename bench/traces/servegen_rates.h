// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a ServeGen client sends requests: its chunk-N-trace.csv.

#ifndef FIRN_BENCH_TRACES_SERVEGEN_RATES_H_
#define FIRN_BENCH_TRACES_SERVEGEN_RATES_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/arrival_gaps.h"

namespace firn::bench {

// From the window's start to its end the client sends `requests`, with such
// gaps (in units of the mean gap) between them.
struct RateWindow {
  double start_s = 0;
  double end_s = 0;
  double requests = 0;
  ArrivalGaps gaps;
};

// Reads rows without a header of: the window's start (seconds), requests a
// second, the CV of their gaps, the gaps' distribution (may be empty where
// there are no requests) and its two arguments, which follow from the rate and
// the CV (in the published data they are shape and scale) and are ignored.
// Starts rise by 1 s to a day; the last window is as long as the one before
// (600 s where there is none).
//
// InvalidArgument names file, line and field; also for a file without rows, one
// of more than `most_windows`, and a window of more than 10^7 requests.
absl::StatusOr<std::vector<RateWindow>> ReadServeGenRates(
    absl::string_view path, size_t most_windows);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SERVEGEN_RATES_H_
