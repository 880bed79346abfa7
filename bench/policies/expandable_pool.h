// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One pool of the expandable policy: a range of addresses that is larger than
// the device, of which only granules with live bytes are mapped.

#ifndef FIRN_BENCH_POLICIES_EXPANDABLE_POOL_H_
#define FIRN_BENCH_POLICIES_EXPANDABLE_POOL_H_

#include <cstdint>

#include "absl/container/btree_set.h"
#include "firn/core/placement/free_range_tree.h"

namespace firn::bench {

// Books only: tells which block to take and how many granules it needs mapped.
//
// As whole free granules are unmapped at once, what is mapped of a free range
// is its head, up to the next granule, and its tail, from the last one: these
// are the cached blocks that best fit chooses from.
//
// Thread safety: none.
class ExpandablePool {
 public:
  // Addresses are those of [base, base + bytes); both whole granules.
  ExpandablePool(uint64_t base, uint64_t bytes, uint64_t granule_bytes);

  struct Placement {
    FreeRangeTree::Node node = FreeRangeTree::kNone;
    uint64_t address = 0;
    // Granules that have to be mapped for it.
    uint64_t new_granules = 0;

    bool found() const { return node != FreeRangeTree::kNone; }
  };

  // Where a block of `bytes` would go: the smallest mapped free piece that
  // holds it, else the lowest range where enough can be mapped.
  Placement Find(uint64_t bytes) const;
  // Takes what Find returned, with nothing changed in between.
  void Take(const Placement& placement, uint64_t bytes);
  // Returns the granules that hold no live byte any more.
  uint64_t Give(uint64_t address, uint64_t bytes);

 private:
  // A mapped free piece.
  struct Piece {
    uint64_t bytes = 0;
    uint64_t start = 0;
    FreeRangeTree::Node node = FreeRangeTree::kNone;  // of the range it is in

    // By length, then by address.
    bool operator<(const Piece& other) const {
      return bytes != other.bytes ? bytes < other.bytes : start < other.start;
    }
  };

  struct MappedPieces {
    FreeRange head;  // either may be empty
    FreeRange tail;
  };

  MappedPieces PiecesOf(const FreeRange& range) const;
  // Do nothing for kNone.
  void InsertPieces(FreeRangeTree::Node node);
  void ErasePieces(FreeRangeTree::Node node);
  // Length of a piece and of the unmapped addresses right above it.
  uint64_t ExpandableBytes(const Piece& piece) const;

  const uint64_t granule_bytes_;
  FreeRangeTree ranges_;
  absl::btree_set<Piece> pieces_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_EXPANDABLE_POOL_H_
