// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/token_records.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// Pending records looked at for each new one above kMaxIdle: at least two, or
// what nobody else polls would pile up.
constexpr size_t kPolledPerAdd = 2;

}  // namespace

TokenRecords::TokenRecords(std::unique_ptr<TokenWriter> writer)
    : writer_(std::move(writer)) {}

TokenRecords::~TokenRecords() {
  for (TokenRecord& record : idle_) writer_->End(&record);
  for (TokenRecord& record : pending_) writer_->End(&record);
}

TokenRecord* TokenRecords::Find(uint64_t stream_id) {
  const auto it = places_.find(stream_id);
  return it == places_.end() ? nullptr : &*it->second;
}

absl::StatusOr<TokenRecord*> TokenRecords::Add(uint64_t stream_id,
                                               const StreamPlace& place) {
  if (places_.size() >= kMaxIdle) PollOldest();
  Records record(1);
  record.front().stream_id = stream_id;
  record.front().place = place;
  record.front().written = last_sequence_;
  record.front().done = last_sequence_;
  const absl::Status status = writer_->Begin(&record.front());
  if (!status.ok()) return status;
  idle_.splice(idle_.end(), record);
  places_.emplace(stream_id, std::prev(idle_.end()));
  DropIdle();
  return &idle_.back();
}

absl::StatusOr<uint64_t> TokenRecords::Write(TokenRecord* record,
                                             StreamHandle stream) {
  const bool was_pending = record->is_pending();
  const absl::Status status = writer_->Write(record, stream, ++last_sequence_);
  if (status.ok()) {
    record->written = last_sequence_;
    ++written_total_;
    if (!was_pending) BecomePending(record);
    return last_sequence_;
  }
  // Making room may have found out that all is done.
  if (was_pending && !record->is_pending()) BecomeIdle(record);
  return status;
}

absl::StatusOr<bool> TokenRecords::Poll(TokenRecord* record,
                                        uint64_t sequence) {
  if (sequence <= record->done || !record->is_pending()) return true;
  const absl::Status status = writer_->Poll(record, sequence);
  const bool done = sequence <= record->done;
  if (!record->is_pending()) BecomeIdle(record);
  if (!status.ok()) return status;
  return done;
}

TokenRecord* TokenRecords::FirstPending() {
  return pending_.empty() ? nullptr : &pending_.front();
}

void TokenRecords::GiveUp(TokenRecord* record) {
  record->done = record->written;
  BecomeIdle(record);
}

void TokenRecords::BecomePending(TokenRecord* record) {
  const auto it = places_.find(record->stream_id)->second;
  pending_.splice(pending_.end(), idle_, it);
}

void TokenRecords::BecomeIdle(TokenRecord* record) {
  const auto it = places_.find(record->stream_id)->second;
  idle_.splice(idle_.end(), pending_, it);
  DropIdle();
}

void TokenRecords::DropIdle() {
  while (idle_.size() > kMaxIdle) {
    writer_->End(&idle_.front());
    places_.erase(idle_.front().stream_id);
    idle_.pop_front();
  }
}

void TokenRecords::PollOldest() {
  for (size_t i = std::min(kPolledPerAdd, pending_.size()); i > 0; --i) {
    pending_.splice(pending_.end(), pending_, pending_.begin());
    TokenRecord* const record = &pending_.back();
    // An error is the business of whoever asks for that token.
    (void)Poll(record, record->written);
  }
}

absl::Status TokenRecords::CheckInvariants() const {
  size_t found = 0;
  for (const Records* records : {&idle_, &pending_}) {
    size_t in_list = 0;
    for (const TokenRecord& record : *records) {
      ++in_list;
      const auto place = places_.find(record.stream_id);
      if (place != places_.end() && &*place->second == &record) ++found;
      if (record.done > record.written || record.written > last_sequence_ ||
          record.is_pending() != (records == &pending_)) {
        return absl::InternalError(absl::StrCat(
            "stream ", record.stream_id, ": written up to ", record.written,
            " of ", last_sequence_, ", done up to ", record.done,
            records == &pending_ ? ", pending" : ", nothing pending"));
      }
      const absl::Status status = writer_->Check(record);
      if (!status.ok()) return status;
    }
    if (in_list != records->size()) {
      return absl::InternalError(absl::StrCat(in_list, " records are counted ",
                                              records->size(), " times"));
    }
  }
  if (found != places_.size() || found != idle_.size() + pending_.size()) {
    return absl::InternalError(absl::StrCat(
        places_.size(), " streams are known, of ", idle_.size(),
        " records with nothing pending and ", pending_.size(), " others"));
  }
  return absl::OkStatus();
}

}  // namespace firn
