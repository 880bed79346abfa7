// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Freed blocks whose stream may still be using them: a token, written on the
// stream at the free, says when they are done.

#ifndef FIRN_CORE_FREE_QUEUE_H_
#define FIRN_CORE_FREE_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

// As long as a pool has seen a single stream, that stream's own order protects
// freed memory, and nothing is recorded. From the second stream on every free
// is.
//
// Thread safety: none; guarded by its owner.
class FreeQueue {
 public:
  // Waits until no work uses memory that was freed without a token.
  // ResourceExhausted: the calling thread may not wait.
  using WaitForFreed = std::function<absl::Status()>;

  // Owns neither pointer; both must outlive this object.
  FreeQueue(Driver* driver, StreamTracker* tracker, WaitForFreed wait_for_freed)
      : driver_(driver),
        tracker_(tracker),
        wait_for_freed_(std::move(wait_for_freed)) {}
  FreeQueue(const FreeQueue&) = delete;
  FreeQueue& operator=(const FreeQueue&) = delete;

  // A call names `stream`. When it is the second one ever, or one that waiting
  // for the devices does not cover, or `in_scopes`, as then nobody should wait
  // for devices, frees are recorded from now on; memory freed before without a
  // token is waited for once.
  absl::Status NoteStream(StreamHandle stream, bool in_scopes);

  // FailedPrecondition if `stream` is capturing: what is freed there is used
  // again whenever the graph is launched.
  absl::Status RefuseCapturing(StreamHandle stream);

  // Whether freed memory has to wait for its stream.
  bool is_recording() const { return is_recording_; }
  bool empty() const { return pending_count_ == 0; }
  uint64_t pending_bytes() const { return pending_bytes_; }
  bool IsPending(BlockStart start) const {
    return !empty() && starts_.contains(KeyOf(start));
  }

  // Writes a token on `stream` and keeps the block until that is done.
  // Nothing is kept after an error.
  absl::Status Push(BlockStart start, uint64_t bytes, StreamHandle stream);

  // Appends the blocks that are done to `done`; at most one check more a stream
  // than blocks are done.
  absl::Status Poll(std::vector<BlockStart>* done);
  // Waits for all of them.
  absl::Status Drain(std::vector<BlockStart>* done);

 private:
  struct Entry {
    BlockStart start;
    uint64_t bytes = 0;
    StreamToken token;
  };

  static uint64_t KeyOf(BlockStart start) {
    return (uint64_t{start.vg.value()} << 32) | start.offset_quanta;
  }
  void Pop(std::deque<Entry>* entries, std::vector<BlockStart>* done);

  Driver* const driver_;
  StreamTracker* const tracker_;
  const WaitForFreed wait_for_freed_;
  bool has_stream_ = false;
  bool first_is_default_ = false;
  uint64_t first_stream_ = 0;
  bool is_recording_ = false;
  absl::flat_hash_map<uint64_t, std::deque<Entry>> by_stream_;
  absl::flat_hash_set<uint64_t> starts_;
  uint64_t pending_count_ = 0;
  uint64_t pending_bytes_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_FREE_QUEUE_H_
