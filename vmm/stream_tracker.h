// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which work queued so far is done: points in the order of streams, written
// there by the thread that passes the stream, and polled ever after without
// touching the stream again. It may be destroyed meanwhile.

#ifndef FIRN_VMM_STREAM_TRACKER_H_
#define FIRN_VMM_STREAM_TRACKER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/token_records.h"
#include "firn/vmm/token_streams.h"
#include "firn/vmm/token_writer.h"

namespace firn {

// All work that was queued on a stream when the token was written. A
// default-made token stands for no work and is done.
struct StreamToken {
  uint64_t stream_id = 0;
  uint64_t sequence = 0;  // from 1 on; grows along the stream, with gaps
};

// What a tracker knows of a stream by its handle, for as long as the caller may
// use that handle.
struct StreamIdentity {
  uint64_t id = 0;  // StreamTracker's own: unique in its life
  // The stream is of none of the tracker's devices' primary contexts: waiting
  // for those devices does not wait for it. Also said of a new stream while it
  // is capturing: where it is cannot be tried then.
  bool is_foreign = false;
  // The driver has no unique ids: the stream is told from others by its handle
  // alone, which a later one may get.
  bool by_handle = false;
};

struct StreamTrackerOptions {
  // Write tokens as values where the device can: they cost one memory read to
  // poll, and cross contexts. Off: events throughout.
  bool value_writes = true;
  // Events kept pending of one stream: beyond it the latest is recorded again,
  // so that its tokens are done a little later than they could be.
  uint32_t max_pending_events = 8;
  // How long the destructor waits for values that are pending: their memory can
  // go only once they have arrived. Later it is left as it is, for good.
  absl::Duration max_wait_at_end = absl::Seconds(10);
};

// A token is a value written in stream order to host memory that the devices
// reach (where 64-bit stream memory operations and host memory by virtual
// memory management work: tried once, at creation), else an event of the pool's
// own. Streams are told apart by their unique id where the driver has ids; else
// by their handle, and then tokens of a stream that reuses a handle count for
// both.
//
// A capturing stream gets no token: what is queued there runs when the graph
// is launched, on whatever stream that is.
//
// Thread safety: all methods may be called from any thread. Its lock is held
// during driver calls on the streams passed.
class StreamTracker {
 public:
  // `devices`: the pool's own first, then those that have access to its memory.
  // Owns none of them; all must outlive it. May wait for work in flight, as
  // calls that manage memory may.
  static absl::StatusOr<std::unique_ptr<StreamTracker>> Create(
      std::vector<Driver*> devices, StreamTrackerOptions options);
  // Where tokens are values, waits for those still pending: max_wait_at_end.
  ~StreamTracker();
  StreamTracker(const StreamTracker&) = delete;
  StreamTracker& operator=(const StreamTracker&) = delete;

  // The stream must exist; nullptr is the legacy default stream of the first
  // device. InvalidArgument: no stream of this driver. One driver call for a
  // stream that is known; a new one is tried on each device.
  absl::StatusOr<StreamIdentity> Identify(StreamHandle stream);
  // The same for those in a hurry: its id if it is known from before that the
  // stream has an id of its own and is not foreign, else 0, which says nothing.
  // No driver call for nullptr.
  uint64_t KnownLocalId(StreamHandle stream) const {
    if (stream == nullptr) return TokenStreams::kLegacyStreamId;
    const uint64_t id = streams_->FirstDevicesIdOf(stream);
    return remembered_[id % kRemembered].load(std::memory_order_relaxed) ==
                   id << 1
               ? id
               : 0;
  }
  bool IsKnownLocal(StreamHandle stream) const {
    return KnownLocalId(stream) != 0;
  }

  // Writes a token for all work queued on `stream` so far. FailedPrecondition:
  // the stream is capturing; nothing was done to it. InvalidArgument: no
  // stream. Unimplemented: a stream of a foreign context where values cannot be
  // written. DataLoss: the device is lost.
  absl::StatusOr<StreamToken> Mark(StreamHandle stream);

  // Whether that work is done. Never waits. Polls the token's stream at most
  // once, and nothing at all if it is known to be done. DataLoss: the device is
  // lost.
  absl::StatusOr<bool> IsDone(const StreamToken& token);

  // Waits until it is, by polling. DeadlineExceeded. Not for a fast path.
  absl::Status WaitUntilDone(const StreamToken& token, absl::Time deadline);

  bool writes_values() const;
  // Whether streams are told apart by unique ids.
  bool has_ids() const { return streams_->has_ids(); }
  // Streams with tokens not known to be done.
  uint32_t pending_streams() const;
  // Tokens written so far.
  uint64_t marks_total() const;

  // Its own books: sequences never go back, pending events are counted right.
  absl::Status CheckInvariants() const;

 private:
  StreamTracker(std::unique_ptr<TokenStreams> streams,
                std::unique_ptr<TokenWriter> writer, bool writes_values,
                absl::Duration max_wait_at_end);

  // The record of a stream that exists; made where there is none.
  // FailedPrecondition: there is none, and the stream is capturing.
  absl::StatusOr<TokenRecord*> RecordOf(uint64_t id, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where a stream is that has an id never changes.
  absl::optional<StreamIdentity> Recall(uint64_t id) const;
  void Remember(const StreamIdentity& identity);

  // Streams identified lately: the id, and in the lowest bit whether the stream
  // is foreign. Their place is the id modulo the count.
  static constexpr size_t kRemembered = 256;
  std::array<std::atomic<uint64_t>, kRemembered> remembered_{};

  const bool writes_values_;
  const absl::Duration max_wait_at_end_;
  mutable Mutex mutex_;
  const std::unique_ptr<TokenStreams> streams_;
  TokenRecords records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn

#endif  // FIRN_VMM_STREAM_TRACKER_H_
