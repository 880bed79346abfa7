// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Freed blocks whose stream may still be using them: a token, written on the
// stream at the free, says when they are done.

#ifndef FIRN_CORE_FREE_QUEUE_H_
#define FIRN_CORE_FREE_QUEUE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "firn/core/event_recorder.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

// A block that was freed.
struct FreedBlock {
  BlockStart start;
  uint64_t bytes = 0;   // requested
  uint64_t quanta = 0;  // its extent: what a request must take to have it again
  ArenaIndex arena = 0;
  // For the history: 0 where that has the block as free already.
  DevicePtr address = 0;
  StreamHandle stream = nullptr;
};

// Adds a use of a block to those on record; a later one of the same stream
// covers the earlier.
void AddUse(const StreamToken& use, std::vector<StreamToken>* uses);

// Thread safety: none; guarded by its owner.
class FreeQueue {
 public:
  // Owns neither; both must outlive it. The recorder, which is told of blocks
  // that are done, may be null.
  FreeQueue(StreamTracker* tracker, EventRecorder* recorder)
      : tracker_(tracker), recorder_(recorder) {}
  FreeQueue(const FreeQueue&) = delete;
  FreeQueue& operator=(const FreeQueue&) = delete;

  bool empty() const { return pending_count_ == 0; }
  uint64_t pending_bytes() const { return pending_bytes_; }

  // Writes a token on `stream` and keeps the blocks until that is done.
  // Nothing is kept after an error.
  absl::Status Push(absl::Span<const FreedBlock> blocks, StreamHandle stream);
  // The same for one that other streams have used as well, up to `uses`.
  absl::Status PushUsed(const FreedBlock& block, StreamHandle stream,
                        std::vector<StreamToken> uses);

  // Takes back a block of this arena and extent, aligned as asked for, that was
  // freed on the stream lately: for use there, where its order protects it.
  std::optional<BlockStart> TakeAgain(uint64_t stream_id, ArenaIndex arena,
                                      uint64_t quanta,
                                      uint64_t alignment_quanta);

  // Appends blocks that are done to `done`; at most one check more a stream
  // than blocks are done. Of those that several streams have used it looks at a
  // few.
  absl::Status Poll(std::vector<BlockStart>* done);
  // The same, and looks at all.
  absl::Status PollAll(std::vector<BlockStart>* done);
  // Waits for all of them.
  absl::Status Drain(std::vector<BlockStart>* done);

 private:
  struct Entry {
    FreedBlock block;  // no start: taken again
    StreamToken token;
  };
  struct UsedEntry {
    FreedBlock block;
    std::vector<StreamToken> tokens;
  };

  void Done(const FreedBlock& block, std::vector<BlockStart>* done);
  absl::Status PollInOrder(std::vector<BlockStart>* done);
  absl::Status PollUsed(size_t looks, std::vector<BlockStart>* done);

  StreamTracker* const tracker_;
  EventRecorder* const recorder_;
  absl::flat_hash_map<uint64_t, std::deque<Entry>> by_stream_;
  std::deque<UsedEntry> used_;
  uint64_t pending_count_ = 0;
  uint64_t pending_bytes_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_FREE_QUEUE_H_
