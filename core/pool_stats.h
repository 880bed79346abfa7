// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a Pool reports about itself. Plain data; every count that is not marked
// "now" only grows. docs/statistics.md explains each field.

#ifndef FIRN_CORE_POOL_STATS_H_
#define FIRN_CORE_POOL_STATS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace firn {

struct PoolStats {
  // --- What the pool stands on ---
  std::string backend;        // "cuda" or "cpu"
  std::string device_name;    // as the device calls itself
  std::string driver_reason;  // why this driver was chosen
  // Whether live memory may move, and why, or why not. Where it may not, only
  // free memory is remapped; where the device has no virtual memory management,
  // not even that: granule_bytes is 0 then.
  bool moving = false;
  std::string moving_reason;
  uint64_t granule_bytes = 0;
  uint64_t capacity_bytes = 0;
  // What holds now: at most the capacity, and each other.
  uint64_t limit_bytes = 0;
  uint64_t soft_limit_bytes = 0;

  // --- Now ---
  // Requested bytes handed out.
  uint64_t live_bytes = 0;
  uint64_t live_allocations = 0;
  // Bytes of granules that hold at least one byte of an allocation, on the
  // device.
  uint64_t used_bytes = 0;
  // Bytes of all physical handles the pool owns, used or not, each once.
  uint64_t held_bytes = 0;
  // Part of held: handles with no mapping at all, ready for any address.
  uint64_t cached_bytes = 0;
  // Freed blocks whose stream has not finished yet; not live, but not reusable.
  uint64_t pending_free_bytes = 0;
  // Freed blocks in caches of threads, ready for their next allocations; they
  // keep their granules used. None where the pool has seen one stream only:
  // asking for statistics empties the caches then.
  uint64_t parked_blocks = 0;
  // Virtual granules mapped, and those of them with live bytes.
  uint64_t mapped_vgs = 0;
  uint64_t live_vgs = 0;
  // Granules with live bytes that another virtual granule could still share.
  uint64_t partial_granules = 0;
  // Live blocks with a Pin and their requested bytes; and the granules that no
  // pass can empty: those that these lie on, and those of blocks of a
  // MemoryClass that does not move.
  uint64_t pinned_blocks = 0;
  uint64_t pinned_bytes = 0;
  // Live blocks declared idle, and their requested bytes.
  uint64_t idle_blocks = 0;
  uint64_t idle_bytes = 0;
  // Those of them that may be spilled.
  uint64_t spillable_blocks = 0;
  uint64_t spillable_bytes = 0;
  // What of the live blocks lies in host memory, rounding included. Of host
  // memory: granules with any of it; those and what is kept for the next spill;
  // and the most that may be held, 0 if nothing can be spilled.
  uint64_t spilled_bytes = 0;
  uint64_t host_used_bytes = 0;
  uint64_t host_held_bytes = 0;
  uint64_t host_limit_bytes = 0;
  // Live blocks declared read-only, and their requested bytes.
  uint64_t read_only_blocks = 0;
  uint64_t read_only_bytes = 0;
  uint64_t pinned_granules = 0;
  // Graph-private pools not yet released, and the requested bytes of their
  // blocks: live ones, and freed ones, which keep their place.
  uint64_t graph_pools = 0;
  uint64_t graph_pool_bytes = 0;
  // Granules mapped for MemoryClass::kExportable, those of freed blocks that
  // wait to be unmapped included.
  uint64_t exportable_bytes = 0;

  // --- High-water marks ---
  uint64_t peak_live_bytes = 0;
  uint64_t peak_used_bytes = 0;
  uint64_t peak_held_bytes = 0;
  uint64_t peak_mapped_vgs = 0;

  // --- Since creation ---
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t cache_hits = 0;  // allocations that a thread's cache served
  uint64_t failed_allocations = 0;
  uint64_t refused_frees = 0;
  uint64_t compaction_passes = 0;
  uint64_t failed_passes = 0;
  uint64_t granules_moved = 0;      // virtual granules remapped by passes
  uint64_t granules_recovered = 0;  // granules emptied by passes
  uint64_t bytes_copied = 0;        // by passes
  // Granules whose live bytes went to the host, and granules of host memory
  // whose live bytes came back; and these bytes.
  uint64_t granules_spilled = 0;
  uint64_t granules_returned = 0;
  uint64_t bytes_spilled = 0;
  uint64_t bytes_returned = 0;
  // Granules that came from another domain, or were given out as exportable.
  uint64_t zeroed_bytes = 0;
  uint64_t vetoed_sources = 0;  // granules that move hooks wanted to stay
  // Physical handles asked of the driver, and given back to it.
  uint64_t handles_created = 0;
  uint64_t handles_released = 0;
  // Those of the latter that were exported, or could have been registered with
  // a network card: nothing tells whether somebody still holds the memory.
  uint64_t possibly_held_elsewhere = 0;

  // --- Launch scopes, since creation ---
  uint64_t gate_closings = 0;
  uint64_t gate_timeouts = 0;   // max_wait passed: not closed
  uint64_t gate_refusals = 0;   // a capture was open, or a stream unknown
  uint64_t blocked_scopes = 0;  // that waited for a closed gate
  uint64_t scope_tokens = 0;    // written at the ends of scopes
  uint64_t device_waits = 0;    // closings that waited for whole devices
  uint64_t unscoped_reports = 0;

  // Several lines of "name: value" for people.
  std::string ToString() const;
};

// A few fields of PoolStats, without the cost of the rest.
struct PoolUsage {
  uint64_t granule_bytes = 0;  // 0 where there are no granules
  uint64_t live_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t held_bytes = 0;
  uint64_t limit_bytes = 0;
  uint64_t mapped_vgs = 0;
  uint64_t failed_allocations = 0;
  uint64_t compaction_passes = 0;
  uint64_t granules_moved = 0;
};

struct CompactionReport {
  uint64_t granules_before = 0;  // used granules
  uint64_t granules_after = 0;   // in a dry run: as they would be
  // No plan that keeps every address can end with fewer used granules.
  uint64_t lower_bound_granules = 0;
  uint64_t granules_recovered = 0;
  uint64_t moves = 0;  // virtual granules remapped
  uint64_t bytes_copied = 0;
  // Sources that fitted nowhere whole, or where something changed while move
  // hooks were called, and were left as they were.
  uint64_t rejected_sources = 0;
  // Sources that a move hook wanted to stay.
  uint64_t vetoed_sources = 0;
  // Partly filled granules that were left because something on them is pinned.
  uint64_t pinned_granules = 0;
  // Likewise because something on them is neither idle nor, in a pool whose
  // work is launched in scopes, read-only (kDeclaredIdle).
  uint64_t busy_granules = 0;
  // A budget ended the pass early.
  bool budget_exhausted = false;
  absl::Duration duration;
  // Of it, for how long nobody could launch although nothing was in flight any
  // more: kLaunchScopes once, kDeclaredIdle for what is read-only, in all.
  absl::Duration pause;
  // Dry run: what the moves would take of the driver and the device, in
  // microseconds, by figures published for an A100 (PlanCosts).
  double planned_us = 0;

  std::string ToString() const;
};

}  // namespace firn

#endif  // FIRN_CORE_POOL_STATS_H_
