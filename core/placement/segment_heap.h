// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The books of a pool whose memory never moves: segments, each of which the
// driver gave in one call, and the blocks in them. Makes no driver call.

#ifndef FIRN_CORE_PLACEMENT_SEGMENT_HEAP_H_
#define FIRN_CORE_PLACEMENT_SEGMENT_HEAP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/units.h"
#include "firn/vmm/vg_range_set.h"

namespace firn {

// Blocks go where they fit best; what is freed coalesces with what is free on
// either side, within its segment. Every operation is logarithmic in the number
// of free ranges, but for the look-up of a block, which is so in the number of
// segments.
//
// Quanta have a number each, those of a segment in a row; a block is named by
// the number of its first quantum. No number follows the last one of a segment,
// so that free ranges of two segments are never taken for one.
//
// Thread safety: none; guarded by its owner.
//
// Invariants:
//   (1) blocks and free ranges are disjoint, and cover each segment;
//   (2) a segment is empty exactly if it has no block.
class SegmentHeap {
 public:
  using BlockNumber = uint32_t;

  SegmentHeap();
  SegmentHeap(const SegmentHeap&) = delete;
  SegmentHeap& operator=(const SegmentHeap&) = delete;

  // Adds an empty segment of the memory at `address`; what is no whole quantum
  // at its ends stays unused. False, and nothing added, if no quantum is left
  // of it or numbers are used up: those of 2^32 quanta.
  bool AddSegment(DevicePtr address, uint64_t bytes);
  // Forgets an empty segment.
  void RemoveSegment(DevicePtr address);
  // An empty segment, if there is one.
  std::optional<DevicePtr> EmptySegment() const;

  // Places a block of `bytes`, whose address is a multiple of
  // `alignment_quanta`, a power of two. Nothing if there is no room for it.
  std::optional<BlockNumber> Allocate(uint64_t bytes,
                                      uint64_t alignment_quanta);
  void Free(BlockNumber block);

  DevicePtr AddressOf(BlockNumber block) const;
  // The block that starts at the address, if any.
  std::optional<BlockNumber> FindBlock(DevicePtr address) const;
  // Whether the address is in a segment at all.
  bool Contains(DevicePtr address) const;
  // As asked for.
  uint64_t RequestedBytes(BlockNumber block) const;
  // A block is used again for a request of as many quanta.
  void SetRequestedBytes(BlockNumber block, uint64_t bytes);

  // Calls `visit` with the address of each segment, which may be gone then.
  void ForEachSegment(absl::FunctionRef<void(DevicePtr address)> visit) const;

  // Calls `visit` with each block, and what was asked for and what it takes up.
  void ForEachBlock(
      absl::FunctionRef<void(BlockNumber block, uint64_t requested_bytes,
                             uint64_t extent_bytes)>
          visit) const;
  // Calls `visit` with the size of each free range of a segment that has a
  // block: between blocks, and before and behind them.
  void ForEachHole(absl::FunctionRef<void(uint64_t bytes)> visit) const;

  struct PlacedBlock {
    BlockNumber number = 0;
    uint32_t quanta = 0;
    uint64_t bytes = 0;  // as asked for
  };
  struct PlacedSegment {
    DevicePtr address = 0;  // of its first quantum
    BlockNumber first = 0;  // that quantum's number
    uint32_t quanta = 0;
  };
  // In any order, and by number.
  std::vector<PlacedBlock> Blocks() const;
  std::vector<PlacedSegment> PlacedSegments() const;

  // Of all blocks, as asked for.
  uint64_t requested_bytes() const { return requested_bytes_; }
  // Of all segments, as the driver gave them; and of those that have a block.
  uint64_t held_bytes() const { return held_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  // The most that one block could have, without an alignment.
  uint64_t longest_free_bytes() const;

  // Internal, naming what is broken.
  absl::Status CheckInvariants() const;

 private:
  struct Segment {
    DevicePtr address = 0;  // what the driver gave
    uint64_t bytes = 0;
    DevicePtr start = 0;  // of its first quantum
    uint32_t quanta = 0;
    uint64_t blocks = 0;
  };
  struct Block {
    uint64_t bytes = 0;  // as asked for
    uint32_t quanta = 0;
  };
  using Segments = absl::btree_map<uint32_t, Segment>;

  Segments::const_iterator SegmentOf(uint32_t quantum) const;
  // The number of the quantum that starts at the address, if it is in a
  // segment.
  std::optional<uint32_t> QuantumAt(DevicePtr address) const;
  // Quanta to leave free before an aligned block that starts at `first` or
  // later.
  uint64_t PaddingAt(uint32_t first, uint64_t alignment_quanta) const;
  std::optional<VgRange> FindRoom(uint64_t quanta,
                                  uint64_t alignment_quanta) const;

  // By the number of their first quantum, and these by their address.
  Segments segments_;
  absl::btree_map<DevicePtr, uint32_t> by_address_;
  // Empty ones, by the number of their first quantum.
  absl::btree_set<uint32_t> empty_;
  // Ranges of numbers: free quanta of segments, and numbers of no segment.
  VgRangeSet free_;
  VgRangeSet unused_numbers_;
  absl::flat_hash_map<BlockNumber, Block> blocks_;
  uint64_t requested_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  uint64_t used_bytes_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SEGMENT_HEAP_H_
