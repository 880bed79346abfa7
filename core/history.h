// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The last events of a pool, as Pool::GetHistory returns them. Plain data;
// PoolOptions::history_entries says how many are kept. docs/statistics.md
// explains each field.

#ifndef FIRN_CORE_HISTORY_H_
#define FIRN_CORE_HISTORY_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

enum class HistoryKind : uint8_t {
  kAllocate,
  // The block is no longer live. Its place may be used again at once, on the
  // same stream.
  kFree,
  // Likewise, but its place is used again elsewhere only once its streams are
  // done: then there is a kFreeCompleted, unless a kAllocate for its own stream
  // takes the place before.
  kFreeRequested,
  kFreeCompleted,
  kAllocateFailure,  // counted by PoolStats::failed_allocations
  // A virtual granule was mapped to a granule, unmapped, or mapped to another
  // granule, by a pass or where nothing was live on it.
  kMap,
  kUnmap,
  kMove,
  // What passes did lies between the two; those that other threads do while a
  // hook runs or memory is copied may lie there as well.
  kPassBegin,
  kPassEnd,
};

// "allocate", "free", "free_requested" and so on.
absl::string_view HistoryKindName(HistoryKind kind);

struct HistoryEvent {
  // No granule: nothing was mapped, or nothing is.
  static constexpr uint32_t kNoGranule = std::numeric_limits<uint32_t>::max();

  HistoryKind kind = HistoryKind::kAllocate;
  Tag tag = Tag::kUntagged;  // kAllocate, kAllocateFailure
  // By the order in which threads of the process were first seen, from 1 on:
  // who called or, kFreeCompleted, who noticed.
  uint32_t thread = 0;
  // Since the Unix epoch. Never falls from one event to the next: the wall
  // clock when the pool was made, and the time gone by since.
  int64_t time_ns = 0;
  // Of the block or the virtual granule (segment where there are no granules);
  // 0: of none.
  uint64_t address = 0;
  // Requested; of the granule or segment; kPassEnd: copied.
  uint64_t bytes = 0;
  // That the call named.
  StreamHandle stream = nullptr;
  // kMap, kUnmap, kMove: the physical granules, by the pool's own numbers.
  uint32_t from_granule = kNoGranule;
  uint32_t to_granule = kNoGranule;
  // PoolOptions::history_stacks: return addresses, innermost first; see
  // SymboliseFrame (core/snapshot_export.h).
  std::vector<const void*> stack;
};

struct History {
  // Oldest first. Those of one block alternate between kAllocate and kFree or
  // kFreeRequested.
  std::vector<HistoryEvent> events;
  // Earlier events, whose place later ones have taken.
  uint64_t overwritten = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_HISTORY_H_
