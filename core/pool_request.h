// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// An allocation that is asked for, in the pool's units.

#ifndef FIRN_CORE_POOL_REQUEST_H_
#define FIRN_CORE_POOL_REQUEST_H_

#include <cstdint>
#include <optional>

#include "firn/core/arena.h"
#include "firn/core/failure_memory.h"
#include "firn/core/graph_pools.h"
#include "firn/core/pool_options.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

struct PoolRequest {
  uint64_t bytes = 0;
  uint64_t quanta = 0;  // whole granules in an exportable arena
  uint64_t alignment_quanta = 1;
  ArenaKey kind;
  ArenaIndex arena = 0;    // of that kind, unless its domain is gone
  uint64_t stream_id = 0;  // 0: memory freed on its stream has no advantage
  StreamHandle stream = nullptr;
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

// Where a small block may be cached.
struct CacheKey {
  uint64_t stream_id = 0;  // 0: nowhere
  uint32_t size_class = 0;
};

// How far an allocation may go.
enum class Reach {
  kNoWaiting,    // inside a scope of its own thread, or a capture
  kFreeMemory,   // live memory stays where it is
  kUntilMoving,  // likewise, and gives up where that would be moved
  kLiveMemory,   // with the gate closed
};

inline FailedRequest AsFailed(const PoolRequest& request, Reach reach) {
  FailedRequest failed;
  failed.bytes = request.bytes;
  failed.alignment_quanta = request.alignment_quanta;
  failed.arena = request.arena;
  failed.reach = static_cast<uint32_t>(reach);
  return failed;
}

}  // namespace firn

#endif  // FIRN_CORE_POOL_REQUEST_H_
