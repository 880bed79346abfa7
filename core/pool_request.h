// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// An allocation that is asked for, in the pool's units.

#ifndef FIRN_CORE_POOL_REQUEST_H_
#define FIRN_CORE_POOL_REQUEST_H_

#include <cstdint>
#include <optional>

#include "firn/core/arena.h"
#include "firn/core/graph_pools.h"
#include "firn/core/pool_options.h"
#include "firn/core/tags.h"

namespace firn {

struct PoolRequest {
  uint64_t bytes = 0;
  uint64_t quanta = 0;  // whole granules in an exportable arena
  uint64_t alignment_quanta = 1;
  ArenaKey kind;
  ArenaIndex arena = 0;    // of that kind, unless its domain is gone
  uint64_t stream_id = 0;  // 0: memory freed on its stream has no advantage
  Tag tag = Tag::kUntagged;
  std::optional<GraphOwner> graph_owner;
};

inline ArenaKey ArenaKeyOf(const AllocateOptions& options) {
  ArenaKey key;
  key.domain = options.domain;
  key.memory_class = options.memory_class;
  key.lifetime = options.lifetime;
  return key;
}

}  // namespace firn

#endif  // FIRN_CORE_POOL_REQUEST_H_
