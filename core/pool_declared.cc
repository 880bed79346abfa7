// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Level 2: blocks that are declared idle or read-only are copied while work on
// all others, and reads of the latter, go on.
//
// A declared block is marked, so that whatever becomes of it does so behind the
// lock. A virtual granule keeps to a declaration when all that is live on it
// does. While a pass copies, it has let go of the lock, and holds the granules
// concerned: nothing new comes to them. What is freed or may have been written
// by the time it has the lock back is found by looking once more, and the remap
// follows under the same hold of the lock: whoever marks a block active waits
// for that at most. Where something is only read-only, the gate is closed
// between the copy and that look: nobody reads through an address while it is
// remapped.

#include <utility>

#include "firn/core/pool_impl.h"
#include "firn/core/pool_spiller.h"

namespace firn {

absl::Status Pool::Impl::Declare(const void* ptr, StreamHandle stream,
                                 Declaration what) {
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) return start.status();
  const uint64_t key = UseKey(*start);
  if (graph_pools_.Owns(key)) return OwnedByGraphPool();
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (!token.ok()) return token.status();
  if (!MarkBlock(*start)) return NoBlockAt(ToAddress(ptr));
  std::vector<StreamToken> work = {*token};
  const auto uses = uses_.find(key);
  if (uses != uses_.end()) {
    for (const StreamToken& use : uses->second) AddUse(use, &work);
    AddUse(*token, &work);
  }
  declared_.Add(key, RequestedBytes(*start), what, std::move(work));
  return absl::OkStatus();
}

absl::Status Pool::Impl::MarkActive(const void* ptr) {
  {
    MutexLock lock(&mutex_);
    const absl::StatusOr<BlockStart> start = FindBlock(ptr);
    if (!start.ok()) return start.status();
    if (!Spiller(this).IsSpilled(*start)) {
      declared_.Remove(UseKey(*start));
      return absl::OkStatus();
    }
  }
  return Spiller(this).BringBack(ptr);
}

}  // namespace firn
