// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A small file of every format that a trace can have, for tests of what all
// sources have in common.

#ifndef FIRN_TESTS_BENCH_TRACES_SMALL_TRACES_H_
#define FIRN_TESTS_BENCH_TRACES_SMALL_TRACES_H_

#include <ostream>
#include <string>
#include <vector>

namespace firn::bench {

struct SmallTrace {
  std::string name;  // of the format, for the test's name
  std::string spec;  // the file written, or a generator, with keys
};

inline void PrintTo(const SmallTrace& trace, std::ostream* os) {
  *os << trace.spec;
}

// The names of all formats and generators.
std::vector<std::string> SmallTraceNames();

// Writes the file of one of them among those of the running test.
SmallTrace WriteSmallTrace(const std::string& name);

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_TRACES_SMALL_TRACES_H_
