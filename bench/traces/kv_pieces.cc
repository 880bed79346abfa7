// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_pieces.h"

namespace firn::bench {

KvPieces::KvPieces(const std::vector<uint64_t>& block_bytes,
                   size_t piece_blocks)
    : piece_blocks_(piece_blocks) {
  for (const uint64_t bytes : block_bytes) {
    piece_bytes_.push_back(bytes * piece_blocks);
  }
  Clear();
}

void KvPieces::Clear() {
  nodes_.assign(piece_bytes_.size(), Node());
  for (uint32_t model = 0; model < nodes_.size(); ++model) {
    nodes_[model].model = model;
  }
  blocks_.assign(nodes_.size() * piece_blocks_, 0);
  free_nodes_.clear();
  after_.clear();
  oldest_ = newest_ = kNone;
  cached_bytes_ = 0;
}

KvPieces::Piece KvPieces::Find(Piece before, uint64_t name) const {
  const auto found = after_.find({before, name});
  return found == after_.end() ? kNone : found->second;
}

KvPieces::Piece KvPieces::Add(Piece before, uint64_t name) {
  Piece piece = static_cast<Piece>(nodes_.size());
  if (free_nodes_.empty()) {
    nodes_.emplace_back();
    blocks_.resize(blocks_.size() + piece_blocks_);
  } else {
    piece = free_nodes_.back();
    free_nodes_.pop_back();
  }
  Node& node = nodes_[piece];
  node.name = name;
  node.before = before;
  node.model = nodes_[before].model;
  node.references = 1;
  after_[{before, name}] = piece;
  return piece;
}

absl::Span<uint32_t> KvPieces::blocks(Piece piece) {
  return absl::MakeSpan(blocks_).subspan(piece * piece_blocks_, piece_blocks_);
}

void KvPieces::Refer(Piece piece) {
  if (nodes_[piece].references++ == 0) Uncache(piece);
}

void KvPieces::Release(Piece last) {
  while (nodes_[last].before != kNone) {
    if (--nodes_[last].references == 0) Cache(last);
    last = nodes_[last].before;
  }
}

void KvPieces::RemoveOldest() {
  const Piece piece = oldest_;
  Uncache(piece);
  after_.erase({nodes_[piece].before, nodes_[piece].name});
  free_nodes_.push_back(piece);
}

void KvPieces::Cache(Piece piece) {
  Node& node = nodes_[piece];
  node.older = newest_;
  node.newer = kNone;
  (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = piece;
  newest_ = piece;
  cached_bytes_ += piece_bytes_[node.model];
}

void KvPieces::Uncache(Piece piece) {
  const Node& node = nodes_[piece];
  (node.older == kNone ? oldest_ : nodes_[node.older].newer) = node.newer;
  (node.newer == kNone ? newest_ : nodes_[node.newer].older) = node.older;
  cached_bytes_ -= piece_bytes_[node.model];
}

}  // namespace firn::bench
