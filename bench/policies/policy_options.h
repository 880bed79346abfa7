// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a policy of a replay is made with.

#ifndef FIRN_BENCH_POLICIES_POLICY_OPTIONS_H_
#define FIRN_BENCH_POLICIES_POLICY_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "firn/core/placement_kind.h"
#include "firn/vmm/cost_model.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn::bench {

// When a policy moves live memory.
enum class CompactionMode {
  kOff,         // never; firn may still remap free granules
  kOnDemand,    // when an allocation would fail
  kBackground,  // also while it runs, on the trace's clock
  kController,  // likewise, when firn's own controller says so; firn alone
};

struct PolicyOptions {
  // One of PolicyNames().
  std::string policy = "firn";
  // Most physical memory the policy may hold: whole granules, at least one.
  uint64_t capacity_bytes = uint64_t{80} << 30;
  // The unit in which physical memory is created, mapped and released.
  uint64_t granule_bytes = uint64_t{2} << 20;
  CostProfile cost = CostProfile::kA100;

  // For the policies that move blocks: firn and paged_migrating.
  CompactionMode compaction = CompactionMode::kOnDemand;
  // kBackground: how much may be wasted, in percent of the live bytes, before a
  // pass is made; unset: BackgroundTrigger::kToleratedWastePercent. 0 to 100.
  std::optional<double> tolerated_waste_percent;

  // For the policy firn alone.
  // What decides where its blocks go.
  PlacementKind placement = PlacementKind::kFirn;
  // This share of the live blocks, those allocated longest ago, is declared
  // idle, and nothing else moves: compaction kBackground only. From 0 to 1.
  std::optional<double> idle_share;
  CpuStorage storage = CpuStorage::kGhost;
  // For Policy::Snapshot.
  bool keeps_history = false;
  // Fill blocks with a pattern and check it (storage kReal only).
  bool verify = false;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_POLICY_OPTIONS_H_
