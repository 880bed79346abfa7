// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A part of a pool whose granules hold nothing of other parts: placement, and
// passes over it.

#ifndef FIRN_CORE_ARENA_H_
#define FIRN_CORE_ARENA_H_

#include <memory>

#include "firn/core/compactor.h"
#include "firn/core/domain.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/granule_books.h"
#include "firn/core/placement/large_allocator.h"
#include "firn/core/placement/placement.h"
#include "firn/core/placement/placement_allocator.h"
#include "firn/core/placement/slot_directory.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/core/pool_options.h"

namespace firn {

// What the blocks of an arena have in common.
struct ArenaKey {
  DomainId domain = DomainId::kDefault;
  MemoryClass memory_class = MemoryClass::kMovable;
  Lifetime lifetime = Lifetime::kUnknown;

  friend bool operator==(const ArenaKey& a, const ArenaKey& b) {
    return a.domain == b.domain && a.memory_class == b.memory_class &&
           a.lifetime == b.lifetime;
  }
};

// What all arenas of a pool share; owns none of it.
struct ArenaParts {
  uint32_t quanta_per_granule = 0;
  uint32_t max_mappings_per_granule = 0;
  GranuleTable* table = nullptr;
  AddressSpace* address_space = nullptr;
  GranuleStore* store = nullptr;
  MappingTable* mappings = nullptr;
  // Null where firn's own placement is used.
  std::unique_ptr<Placement> structure;
  const SizeClasses* size_classes = nullptr;
  SlotDirectory* slots = nullptr;
  Relocator* relocator = nullptr;
  const PinnedBlocks* pins = nullptr;
  MoveObserver* observer = nullptr;
  Backing::WaitForFreed wait_for_freed;
  Backing::Zero zero;
};

// Thread safety: none; guarded by its owner.
struct Arena {
  Arena(ArenaParts parts, ArenaIndex index, ArenaKey arena_key);

  // Whether passes may move what is in it.
  bool may_move() const { return key.memory_class == MemoryClass::kMovable; }
  bool is_exportable() const {
    return key.memory_class == MemoryClass::kExportable;
  }
  ArenaIndex index() const { return books.arena(); }

  const ArenaKey key;
  GranuleBooks books;
  Backing backing;
  WindowAllocator windows;
  LargeAllocator large;
  // Null unless blocks are where a structure puts them.
  const std::unique_ptr<PlacementAllocator> placed;
  Compactor compactor;
  // A pass is at it, and may let go of the lock: it must not go.
  bool is_in_pass = false;
  // Its domain is gone, and nothing of it is left: another may take its place.
  bool is_vacant = false;
};

}  // namespace firn

#endif  // FIRN_CORE_ARENA_H_
