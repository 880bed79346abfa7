// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How tokens are written and polled: what StreamTracker needs of the two ways,
// values in memory and events. Private to the tracker.

#ifndef FIRN_VMM_TOKEN_WRITER_H_
#define FIRN_VMM_TOKEN_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// Where a stream is.
struct StreamPlace {
  // The tracker's device through which calls on it are made.
  size_t device = 0;
  // Of none of the devices' own contexts.
  bool is_foreign = false;
};

// An event recorded behind all work up to the token of that sequence.
struct PendingEvent {
  EventHandle event = nullptr;
  size_t device = 0;  // that it was created on
  uint64_t sequence = 0;
};

// What is known of the tokens of one stream.
struct TokenRecord {
  uint64_t stream_id = 0;
  StreamPlace place;
  // The last token written, and up to where all are known to be done. Equal if
  // nothing is pending.
  uint64_t written = 0;
  uint64_t done = 0;

  // --- The writer's ---
  uint32_t counter = 0;              // TokenValues
  std::vector<PendingEvent> events;  // TokenEvents; oldest first

  bool is_pending() const { return written != done; }
};

// Thread safety: none; guarded by its owner.
class TokenWriter {
 public:
  virtual ~TokenWriter() = default;

  // What a new record needs before the first token.
  virtual absl::Status Begin(TokenRecord* record) = 0;
  // Queues a token on the stream of that record. `sequence` is higher than any
  // before, of any record. After an error nothing was queued.
  virtual absl::Status Write(TokenRecord* record, StreamHandle stream,
                             uint64_t sequence) = 0;
  // Looks once whether the token `sequence`, which was written, is done. If so,
  // raises record->done, to there or further.
  virtual absl::Status Poll(TokenRecord* record, uint64_t sequence) = 0;
  // The record goes. Nobody will ask for what is still pending.
  virtual void End(TokenRecord* record) = 0;
  // What it keeps in the record agrees with the rest of it.
  virtual absl::Status Check(const TokenRecord& record) const = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_TOKEN_WRITER_H_
