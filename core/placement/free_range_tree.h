// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Disjoint free ranges ordered by address, with the lowest range of at least a
// given length found in O(log n): a treap whose nodes know the longest range
// below them.

#ifndef FIRN_CORE_PLACEMENT_FREE_RANGE_TREE_H_
#define FIRN_CORE_PLACEMENT_FREE_RANGE_TREE_H_

#include <cstdint>
#include <vector>

namespace firn {

struct FreeRange {
  uint64_t start = 0;
  uint64_t bytes = 0;

  uint64_t end() const { return start + bytes; }
};

// Thread safety: none.
class FreeRangeTree {
 public:
  // Names a range of the tree until it is erased.
  using Node = uint32_t;
  static constexpr Node kNone = 0;

  // The last range that starts at an address or below it, within which the
  // address may lie, and the first that starts above.
  struct Neighbours {
    Node below = kNone;
    Node above = kNone;
  };

  // What is left of a range below and above what was taken from it.
  struct Rest {
    Node below = kNone;
    Node above = kNone;
  };

  FreeRangeTree();

  bool empty() const { return root_ == kNone; }
  const FreeRange& range(Node node) const { return nodes_[node].range; }

  // REQUIRES: `range` is not empty and overlaps no range of the tree.
  Node Insert(FreeRange range);
  void Erase(Node node);
  // Changes a range in place. REQUIRES: it stays non-empty and between its
  // neighbours.
  void Resize(Node node, FreeRange range);

  // The lowest range of at least `bytes`, or kNone.
  Node FirstFit(uint64_t bytes) const;
  Neighbours Around(uint64_t address) const;
  // The lowest part of `within`, which may be empty, that is in the tree; of
  // length 0 if none is.
  FreeRange FirstPart(FreeRange within) const;
  // Calls `for_part`, which must not change the tree, with each part of
  // `within` that is in it, from the lowest up.
  template <typename ForPart>
  void ForEachPart(FreeRange within, ForPart for_part) const {
    for (FreeRange part = FirstPart(within); part.bytes != 0;
         part = FirstPart(within)) {
      for_part(part);
      within = {part.end(), within.end() - part.end()};
    }
  }
  bool Contains(FreeRange range) const {
    return FirstPart(range).bytes == range.bytes;
  }
  // Takes the range [start, start + bytes), which must lie inside `node`.
  Rest Take(Node node, uint64_t start, uint64_t bytes);
  // Puts a range back, joined with the ranges that touch it; returns the
  // joined range. `around` is Around(range.start).
  Node Give(FreeRange range, const Neighbours& around);
  Node Give(FreeRange range) { return Give(range, Around(range.start)); }
  // Takes out all of `range` that is in the tree.
  void Remove(FreeRange range);

 private:
  struct Entry {
    FreeRange range;
    uint64_t longest_bytes = 0;
    Node parent = kNone;
    Node left = kNone;
    Node right = kNone;
    uint32_t priority = 0;
  };

  Node NewNode(FreeRange range);
  bool UpdateLongest(Node node);
  void UpdateLongestUpwards(Node node);
  void RotateUp(Node node);
  void ReplaceChild(Node parent, Node old_child, Node new_child);

  std::vector<Entry> nodes_;
  std::vector<Node> unused_nodes_;
  Node root_ = kNone;
  uint32_t random_ = 0x9e3779b9;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_FREE_RANGE_TREE_H_
