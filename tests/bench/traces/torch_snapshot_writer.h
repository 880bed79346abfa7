// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes PyTorch memory snapshots for tests.

#ifndef FIRN_TESTS_BENCH_TRACES_TORCH_SNAPSHOT_WRITER_H_
#define FIRN_TESTS_BENCH_TRACES_TORCH_SNAPSHOT_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/bench/traces/pickle_writer.h"

namespace firn::bench {

// An entry of a device's trace, pickled.
inline std::string Entry(absl::string_view action, int64_t address,
                         int64_t bytes, int64_t time_us, int64_t stream = 0) {
  return PickledDict({{"action", PickledText(action)},
                      {"addr", PickledInteger(address)},
                      {"size", PickledInteger(bytes)},
                      {"stream", PickledInteger(stream)},
                      {"time_us", PickledInteger(time_us)},
                      {"frames", PickledList({})}});
}

// A file of the entries of each device.
inline std::string Snapshot(
    const std::vector<std::vector<std::string>>& devices) {
  std::vector<std::string> traces;
  for (const std::vector<std::string>& entries : devices) {
    traces.push_back(PickledList(entries));
  }
  return Pickled(PickledDict(
      {{"segments", PickledList({})}, {"device_traces", PickledList(traces)}}));
}

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_TRACES_TORCH_SNAPSHOT_WRITER_H_
