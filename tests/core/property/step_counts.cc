// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/step_counts.h"

namespace firn::testing::property {

void StepCounts::Add(const StepCounts& other) {
  operations += other.operations;
  allocations += other.allocations;
  failed_allocations += other.failed_allocations;
  refused_frees += other.refused_frees;
  passes += other.passes;
  granules_moved += other.granules_moved;
  granules_spilled += other.granules_spilled;
  granules_returned += other.granules_returned;
  handles_released += other.handles_released;
  scope_tokens += other.scope_tokens;
  uses_recorded += other.uses_recorded;
  pinned_frees += other.pinned_frees;
  tagged_allocations += other.tagged_allocations;
  domain_allocations += other.domain_allocations;
  class_allocations += other.class_allocations;
  exports += other.exports;
  limited += other.limited;
  graph_pool_bytes += other.graph_pool_bytes;
  graph_reuses += other.graph_reuses;
  moves_told += other.moves_told;
  vetoes += other.vetoes;
  meddled_passes += other.meddled_passes;
  idle_marks += other.idle_marks;
  idle_passes += other.idle_passes;
  gated_idle_passes += other.gated_idle_passes;
  idle_moves += other.idle_moves;
  idle_rescued += other.idle_rescued;
  faults += other.faults;
  pending_seen += other.pending_seen;
  exhausted_seen += other.exhausted_seen;
}

}  // namespace firn::testing::property
