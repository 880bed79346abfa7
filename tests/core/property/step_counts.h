// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What sequences of operations have come to, so that a test can tell whether
// they reach what they are for.

#ifndef FIRN_TESTS_CORE_PROPERTY_STEP_COUNTS_H_
#define FIRN_TESTS_CORE_PROPERTY_STEP_COUNTS_H_

#include <cstdint>

namespace firn::testing::property {

struct StepCounts {
  uint64_t operations = 0;
  uint64_t allocations = 0;
  uint64_t failed_allocations = 0;
  uint64_t refused_frees = 0;
  uint64_t passes = 0;
  uint64_t granules_moved = 0;
  uint64_t granules_spilled = 0;
  uint64_t granules_returned = 0;
  uint64_t handles_released = 0;
  uint64_t scope_tokens = 0;
  uint64_t uses_recorded = 0;
  uint64_t pinned_frees = 0;  // refused
  uint64_t tagged_allocations = 0;
  uint64_t domain_allocations = 0;
  uint64_t class_allocations = 0;  // of classes that do not move
  uint64_t exports = 0;
  uint64_t limited = 0;           // operations after which a limit was met
  uint64_t graph_pool_bytes = 0;  // kept and live ones, after each operation
  uint64_t graph_reuses = 0;
  uint64_t moves_told = 0;  // blocks that hooks were told have moved
  uint64_t vetoes = 0;
  uint64_t meddled_passes = 0;  // operations in which hooks changed something
  uint64_t idle_marks = 0;
  uint64_t idle_passes = 0;  // that moved something declared, and nothing else
  uint64_t gated_idle_passes = 0;  // of these, such as closed the gate
  uint64_t idle_moves = 0;
  uint64_t idle_rescued = 0;    // blocks in use again while they were to move
  uint64_t faults = 0;          // operations in which a call was made to fail
  uint64_t pending_seen = 0;    // after so many, freed memory was still in use
  uint64_t exhausted_seen = 0;  // after so many, all of the capacity was used

  void Add(const StepCounts& other);
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_STEP_COUNTS_H_
