// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/free_range_tree.h"

#include <algorithm>

namespace firn {

// Node 0 stands for "none": a range of length 0, so that looking at a missing
// child needs no branch.
FreeRangeTree::FreeRangeTree() { nodes_.emplace_back(); }

FreeRangeTree::Node FreeRangeTree::NewNode(FreeRange range) {
  Node node;
  if (unused_nodes_.empty()) {
    node = static_cast<Node>(nodes_.size());
    nodes_.emplace_back();
  } else {
    node = unused_nodes_.back();
    unused_nodes_.pop_back();
  }
  // xorshift32: priorities only need to look unrelated to addresses.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  nodes_[node] = Entry{range, range.bytes, kNone, kNone, kNone, random_};
  return node;
}

bool FreeRangeTree::UpdateLongest(Node node) {
  Entry& entry = nodes_[node];
  const uint64_t longest_bytes =
      std::max({entry.range.bytes, nodes_[entry.left].longest_bytes,
                nodes_[entry.right].longest_bytes});
  const bool changed = entry.longest_bytes != longest_bytes;
  entry.longest_bytes = longest_bytes;
  return changed;
}

void FreeRangeTree::UpdateLongestUpwards(Node node) {
  while (node != kNone && UpdateLongest(node)) node = nodes_[node].parent;
}

void FreeRangeTree::ReplaceChild(Node parent, Node old_child, Node new_child) {
  if (parent == kNone) {
    root_ = new_child;
  } else if (nodes_[parent].left == old_child) {
    nodes_[parent].left = new_child;
  } else {
    nodes_[parent].right = new_child;
  }
  if (new_child != kNone) nodes_[new_child].parent = parent;
}

void FreeRangeTree::RotateUp(Node node) {
  const Node parent = nodes_[node].parent;
  const Node grandparent = nodes_[parent].parent;
  if (nodes_[parent].left == node) {
    nodes_[parent].left = nodes_[node].right;
    if (nodes_[node].right != kNone) nodes_[nodes_[node].right].parent = parent;
    nodes_[node].right = parent;
  } else {
    nodes_[parent].right = nodes_[node].left;
    if (nodes_[node].left != kNone) nodes_[nodes_[node].left].parent = parent;
    nodes_[node].left = parent;
  }
  ReplaceChild(grandparent, parent, node);
  nodes_[parent].parent = node;
  UpdateLongest(parent);
  UpdateLongest(node);
}

FreeRangeTree::Node FreeRangeTree::Insert(FreeRange range) {
  const Node node = NewNode(range);
  if (root_ == kNone) {
    root_ = node;
    return node;
  }
  Node parent = root_;
  while (true) {
    Entry& entry = nodes_[parent];
    entry.longest_bytes = std::max(entry.longest_bytes, range.bytes);
    Node& child = range.start < entry.range.start ? entry.left : entry.right;
    if (child == kNone) {
      child = node;
      break;
    }
    parent = child;
  }
  nodes_[node].parent = parent;
  while (nodes_[node].parent != kNone &&
         nodes_[nodes_[node].parent].priority < nodes_[node].priority) {
    RotateUp(node);
  }
  return node;
}

void FreeRangeTree::Erase(Node node) {
  while (nodes_[node].left != kNone && nodes_[node].right != kNone) {
    const Node left = nodes_[node].left;
    const Node right = nodes_[node].right;
    RotateUp(nodes_[left].priority > nodes_[right].priority ? left : right);
  }
  const Node child =
      nodes_[node].left != kNone ? nodes_[node].left : nodes_[node].right;
  const Node parent = nodes_[node].parent;
  ReplaceChild(parent, node, child);
  UpdateLongestUpwards(parent);
  unused_nodes_.push_back(node);
}

void FreeRangeTree::Resize(Node node, FreeRange range) {
  nodes_[node].range = range;
  UpdateLongestUpwards(node);
}

FreeRangeTree::Node FreeRangeTree::FirstFit(uint64_t bytes) const {
  if (nodes_[root_].longest_bytes < bytes) return kNone;
  Node node = root_;
  while (true) {
    const Entry& entry = nodes_[node];
    if (nodes_[entry.left].longest_bytes >= bytes) {
      node = entry.left;
    } else if (entry.range.bytes >= bytes) {
      return node;
    } else {
      node = entry.right;
    }
  }
}

FreeRangeTree::Neighbours FreeRangeTree::Around(uint64_t address) const {
  Neighbours neighbours;
  Node node = root_;
  while (node != kNone) {
    const Entry& entry = nodes_[node];
    if (entry.range.start > address) {
      neighbours.above = node;
      node = entry.left;
    } else {
      neighbours.below = node;
      node = entry.right;
    }
  }
  return neighbours;
}

FreeRange FreeRangeTree::FirstPart(FreeRange within) const {
  if (within.bytes == 0) return {};
  const Neighbours around = Around(within.start);
  if (range(around.below).end() > within.start) {
    const uint64_t end = std::min(range(around.below).end(), within.end());
    return {within.start, end - within.start};
  }
  const FreeRange& above = range(around.above);
  if (above.bytes == 0 || above.start >= within.end()) return {};
  return {above.start, std::min(above.end(), within.end()) - above.start};
}

FreeRangeTree::Rest FreeRangeTree::Take(Node node, uint64_t start,
                                        uint64_t bytes) {
  const FreeRange before = range(node);
  const uint64_t end = start + bytes;
  const FreeRange below{before.start, start - before.start};
  const FreeRange above{end, before.end() - end};
  if (below.bytes == 0 && above.bytes == 0) {
    Erase(node);
    return {kNone, kNone};
  }
  if (below.bytes == 0) {
    Resize(node, above);
    return {kNone, node};
  }
  Resize(node, below);
  return {node, above.bytes == 0 ? kNone : Insert(above)};
}

FreeRangeTree::Node FreeRangeTree::Give(FreeRange given,
                                        const Neighbours& around) {
  const bool joins_below =
      around.below != kNone && range(around.below).end() == given.start;
  const bool joins_above =
      around.above != kNone && range(around.above).start == given.end();
  FreeRange joined = given;
  if (joins_below) {
    joined.start = range(around.below).start;
    joined.bytes += range(around.below).bytes;
  }
  if (joins_above) joined.bytes += range(around.above).bytes;
  if (joins_below) {
    if (joins_above) Erase(around.above);
    Resize(around.below, joined);
    return around.below;
  }
  if (joins_above) {
    Resize(around.above, joined);
    return around.above;
  }
  return Insert(joined);
}

void FreeRangeTree::Remove(FreeRange range) {
  for (FreeRange part = FirstPart(range); part.bytes != 0;
       part = FirstPart(range)) {
    Take(Around(part.start).below, part.start, part.bytes);
    range = {part.end(), range.end() - part.end()};
  }
}

}  // namespace firn
