// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/memory_segments.h"

#include "absl/container/flat_hash_map.h"

namespace firn {

void MemorySegmentBuilder::FillUpTo(uint64_t address) {
  if (address <= filled_to_) return;
  MemoryBlock gap;
  gap.address = filled_to_;
  gap.bytes = address - filled_to_;
  segments_->back().blocks.push_back(gap);
  filled_to_ = address;
}

void MemorySegmentBuilder::AddRange(uint64_t address, uint64_t bytes,
                                    DomainId domain) {
  if (has_segment_) {
    MemorySegment& last = segments_->back();
    if (last.address + last.bytes == address && last.domain == domain) {
      last.bytes += bytes;
      return;
    }
  }
  Finish();
  MemorySegment segment;
  segment.address = address;
  segment.bytes = bytes;
  segment.domain = domain;
  segments_->push_back(segment);
  filled_to_ = address;
  has_segment_ = true;
}

void MemorySegmentBuilder::AddBlock(const MemoryBlock& block) {
  FillUpTo(block.address);
  segments_->back().blocks.push_back(block);
  filled_to_ = block.address + block.bytes;
}

void MemorySegmentBuilder::Finish() {
  if (!has_segment_) return;
  FillUpTo(segments_->back().address + segments_->back().bytes);
  has_segment_ = false;
}

void AddStreams(MemorySnapshot* snapshot) {
  // The last allocation at each address.
  absl::flat_hash_map<uint64_t, StreamHandle> stream_of;
  for (const HistoryEvent& event : snapshot->history.events) {
    if (event.kind == HistoryKind::kAllocate) {
      stream_of[event.address] = event.stream;
    }
  }
  if (stream_of.empty()) return;
  for (MemorySegment& segment : snapshot->segments) {
    for (MemoryBlock& block : segment.blocks) {
      if (block.state != MemoryBlockState::kAllocated) continue;
      const auto found = stream_of.find(block.address);
      if (found != stream_of.end()) block.stream = found->second;
    }
  }
}

}  // namespace firn
