// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What lies where in a pool, as Pool::TakeMemorySnapshot returns it. Plain
// data; core/snapshot_export.h writes it as a file for PyTorch's memory viewer.

#ifndef FIRN_CORE_MEMORY_SNAPSHOT_H_
#define FIRN_CORE_MEMORY_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "firn/core/domain.h"
#include "firn/core/history.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

enum class MemoryBlockState : uint8_t {
  // No block: free, kept ready by a thread's cache or, as far as addresses have
  // no memory of their own beneath them, another virtual granule's.
  kInactive,
  kAllocated,
  // Freed, and its place is not free for everybody: its streams are not done,
  // or a graph-private pool keeps it.
  kPendingFree,
};

struct MemoryBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;            // that it takes up
  uint64_t requested_bytes = 0;  // 0 if inactive; at most `bytes`
  MemoryBlockState state = MemoryBlockState::kInactive;
  Tag tag = Tag::kUntagged;
  // That the allocation named, where the history has it still.
  std::optional<StreamHandle> stream;
};

// Neighbouring addresses, all of them mapped, of one domain.
struct MemorySegment {
  uint64_t address = 0;
  uint64_t bytes = 0;
  DomainId domain = DomainId::kDefault;
  // By address, without gaps: their bytes add up to the segment's.
  std::vector<MemoryBlock> blocks;
};

struct MemorySnapshot {
  int device_ordinal = 0;
  // Beyond this a block has granules of its own; 0 where there are none.
  uint64_t granule_bytes = 0;
  // By address. Virtual granules can share physical memory, so that segments
  // add up to the addresses that are mapped, which may be more than is held.
  std::vector<MemorySegment> segments;
  std::vector<std::string> tag_names;  // by tag
  // Read after the segments.
  History history;
};

}  // namespace firn

#endif  // FIRN_CORE_MEMORY_SNAPSHOT_H_
