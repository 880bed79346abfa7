// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is on record of every virtual granule and every granule of a pool: its
// arenas keep their books in one table, as no two of them have one in common.

#ifndef FIRN_CORE_PLACEMENT_GRANULE_TABLE_H_
#define FIRN_CORE_PLACEMENT_GRANULE_TABLE_H_

#include <cstdint>
#include <vector>

#include "firn/compaction/occupancy.h"
#include "firn/vmm/units.h"

namespace firn {

// The index of an arena (core/arena.h) in its pool.
using ArenaIndex = uint8_t;

enum class VgRole : uint8_t {
  kUnmapped,   // not ours to use
  kSpare,      // mapped, no window: takes up any gap of its granule for nothing
  kEmptyRun,   // mapped to an empty granule of its own, part of a large run
  kWindow,     // slots of one size class, or one block
  kRemainder,  // head or tail of a large block
  kInterior,   // wholly filled by a large block
  kPlaced,     // blocks where a classical structure has put them
};

struct VgRecord {
  GranuleId granule;
  VgRole role = VgRole::kUnmapped;
  // Taken for a large block: it returns to a run of its neighbours.
  bool of_large_run = false;
  ArenaIndex arena = 0;   // whose it is while it is mapped
  OffsetInterval window;  // kWindow, kRemainder
  uint32_t owner = 0;     // index of the window or of the large block
  VgIndex next;           // neighbours in its granule's list
  VgIndex previous;
};

struct GranuleRecord {
  VgIndex first;  // its virtual granules, spares first
  uint16_t mappings = 0;
  uint16_t spares = 0;
  uint16_t blocked_windows = 0;
  bool frozen = false;   // lost: for good
  bool held = false;     // a pass is copying from it or to it
  bool is_host = false;  // host memory, for what is spilled
  ArenaIndex arena = 0;  // whose it is, or was last
  uint32_t live_quanta = 0;
  uint32_t largest_gap_quanta = 0;
  uint32_t empty_position = 0;  // 1 + index among the empty ones; 0: not empty
  Occupancy occupancy;          // live quanta, but for those of an interior

  // Nothing new may come to it.
  bool is_closed() const { return frozen || held || is_host; }
};

// Thread safety: none; guarded by its owner.
struct GranuleTable {
  // For virtual granules below `vg_count`, and one behind them that nothing is
  // ever mapped at: the neighbour of the last one.
  explicit GranuleTable(uint32_t vg_count) : vgs(size_t{vg_count} + 1) {}

  std::vector<VgRecord> vgs;            // by VG; never grows
  std::vector<GranuleRecord> granules;  // by id, as far as any was mapped
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_GRANULE_TABLE_H_
