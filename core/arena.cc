// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/arena.h"

#include <utility>

#include "absl/memory/memory.h"

namespace firn {
namespace {

BackingOptions OptionsOf(const ArenaKey& key) {
  BackingOptions options;
  options.kind = key.memory_class == MemoryClass::kExportable
                     ? GranuleKind::kExportable
                     : GranuleKind::kMovable;
  // 0 stands for nobody.
  options.domain = static_cast<uint32_t>(key.domain) + 1;
  return options;
}

}  // namespace

Arena::Arena(ArenaParts parts, ArenaIndex index, ArenaKey arena_key)
    : key(arena_key),
      books(parts.quanta_per_granule, parts.max_mappings_per_granule,
            parts.table, index),
      backing(parts.address_space, parts.store, parts.mappings, &books,
              OptionsOf(key), parts.wait_for_freed, parts.zero),
      windows(&backing, parts.size_classes, parts.slots),
      large(&backing),
      placed(parts.structure == nullptr
                 ? nullptr
                 : absl::make_unique<PlacementAllocator>(
                       &backing, std::move(parts.structure))),
      compactor(&backing, &windows, placed.get(), parts.relocator, parts.pins,
                parts.observer) {}

}  // namespace firn
