// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a deadlock is told: each stream that does not end, and what it waits for.

#ifndef FIRN_VMM_CPU_DEADLOCK_REPORT_H_
#define FIRN_VMM_CPU_DEADLOCK_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace firn::cpu {

// What the first unfinished operation of a stream is at.
enum class OperationState {
  kNotStarted,
  kRuns,
  // Its own code called the driver, and waits there.
  kWaitsInDriver,
  // For a value, or whatever else makes it ready.
  kWaitsForCondition,
  kWaitsForStream,
};

struct StuckStream {
  uint64_t stream_id = 0;
  int device = 0;
  // The operation, counted from 1, of so many.
  uint64_t operation = 0;
  uint64_t operations = 0;
  std::string name;
  OperationState state = OperationState::kNotStarted;
  // kWaitsForCondition: which; kWaitsForStream: "stream 7".
  std::string waits_for;
};

// One sentence for each stream, those first that wait for no other stream.
std::string DescribeDeadlock(std::vector<StuckStream> streams);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_DEADLOCK_REPORT_H_
