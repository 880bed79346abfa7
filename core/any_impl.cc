// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/any_impl.h"

#include "firn/vmm/launch_gate.h"

namespace firn {

void Pool::AnyImpl::AddGateStats(const LaunchGate& gate, PoolStats* stats) {
  const LaunchGateStats figures = gate.stats();
  stats->gate_closings = figures.closings;
  stats->gate_timeouts = figures.timeouts;
  stats->gate_refusals = figures.refusals;
  stats->blocked_scopes = figures.blocked_scopes;
  stats->scope_tokens = figures.tokens_written;
  stats->device_waits = figures.device_waits;
  stats->unscoped_reports = figures.unscoped_reports;
}

}  // namespace firn
