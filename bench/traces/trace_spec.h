// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A --trace value taken apart: FILE, DIR or gen:NAME, then ",key=value...".

#ifndef FIRN_BENCH_TRACES_TRACE_SPEC_H_
#define FIRN_BENCH_TRACES_TRACE_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

struct TraceKey {
  std::string key;
  std::string value;
};

struct TraceSpec {
  std::string text;  // all of it, as given
  std::string path;  // up to the first comma, so no path may contain one
  std::vector<TraceKey> keys;
};

// InvalidArgument: no path, a key without a value, or a key given twice.
absl::StatusOr<TraceSpec> ParseTraceSpec(absl::string_view text);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TRACE_SPEC_H_
