// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tokens as events: they work on every device, but only on streams of the
// devices' own contexts. Private to the tracker.

#ifndef FIRN_VMM_TOKEN_EVENTS_H_
#define FIRN_VMM_TOKEN_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/token_writer.h"

namespace firn {

struct TokenEventsOptions {
  // Most events pending of a record: beyond it, the latest is recorded again.
  uint32_t max_pending_events = 8;
  // Each record is one stream, so that its events are done in order. If not,
  // all are kept until they are done, however many.
  bool record_is_stream = true;
};

// Events that are done are kept and used again.
class TokenEvents : public TokenWriter {
 public:
  // Does not own `devices`, which must outlive this object.
  TokenEvents(std::vector<Driver*> devices, const TokenEventsOptions& options);
  // All records must have ended.
  ~TokenEvents() override;
  TokenEvents(const TokenEvents&) = delete;
  TokenEvents& operator=(const TokenEvents&) = delete;

  absl::Status Begin(TokenRecord* record) override;
  // Unimplemented: the stream is of a foreign context.
  absl::Status Write(TokenRecord* record, StreamHandle stream,
                     uint64_t sequence) override;
  absl::Status Poll(TokenRecord* record, uint64_t sequence) override;
  void End(TokenRecord* record) override;
  absl::Status Check(const TokenRecord& record) const override;

 private:
  // The events of one device that are in no record.
  struct Spares {
    std::vector<EventHandle> events;
    // In records or here: there is room here for all of them.
    size_t created = 0;
  };

  bool IsFull(const TokenRecord& record) const;
  // Takes out what is done where that is all, or else the oldest.
  absl::Status MakeRoom(TokenRecord* record);
  absl::Status TakeEvent(size_t device, EventHandle* event);
  // The first `count` events are done.
  void Recycle(TokenRecord* record, size_t count);
  // Whether the event is done; asked in relaxed capture mode.
  absl::Status Query(const PendingEvent& pending, bool* done);

  const std::vector<Driver*> devices_;
  const TokenEventsOptions options_;
  std::vector<Spares> spares_;  // by device
};

}  // namespace firn

#endif  // FIRN_VMM_TOKEN_EVENTS_H_
