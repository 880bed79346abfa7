// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/stitched_ranges.h"

#include <algorithm>
#include <utility>

namespace firn::bench {
namespace {

constexpr uint64_t kAddressSpaceGranules = uint64_t{1} << 48;

}  // namespace

StitchedRanges::StitchedRanges(DriverLedger* ledger) : ledger_(ledger) {
  addresses_.Insert({0, kAddressSpaceGranules});
}

StitchedRanges::Key StitchedRanges::KeyOf(Range range) const {
  const Entry& entry = entries_[range];
  return {entry.stream, range, entry.chunks.size(), entry.address};
}

bool StitchedRanges::IsReady(const Entry& entry) const {
  return entry.free_chunks == entry.chunks.size();
}

void StitchedRanges::AppendNewest(Range range) {
  entries_[range].older = newest_;
  entries_[range].newer = kNone;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = range;
  newest_ = range;
}

void StitchedRanges::Unlink(Range range) {
  const Entry& entry = entries_[range];
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
}

StitchedRanges::Range StitchedRanges::Stitch(std::vector<uint64_t> chunks,
                                             uint32_t stream) {
  Range range;
  if (unused_entries_.empty()) {
    range = static_cast<Range>(entries_.size());
    entries_.emplace_back();
  } else {
    range = unused_entries_.back();
    unused_entries_.pop_back();
  }
  const FreeRangeTree::Node node = addresses_.FirstFit(chunks.size());
  Entry& entry = entries_[range];
  entry.address = addresses_.range(node).start;
  addresses_.Take(node, entry.address, chunks.size());
  entry.address_chunks = chunks.size();
  entry.free_chunks = 0;
  entry.used_chunks = chunks.size();
  entry.stream = stream;
  for (const uint64_t chunk : chunks) {
    if (chunk >= aliases_.size()) aliases_.resize(chunk + 1);
    aliases_[chunk].push_back(range);
  }
  ledger_->ChargeMapRun(chunks.size());
  mapped_chunks_ += chunks.size();
  ++count_;
  entry.chunks = std::move(chunks);
  return range;
}

std::optional<StitchedRanges::Range> StitchedRanges::BestFit(
    uint64_t least, uint64_t most, uint32_t stream) const {
  const auto found = ready_.lower_bound({stream, 0, least, 0});
  if (found == ready_.end() || found->stream != stream ||
      found->chunks > most) {
    return std::nullopt;
  }
  return found->range;
}

void StitchedRanges::Use(Range range, uint64_t used_chunks) {
  Unlink(range);
  entries_[range].used_chunks = used_chunks;
}

void StitchedRanges::Give(Range range) {
  entries_[range].used_chunks = 0;
  AppendNewest(range);
}

template <typename Visitor>
void StitchedRanges::VisitAliases(ChunkRun run, Visitor visit) {
  const uint64_t end = std::min<uint64_t>(run.end(), aliases_.size());
  for (uint64_t chunk = run.first; chunk < end;) {
    // Neighbours mostly belong to the same ranges.
    uint64_t next = chunk + 1;
    while (next < end && aliases_[next] == aliases_[chunk]) ++next;
    for (const Range range : aliases_[chunk]) visit(range, next - chunk);
    chunk = next;
  }
}

void StitchedRanges::ChunksTaken(ChunkRun run) {
  VisitAliases(run, [this](Range range, uint64_t chunks) {
    if (IsReady(entries_[range])) ready_.erase(KeyOf(range));
    entries_[range].free_chunks -= chunks;
  });
}

void StitchedRanges::ChunksGiven(ChunkRun run) {
  VisitAliases(run, [this](Range range, uint64_t chunks) {
    entries_[range].free_chunks += chunks;
    if (IsReady(entries_[range])) ready_.insert(KeyOf(range));
  });
}

void StitchedRanges::ChunksEnded(ChunkRun run) {
  const uint64_t end = std::min<uint64_t>(run.end(), aliases_.size());
  for (uint64_t chunk = run.first; chunk < end; ++chunk) {
    // Each call takes the range off the chunk's list.
    while (!aliases_[chunk].empty()) {
      const Range range = aliases_[chunk].back();
      if (entries_[range].used_chunks == 0) {
        Remove(range);
      } else {
        // A chunk that ends is none of those in use.
        Truncate(range);
      }
    }
  }
}

void StitchedRanges::ForgetAlias(uint64_t chunk, Range range) {
  auto& ranges = aliases_[chunk];
  ranges.erase(std::find(ranges.begin(), ranges.end(), range));
}

void StitchedRanges::Remove(Range range) {
  Unlink(range);
  Entry& entry = entries_[range];
  if (IsReady(entry)) ready_.erase(KeyOf(range));
  for (const uint64_t chunk : entry.chunks) ForgetAlias(chunk, range);
  ledger_->ChargeUnmap(entry.chunks.size());
  mapped_chunks_ -= entry.chunks.size();
  --count_;
  addresses_.Give({entry.address, entry.address_chunks},
                  addresses_.Around(entry.address));
  entry = Entry();
  unused_entries_.push_back(range);
}

void StitchedRanges::Truncate(Range range) {
  Entry& entry = entries_[range];
  const uint64_t removed = entry.chunks.size() - entry.used_chunks;
  for (uint64_t i = entry.used_chunks; i < entry.chunks.size(); ++i) {
    ForgetAlias(entry.chunks[i], range);
  }
  entry.chunks.resize(entry.used_chunks);
  // Those in use are not free.
  entry.free_chunks = 0;
  ledger_->ChargeUnmap(removed);
  mapped_chunks_ -= removed;
}

void StitchedRanges::ShrinkTo(uint64_t chunks) {
  while (mapped_chunks_ > chunks && oldest_ != kNone) Remove(oldest_);
}

}  // namespace firn::bench
