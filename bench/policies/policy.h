// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the replayer drives: one way of managing a device's memory.

#ifndef FIRN_BENCH_POLICIES_POLICY_H_
#define FIRN_BENCH_POLICIES_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

struct DriverCallCounts {
  uint64_t create = 0;
  uint64_t map = 0;
  uint64_t unmap = 0;
  uint64_t set_access = 0;
  uint64_t release = 0;
};

// Cheap: asked after every event.
struct PolicyUsage {
  uint64_t used_bytes = 0;  // granules or pages with at least one live byte
  uint64_t held_bytes = 0;  // all physical memory owned, each byte once
  uint64_t mapped_vgs = 0;  // mapped granules of address space
};

// What a policy did over a whole replay.
struct PolicyReport {
  DriverCallCounts driver_calls;
  double driver_us_modelled = 0;
  double driver_us_create = 0;
  uint64_t bytes_copied = 0;
  uint64_t bytes_recovered = 0;
  uint64_t granules_moved = 0;
  // Least bytes in whole granules for what is live now: where blocks cannot
  // change their offset within a granule (firn), what moving could reach; else
  // live bytes, rounded up.
  uint64_t lower_bound_bytes = 0;
  // One entry a compaction pass that moved something, modelled.
  std::vector<double> pause_us;
  uint64_t content_errors = 0;
};

// What a compaction pass that no limit ended left.
struct FullPassOutcome {
  uint64_t used_granules = 0;
  // No plan that keeps every address could end with fewer.
  uint64_t lower_bound_granules = 0;
};

// Thread safety: none.
class Policy {
 public:
  virtual ~Policy() = default;

  // The value of --policy that names it.
  virtual absl::string_view name() const = 0;

  // The address of a new block. ResourceExhausted: no room within the
  // capacity (a failed allocation); any other error ends the replay.
  virtual absl::StatusOr<uint64_t> Allocate(uint64_t bytes,
                                            uint32_t stream) = 0;
  virtual absl::Status Free(uint64_t address, uint32_t stream) = 0;

  // Called after each event with the trace's clock, which starts at 0 with the
  // first allocation: time for background work.
  virtual absl::Status Tick(int64_t /*time_us*/) { return absl::OkStatus(); }

  // Called at `time_us` while no event comes,
  // BackgroundTrigger::kIdleIntervalUs after the last one and again after as
  // much while it returns true: that more may be gained.
  virtual absl::StatusOr<bool> TickIdle(int64_t /*time_us*/) { return false; }

  virtual PolicyUsage usage() const = 0;
  virtual PolicyReport Report() = 0;

  // A file for PyTorch's memory viewer: what lies where, and how it came to be
  // so. Nothing from policies that have none.
  virtual std::optional<std::string> Snapshot() { return std::nullopt; }

  // One compaction pass over all live memory, without limits. Nothing from
  // policies that have no such pass.
  virtual absl::StatusOr<std::optional<FullPassOutcome>> FullPass() {
    return std::nullopt;
  }
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_POLICY_H_
