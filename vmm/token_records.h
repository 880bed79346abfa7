// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The streams that tokens were written on, as long as it matters. Private to
// the tracker.

#ifndef FIRN_VMM_TOKEN_RECORDS_H_
#define FIRN_VMM_TOKEN_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/token_writer.h"

namespace firn {

// Keeps every stream with something pending, and the last kMaxIdle without. Of
// a stream that is not here everything is done. Sequences grow over all
// streams, so that this holds for one that comes back as well.
//
// Thread safety: none; guarded by its owner.
class TokenRecords {
 public:
  static constexpr size_t kMaxIdle = 256;

  explicit TokenRecords(std::unique_ptr<TokenWriter> writer);
  ~TokenRecords();
  TokenRecords(const TokenRecords&) = delete;
  TokenRecords& operator=(const TokenRecords&) = delete;

  // nullptr if there is none. Records stay where they are until the next call
  // of Add or Poll, and those with something pending beyond that.
  TokenRecord* Find(uint64_t stream_id);
  // Where there is none. Above kMaxIdle records, looks at some that are
  // pending.
  absl::StatusOr<TokenRecord*> Add(uint64_t stream_id,
                                   const StreamPlace& place);

  // Writes the next token on the stream of that record; returns its sequence.
  absl::StatusOr<uint64_t> Write(TokenRecord* record, StreamHandle stream);
  // Whether the token, which was written, is done; looks once.
  absl::StatusOr<bool> Poll(TokenRecord* record, uint64_t sequence);

  // One that has something pending; nullptr if there is none.
  TokenRecord* FirstPending();
  // What is pending will never run: the device is lost.
  void GiveUp(TokenRecord* record);
  size_t pending_count() const { return pending_.size(); }
  uint64_t written_total() const { return written_total_; }

  absl::Status CheckInvariants() const;

 private:
  using Records = std::list<TokenRecord>;

  // The record has something pending from now on, or nothing any more.
  void BecomePending(TokenRecord* record);
  void BecomeIdle(TokenRecord* record);
  // Drops the oldest that are too many.
  void DropIdle();
  // Looks at the pending records that were not looked at for longest.
  void PollOldest();

  const std::unique_ptr<TokenWriter> writer_;
  uint64_t last_sequence_ = 0;  // used or not
  uint64_t written_total_ = 0;
  // Each in the order in which they got there.
  Records idle_;
  Records pending_;
  // By stream.
  absl::flat_hash_map<uint64_t, Records::iterator> places_;
};

}  // namespace firn

#endif  // FIRN_VMM_TOKEN_RECORDS_H_
