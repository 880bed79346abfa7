// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the generators share.

#ifndef FIRN_TESTS_BENCH_TRACES_GENERATOR_TESTING_H_
#define FIRN_TESTS_BENCH_TRACES_GENERATOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/traces/trace.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"

namespace firn::bench {

inline std::vector<TraceEvent> EventsOf(absl::string_view spec) {
  absl::StatusOr<std::unique_ptr<TraceSource>> trace = OpenTrace(spec);
  EXPECT_TRUE(trace.ok()) << trace.status();
  if (!trace.ok()) return {};
  EXPECT_EQ((*trace)->name(), spec);
  return Gather(trace->get());
}

// Live bytes at each probe.
inline std::vector<uint64_t> LiveAtProbes(
    const std::vector<TraceEvent>& events) {
  std::vector<uint64_t> probes;
  uint64_t live = 0;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEventKind::kAllocate) live += event.bytes;
    if (event.kind == TraceEventKind::kFree) live -= event.bytes;
    if (event.kind == TraceEventKind::kProbe) probes.push_back(live);
  }
  return probes;
}

// FNV-1a over every byte of every event, little end first.
inline uint64_t ChecksumOf(TraceSource* trace) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](uint64_t value) {
    for (int i = 0; i < 8; ++i) {
      hash = (hash ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3u;
    }
  };
  TraceEvent event;
  while (true) {
    const absl::StatusOr<bool> found = trace->Next(&event);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !*found) return hash;
    add(static_cast<uint64_t>(event.kind));
    add(event.stream);
    add(event.thread);
    add(static_cast<uint64_t>(event.time_us));
    add(event.id);
    add(event.bytes);
  }
}

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_TRACES_GENERATOR_TESTING_H_
