// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the trace sources share: files with given contents, events
// gathered and checked against the promises of TraceSource, the public traces.

#ifndef FIRN_TESTS_BENCH_TRACES_TRACE_TESTING_H_
#define FIRN_TESTS_BENCH_TRACES_TRACE_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bench/traces/trace.h"
#include "gtest/gtest.h"

namespace firn::bench {

bool operator==(const TraceEvent& a, const TraceEvent& b);
std::ostream& operator<<(std::ostream& os, const TraceEvent& event);

TraceEvent Allocated(int64_t time_us, uint64_t id, uint64_t bytes,
                     uint32_t stream = 0);
TraceEvent Freed(int64_t time_us, uint64_t id, uint64_t bytes,
                 uint32_t stream = 0);

TraceEvent FreedUnknown(int64_t time_us, uint64_t bytes, uint32_t stream = 0);

// Writes `contents` to a file of the running test and gives its path.
std::string WriteFile(absl::string_view name, absl::string_view contents);

// All events up to the end or an error, which goes to `status`. Adds a failure
// for every broken promise: time that falls, an id that is allocated while live
// or freed while not, a free with other bytes.
std::vector<TraceEvent> Gather(TraceSource* trace, absl::Status* status);
// The same for a trace that must not fail.
std::vector<TraceEvent> Gather(TraceSource* trace);

struct TraceTotals {
  uint64_t allocs = 0;
  uint64_t frees = 0;
  uint64_t probes = 0;
  uint64_t unknown_frees = 0;
  uint64_t peak_live_bytes = 0;
  uint64_t end_live_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t most_live_blocks = 0;
  uint64_t greatest_id = 0;
};
TraceTotals TotalsOf(const std::vector<TraceEvent>& events);

// The path of a file among the public traces: in $FIRN_TRACES, else in
// shared/traces beside the sources. Empty where it is absent.
std::string PublicTrace(absl::string_view name);

}  // namespace firn::bench

// Skips the test where the public trace `name` is absent; else its path is in
// `path`.
#define FIRN_PUBLIC_TRACE_OR_SKIP(path, name)                             \
  const std::string path = ::firn::bench::PublicTrace(name);              \
  if (path.empty()) {                                                     \
    GTEST_SKIP() << "needs " << (name) << " in $FIRN_TRACES, the folder " \
                 << "of the public traces";                               \
  }                                                                       \
  static_assert(true, "needs a semicolon")

#endif  // FIRN_TESTS_BENCH_TRACES_TRACE_TESTING_H_
