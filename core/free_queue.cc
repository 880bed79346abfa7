// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/free_queue.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace firn {
namespace {

// Entries looked at by one call.
constexpr size_t kMostLooks = 16;

}  // namespace

void AddUse(const StreamToken& use, std::vector<StreamToken>* uses) {
  for (StreamToken& known : *uses) {
    if (known.stream_id != use.stream_id) continue;
    known = use;
    return;
  }
  uses->push_back(use);
}

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

absl::Status FreeQueue::PushUsed(const FreedBlock& block, StreamHandle stream,
                                 std::vector<StreamToken> uses) {
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (!token.ok()) return token.status();
  uses.push_back(*token);
  UsedEntry entry;
  entry.block = block;
  entry.tokens = std::move(uses);
  used_.push_back(std::move(entry));
  ++pending_count_;
  pending_bytes_ += block.bytes;
  return absl::OkStatus();
}

std::optional<BlockStart> FreeQueue::TakeAgain(uint64_t stream_id,
                                               ArenaIndex arena,
                                               uint64_t quanta,
                                               uint64_t alignment_quanta) {
  const auto found = by_stream_.find(stream_id);
  if (found == by_stream_.end()) return std::nullopt;
  std::deque<Entry>& entries = found->second;
  const size_t end =
      entries.size() > kMostLooks ? entries.size() - kMostLooks : 0;
  for (size_t i = entries.size(); i-- > end;) {
    FreedBlock& block = entries[i].block;
    if (block.quanta != quanta || block.arena != arena ||
        block.start.vg.is_none() ||
        block.start.offset_quanta % alignment_quanta != 0) {
      continue;
    }
    const BlockStart start = block.start;
    --pending_count_;
    pending_bytes_ -= block.bytes;
    block = FreedBlock();
    return start;
  }
  return std::nullopt;
}

void FreeQueue::Done(const FreedBlock& block, std::vector<BlockStart>* done) {
  if (block.start.vg.is_none()) return;
  done->push_back(block.start);
  --pending_count_;
  pending_bytes_ -= block.bytes;
  if (recorder_ == nullptr || block.address == 0) return;
  EventRecord record;
  record.kind = HistoryKind::kFreeCompleted;
  record.address = block.address;
  record.bytes = block.bytes;
  record.stream = block.stream;
  recorder_->Record(record);
}

absl::Status FreeQueue::PollUsed(size_t looks, std::vector<BlockStart>* done) {
  // Those that are not done go to the end of the line.
  for (size_t n = std::min(used_.size(), looks); n > 0; --n) {
    UsedEntry entry = std::move(used_.front());
    used_.pop_front();
    while (!entry.tokens.empty()) {
      const absl::StatusOr<bool> is_done =
          tracker_->IsDone(entry.tokens.back());
      if (!is_done.ok() || !*is_done) {
        used_.push_back(std::move(entry));
        if (!is_done.ok()) return is_done.status();
        break;
      }
      entry.tokens.pop_back();
      if (entry.tokens.empty()) Done(entry.block, done);
    }
  }
  return absl::OkStatus();
}

absl::Status FreeQueue::PollInOrder(std::vector<BlockStart>* done) {
  for (auto at = by_stream_.begin(); at != by_stream_.end();) {
    std::deque<Entry>& entries = at->second;
    while (!entries.empty()) {
      const absl::StatusOr<bool> is_done =
          tracker_->IsDone(entries.front().token);
      if (!is_done.ok()) return is_done.status();
      if (!*is_done) break;
      Done(entries.front().block, done);
      entries.pop_front();
    }
    // Streams come and go.
    const auto this_stream = at++;
    if (entries.empty()) by_stream_.erase(this_stream);
  }
  return absl::OkStatus();
}

absl::Status FreeQueue::Poll(std::vector<BlockStart>* done) {
  const absl::Status status = PollInOrder(done);
  return status.ok() ? PollUsed(kMostLooks, done) : status;
}

absl::Status FreeQueue::PollAll(std::vector<BlockStart>* done) {
  const absl::Status status = PollInOrder(done);
  return status.ok() ? PollUsed(used_.size(), done) : status;
}

absl::Status FreeQueue::Drain(std::vector<BlockStart>* done) {
  for (auto& [id, entries] : by_stream_) {
    for (; !entries.empty(); entries.pop_front()) {
      const absl::Status waited = tracker_->WaitUntilDone(
          entries.front().token, absl::InfiniteFuture());
      if (!waited.ok()) return waited;
      Done(entries.front().block, done);
    }
  }
  for (; !used_.empty(); used_.pop_front()) {
    for (const StreamToken& token : used_.front().tokens) {
      const absl::Status waited =
          tracker_->WaitUntilDone(token, absl::InfiniteFuture());
      if (!waited.ok()) return waited;
    }
    Done(used_.front().block, done);
  }
  return absl::OkStatus();
}

}  // namespace firn
