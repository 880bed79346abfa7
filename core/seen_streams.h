// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The streams that a pool's calls have named: as long as it is one, its own
// order protects freed memory.

#ifndef FIRN_CORE_SEEN_STREAMS_H_
#define FIRN_CORE_SEEN_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

// As long as a pool has seen a single stream, nothing is recorded of what is
// freed. From the second stream on, memory freed on one is used again there,
// but reaches others with a token only.
//
// Thread safety: Note is guarded by its owner; the rest may be called from any
// thread.
class SeenStreams {
 public:
  // Waits until no work uses memory that was freed without a token.
  // ResourceExhausted: the calling thread may not wait.
  using WaitForFreed = std::function<absl::Status()>;

  // Owns neither pointer; both must outlive this object.
  SeenStreams(Driver* driver, StreamTracker* tracker,
              WaitForFreed wait_for_freed)
      : driver_(driver),
        tracker_(tracker),
        wait_for_freed_(std::move(wait_for_freed)) {}
  SeenStreams(const SeenStreams&) = delete;
  SeenStreams& operator=(const SeenStreams&) = delete;

  // A call names `stream`. When it is the second one ever, or one that waiting
  // for the devices does not cover, or `in_scopes`, as then nobody should wait
  // for devices, there are many from now on; memory freed before without a
  // token is waited for once.
  absl::Status Note(StreamHandle stream, bool in_scopes);

  // Work may come on streams that no call will name, as that of graphs: there
  // are many from now on, likewise.
  absl::Status NoteMany();

  // Whether what is freed needs a token before another stream may have it.
  bool are_many() const { return are_many_.load(std::memory_order_relaxed); }

  // The id of a stream on which memory that was freed there may be used again
  // without a token; 0: unknown, Note it first.
  uint64_t ReadyId(StreamHandle stream) const {
    const uint64_t id = tracker_->KnownLocalId(stream);
    return are_many() || id == first_id_.load(std::memory_order_relaxed) ? id
                                                                         : 0;
  }

  // FailedPrecondition if `stream` is capturing: what is freed there is used
  // again whenever the graph is launched.
  absl::Status RefuseCapturing(StreamHandle stream) const;
  // Whether it is. The default stream captures nothing; nor do those that are
  // not of this driver, as far as is known.
  absl::StatusOr<bool> IsCapturing(StreamHandle stream) const;

 private:
  Driver* const driver_;
  StreamTracker* const tracker_;
  const WaitForFreed wait_for_freed_;
  std::atomic<uint64_t> first_id_{0};  // 0: none was named yet
  std::atomic<bool> are_many_{false};
};

}  // namespace firn

#endif  // FIRN_CORE_SEEN_STREAMS_H_
