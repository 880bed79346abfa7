// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/segment_heap.h"

#include <cassert>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// The last number is that of no quantum.
constexpr uint32_t kNumbers = std::numeric_limits<uint32_t>::max();
// How many ranges are tried for an aligned block before one is taken that is
// long enough wherever it starts.
constexpr int kMaxTries = 8;

VgRange RangeOf(uint32_t first, uint64_t count) {
  VgRange range;
  range.first = VgIndex(first);
  range.count = static_cast<uint32_t>(count);
  return range;
}

absl::Status Broken(absl::string_view what, uint32_t number) {
  return absl::InternalError(absl::StrCat(what, ": quantum ", number));
}

}  // namespace

SegmentHeap::SegmentHeap() { unused_numbers_.Insert(RangeOf(0, kNumbers)); }

bool SegmentHeap::AddSegment(DevicePtr address, uint64_t bytes) {
  Segment segment;
  segment.address = address;
  segment.bytes = bytes;
  segment.start = QuantaToBytes(BytesToQuanta(address));
  const uint64_t lost_bytes = segment.start - address;
  if (bytes < lost_bytes + kQuantumBytes) return false;
  const uint64_t quanta = (bytes - lost_bytes) / kQuantumBytes;
  // One more than it has, which nobody gets.
  if (quanta + 1 > kNumbers) return false;
  const std::optional<VgRange> numbers =
      unused_numbers_.BestFit(static_cast<uint32_t>(quanta + 1));
  if (!numbers.has_value()) return false;
  segment.quanta = static_cast<uint32_t>(quanta);
  const uint32_t first = numbers->first.value();
  unused_numbers_.Remove(RangeOf(first, quanta + 1));
  free_.Insert(RangeOf(first, quanta));
  segments_[first] = segment;
  by_address_[segment.start] = first;
  empty_.insert(first);
  held_bytes_ += bytes;
  return true;
}

void SegmentHeap::RemoveSegment(DevicePtr address) {
  const auto found = by_address_.find(QuantaToBytes(BytesToQuanta(address)));
  assert(found != by_address_.end());
  const uint32_t first = found->second;
  const auto segment = segments_.find(first);
  assert(segment->second.blocks == 0);
  free_.Remove(RangeOf(first, segment->second.quanta));
  unused_numbers_.Insert(RangeOf(first, segment->second.quanta + 1));
  held_bytes_ -= segment->second.bytes;
  empty_.erase(first);
  by_address_.erase(found);
  segments_.erase(segment);
}

std::optional<DevicePtr> SegmentHeap::EmptySegment() const {
  if (empty_.empty()) return std::nullopt;
  // The last one: those before are more often in use.
  return segments_.find(*empty_.rbegin())->second.address;
}

std::optional<SegmentHeap::BlockNumber> SegmentHeap::Allocate(
    uint64_t bytes, uint64_t alignment_quanta) {
  const uint64_t quanta = BytesToQuanta(bytes);
  if (quanta == 0 || quanta >= kNumbers) return std::nullopt;
  const std::optional<VgRange> room = FindRoom(quanta, alignment_quanta);
  if (!room.has_value()) return std::nullopt;
  free_.Remove(*room);
  const BlockNumber number = room->first.value();
  Block block;
  block.bytes = bytes;
  block.quanta = room->count;
  blocks_[number] = block;
  requested_bytes_ += bytes;
  const auto found = SegmentOf(number);
  Segment& segment = segments_[found->first];
  if (segment.blocks++ == 0) {
    empty_.erase(found->first);
    used_bytes_ += segment.bytes;
  }
  return number;
}

std::optional<VgRange> SegmentHeap::FindRoom(uint64_t quanta,
                                             uint64_t alignment_quanta) const {
  std::optional<VgRange> range = free_.BestFit(static_cast<uint32_t>(quanta));
  for (int i = 0; i < kMaxTries && range.has_value(); ++i) {
    const uint32_t first = range->first.value();
    const uint64_t padding = PaddingAt(first, alignment_quanta);
    if (padding + quanta <= range->count) {
      return RangeOf(first + static_cast<uint32_t>(padding), quanta);
    }
    range = free_.NextByLength(*range);
  }
  const uint64_t sure_quanta = quanta + alignment_quanta - 1;
  if (!range.has_value() || sure_quanta >= kNumbers) return std::nullopt;
  range = free_.BestFit(static_cast<uint32_t>(sure_quanta));
  if (!range.has_value()) return std::nullopt;
  const uint32_t first = range->first.value();
  return RangeOf(
      first + static_cast<uint32_t>(PaddingAt(first, alignment_quanta)),
      quanta);
}

uint64_t SegmentHeap::PaddingAt(uint32_t first,
                                uint64_t alignment_quanta) const {
  if (alignment_quanta <= 1) return 0;
  const uint64_t past = AddressOf(first) / kQuantumBytes % alignment_quanta;
  return past == 0 ? 0 : alignment_quanta - past;
}

void SegmentHeap::Free(BlockNumber number) {
  const auto found = blocks_.find(number);
  assert(found != blocks_.end());
  free_.Insert(RangeOf(number, found->second.quanta));
  requested_bytes_ -= found->second.bytes;
  blocks_.erase(found);
  const auto owner = SegmentOf(number);
  Segment& segment = segments_[owner->first];
  if (--segment.blocks == 0) {
    empty_.insert(owner->first);
    used_bytes_ -= segment.bytes;
  }
}

SegmentHeap::Segments::const_iterator SegmentHeap::SegmentOf(
    uint32_t quantum) const {
  return std::prev(segments_.upper_bound(quantum));
}

DevicePtr SegmentHeap::AddressOf(BlockNumber block) const {
  const auto segment = SegmentOf(block);
  return segment->second.start + QuantaToBytes(block - segment->first);
}

std::optional<uint32_t> SegmentHeap::QuantumAt(DevicePtr address) const {
  const auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) return std::nullopt;
  const auto& [start, first] = *std::prev(after);
  const uint64_t offset = (address - start) / kQuantumBytes;
  if (offset >= segments_.find(first)->second.quanta) return std::nullopt;
  return first + static_cast<uint32_t>(offset);
}

std::optional<SegmentHeap::BlockNumber> SegmentHeap::FindBlock(
    DevicePtr address) const {
  if (address % kQuantumBytes != 0) return std::nullopt;
  const std::optional<uint32_t> quantum = QuantumAt(address);
  if (!quantum.has_value() || !blocks_.contains(*quantum)) {
    return std::nullopt;
  }
  return quantum;
}

bool SegmentHeap::Contains(DevicePtr address) const {
  return QuantumAt(address).has_value();
}

uint64_t SegmentHeap::RequestedBytes(BlockNumber block) const {
  const auto found = blocks_.find(block);
  return found == blocks_.end() ? 0 : found->second.bytes;
}

void SegmentHeap::SetRequestedBytes(BlockNumber number, uint64_t bytes) {
  Block& block = blocks_.find(number)->second;
  assert(BytesToQuanta(bytes) == block.quanta);
  requested_bytes_ += bytes;
  requested_bytes_ -= block.bytes;
  block.bytes = bytes;
}

void SegmentHeap::ForEachSegment(
    absl::FunctionRef<void(DevicePtr address)> visit) const {
  for (const auto& [first, segment] : segments_) visit(segment.address);
}

void SegmentHeap::ForEachBlock(
    absl::FunctionRef<void(BlockNumber block, uint64_t requested_bytes,
                           uint64_t extent_bytes)>
        visit) const {
  for (const auto& [number, block] : blocks_) {
    visit(number, block.bytes, QuantaToBytes(block.quanta));
  }
}

void SegmentHeap::ForEachHole(
    absl::FunctionRef<void(uint64_t bytes)> visit) const {
  for (std::optional<VgRange> range = free_.Shortest(); range.has_value();
       range = free_.NextByLength(*range)) {
    if (SegmentOf(range->first.value())->second.blocks == 0) continue;
    visit(QuantaToBytes(range->count));
  }
}

std::vector<SegmentHeap::PlacedBlock> SegmentHeap::Blocks() const {
  std::vector<PlacedBlock> blocks;
  blocks.reserve(blocks_.size());
  for (const auto& [number, block] : blocks_) {
    blocks.push_back(PlacedBlock{number, block.quanta, block.bytes});
  }
  return blocks;
}

std::vector<SegmentHeap::PlacedSegment> SegmentHeap::PlacedSegments() const {
  std::vector<PlacedSegment> segments;
  segments.reserve(segments_.size());
  for (const auto& [first, segment] : segments_) {
    segments.push_back(PlacedSegment{segment.start, first, segment.quanta});
  }
  return segments;
}

uint64_t SegmentHeap::longest_free_bytes() const {
  const std::optional<VgRange> longest = free_.Longest();
  return longest.has_value() ? QuantaToBytes(longest->count) : 0;
}

absl::Status SegmentHeap::CheckInvariants() const {
  if (!free_.CheckInvariants() || !unused_numbers_.CheckInvariants()) {
    return absl::InternalError("a set of ranges is broken");
  }
  // Quanta and number of the blocks of each segment.
  absl::flat_hash_map<uint32_t, Segment> seen;
  uint64_t requested_bytes = 0;
  for (const auto& [number, block] : blocks_) {
    const auto segment = SegmentOf(number);
    if (number - segment->first + uint64_t{block.quanta} >
        segment->second.quanta) {
      return Broken("a block goes on behind its segment", number);
    }
    if (block.bytes == 0 || BytesToQuanta(block.bytes) != block.quanta) {
      return Broken("a block has not the quanta of its bytes", number);
    }
    requested_bytes += block.bytes;
    Segment& sum = seen[segment->first];
    sum.quanta += block.quanta;
    ++sum.blocks;
  }
  uint64_t block_quanta = 0;
  uint64_t quanta = 0;
  uint64_t held_bytes = 0;
  uint64_t used_bytes = 0;
  for (const auto& [first, segment] : segments_) {
    const Segment& sum = seen[first];
    if (sum.blocks != segment.blocks) {
      return Broken("I1: a segment counts its blocks wrong", first);
    }
    if ((segment.blocks == 0) != (empty_.count(first) != 0)) {
      return Broken("I6: a segment is taken for empty, or not", first);
    }
    const auto by_address = by_address_.find(segment.start);
    if (by_address == by_address_.end() || by_address->second != first) {
      return Broken("a segment is not found by its address", first);
    }
    block_quanta += sum.quanta;
    quanta += segment.quanta;
    held_bytes += segment.bytes;
    if (segment.blocks != 0) used_bytes += segment.bytes;
  }
  // Ranges of blocks and free ones are each in one segment; if they overlapped,
  // the sums would not meet, as free_ counts each quantum once.
  if (block_quanta + free_.vg_count() != quanta) {
    return absl::InternalError(
        absl::StrCat("I1: ", block_quanta, " quanta of blocks and ",
                     free_.vg_count(), " free ones of ", quanta));
  }
  if (requested_bytes != requested_bytes_ || held_bytes != held_bytes_ ||
      used_bytes != used_bytes_) {
    return absl::InternalError("I11: bytes are counted wrong");
  }
  return absl::OkStatus();
}

}  // namespace firn
