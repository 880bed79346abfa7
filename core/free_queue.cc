// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/free_queue.h"

#include "absl/time/time.h"

namespace firn {

absl::Status FreeQueue::Push(absl::Span<const FreedBlock> blocks,
                             StreamHandle stream) {
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (!token.ok()) return token.status();
  std::deque<Entry>& entries = by_stream_[token->stream_id];
  for (const FreedBlock& block : blocks) {
    Entry entry;
    entry.block = block;
    entry.token = *token;
    entries.push_back(entry);
    pending_bytes_ += block.bytes;
  }
  pending_count_ += blocks.size();
  return absl::OkStatus();
}

void FreeQueue::Pop(std::deque<Entry>* entries, std::vector<BlockStart>* done) {
  const FreedBlock& block = entries->front().block;
  done->push_back(block.start);
  --pending_count_;
  pending_bytes_ -= block.bytes;
  entries->pop_front();
}

absl::Status FreeQueue::Poll(std::vector<BlockStart>* done) {
  for (auto at = by_stream_.begin(); at != by_stream_.end();) {
    std::deque<Entry>& entries = at->second;
    while (!entries.empty()) {
      const absl::StatusOr<bool> is_done =
          tracker_->IsDone(entries.front().token);
      if (!is_done.ok()) return is_done.status();
      if (!*is_done) break;
      Pop(&entries, done);
    }
    // Streams come and go.
    const auto this_stream = at++;
    if (entries.empty()) by_stream_.erase(this_stream);
  }
  return absl::OkStatus();
}

absl::Status FreeQueue::Drain(std::vector<BlockStart>* done) {
  for (auto& [id, entries] : by_stream_) {
    while (!entries.empty()) {
      const absl::Status waited = tracker_->WaitUntilDone(
          entries.front().token, absl::InfiniteFuture());
      if (!waited.ok()) return waited;
      Pop(&entries, done);
    }
  }
  return absl::OkStatus();
}

}  // namespace firn
