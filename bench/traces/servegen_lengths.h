// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long the requests of a ServeGen client are: its chunk-N-dataset.json.

#ifndef FIRN_BENCH_TRACES_SERVEGEN_LENGTHS_H_
#define FIRN_BENCH_TRACES_SERVEGEN_LENGTHS_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/token_histogram.h"

namespace firn::bench {

// From the window's start on.
struct LengthWindow {
  double start_s = 0;
  TokenHistogram input;
  TokenHistogram output;
};

// Reads {"0": {"input_tokens": "{120: 0.5, ...}", "output_tokens": "{...}"},
// "21600": ...}, the windows by their start in seconds, in any order; other
// fields of a window are ignored. Gives those with lengths, by time: none where
// all are "{}".
//
// InvalidArgument names file, window and field, or the byte where the JSON is
// damaged; also for lengths of only one of the two, and for more than
// `most_lengths` lengths.
absl::StatusOr<std::vector<LengthWindow>> ReadServeGenLengths(
    absl::string_view path, size_t most_lengths);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SERVEGEN_LENGTHS_H_
