// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/expandable_pool.h"

#include <algorithm>
#include <iterator>

#include "firn/core/placement/size_rounding.h"

namespace firn::bench {

ExpandablePool::ExpandablePool(uint64_t base, uint64_t bytes,
                               uint64_t granule_bytes)
    : granule_bytes_(granule_bytes) {
  ranges_.Insert({base, bytes});
}

ExpandablePool::MappedPieces ExpandablePool::PiecesOf(
    const FreeRange& range) const {
  const uint64_t head_end = RoundUp(range.start, granule_bytes_);
  const uint64_t tail_start = RoundDown(range.end(), granule_bytes_);
  // No whole granule in between: all of it is mapped, as one piece.
  if (head_end >= tail_start) return {range, {range.end(), 0}};
  return {{range.start, head_end - range.start},
          {tail_start, range.end() - tail_start}};
}

void ExpandablePool::InsertPieces(FreeRangeTree::Node node) {
  if (node == FreeRangeTree::kNone) return;
  const MappedPieces pieces = PiecesOf(ranges_.range(node));
  for (const FreeRange& piece : {pieces.head, pieces.tail}) {
    if (piece.bytes != 0) pieces_.insert({piece.bytes, piece.start, node});
  }
}

void ExpandablePool::ErasePieces(FreeRangeTree::Node node) {
  if (node == FreeRangeTree::kNone) return;
  const MappedPieces pieces = PiecesOf(ranges_.range(node));
  for (const FreeRange& piece : {pieces.head, pieces.tail}) {
    if (piece.bytes != 0) pieces_.erase({piece.bytes, piece.start, node});
  }
}

uint64_t ExpandablePool::ExpandableBytes(const Piece& piece) const {
  const FreeRange& range = ranges_.range(piece.node);
  const MappedPieces pieces = PiecesOf(range);
  // Only a head has unmapped addresses above it, up to the tail.
  if (piece.start != pieces.head.start || pieces.head.bytes == range.bytes) {
    return piece.bytes;
  }
  return pieces.tail.start - range.start;
}

ExpandablePool::Placement ExpandablePool::Find(uint64_t bytes) const {
  auto piece = pieces_.lower_bound({bytes, 0, FreeRangeTree::kNone});
  if (piece != pieces_.end()) {
    // The original's rule: a piece that could still expand counts as large as
    // it could become, so that such room is kept for large requests.
    uint64_t expandable_bytes = ExpandableBytes(*piece);
    for (auto next = std::next(piece); next != pieces_.end(); ++next) {
      const uint64_t next_bytes = ExpandableBytes(*next);
      if (next_bytes >= expandable_bytes) break;
      piece = next;
      expandable_bytes = next_bytes;
    }
    return {piece->node, piece->start, 0};
  }
  const FreeRangeTree::Node node = ranges_.FirstFit(bytes);
  if (node == FreeRangeTree::kNone) return {};
  const FreeRange& range = ranges_.range(node);
  const MappedPieces pieces = PiecesOf(range);
  const uint64_t unmapped_start = pieces.head.start + pieces.head.bytes;
  const uint64_t unmapped_end =
      std::min(pieces.tail.start, RoundUp(range.start + bytes, granule_bytes_));
  return {node, range.start, (unmapped_end - unmapped_start) / granule_bytes_};
}

void ExpandablePool::Take(const Placement& placement, uint64_t bytes) {
  ErasePieces(placement.node);
  const FreeRangeTree::Rest rest =
      ranges_.Take(placement.node, placement.address, bytes);
  InsertPieces(rest.below);
  InsertPieces(rest.above);
}

uint64_t ExpandablePool::Give(uint64_t address, uint64_t bytes) {
  const FreeRangeTree::Neighbours around = ranges_.Around(address);
  if (around.below != FreeRangeTree::kNone &&
      ranges_.range(around.below).end() == address) {
    ErasePieces(around.below);
  }
  if (around.above != FreeRangeTree::kNone &&
      ranges_.range(around.above).start == address + bytes) {
    ErasePieces(around.above);
  }
  const FreeRangeTree::Node node = ranges_.Give({address, bytes}, around);
  InsertPieces(node);
  const FreeRange& joined = ranges_.range(node);
  // Of the granules the block touched, those that now lie wholly inside the
  // free range.
  const uint64_t first = std::max(RoundDown(address, granule_bytes_),
                                  RoundUp(joined.start, granule_bytes_));
  const uint64_t last = std::min(RoundUp(address + bytes, granule_bytes_),
                                 RoundDown(joined.end(), granule_bytes_));
  return first < last ? (last - first) / granule_bytes_ : 0;
}

}  // namespace firn::bench
