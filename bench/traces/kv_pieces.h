// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pieces of prompts whose keys and values are in memory, where the log
// tells which prompts have contents in common.
//
// A piece is known by its model, the pieces before it and its name. It is
// resident with all its blocks while requests refer to it, and then stays
// cached until somebody makes it go. A request that refers to a piece refers to
// all before it. Cached pieces are in order of their last use; of those that
// one request gave up together, deeper ones count as used earlier. So a piece
// is always older than the one before it, and going by age never leaves a piece
// whose prefix is gone.

#ifndef FIRN_BENCH_TRACES_KV_PIECES_H_
#define FIRN_BENCH_TRACES_KV_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace firn::bench {

// Thread safety: none.
class KvPieces {
 public:
  using Piece = uint32_t;
  static constexpr Piece kNone = ~Piece{0};

  // A piece of model i has `piece_blocks` blocks, of block_bytes[i] each.
  KvPieces(const std::vector<uint64_t>& block_bytes, size_t piece_blocks);

  // What the first piece of a prompt to this model comes after.
  Piece Start(uint32_t model) const { return model; }

  // The resident piece of this name after `before`, or kNone.
  Piece Find(Piece before, uint64_t name) const;
  // Makes a piece resident that is not, with one reference. `before` is a start
  // or has one, too.
  Piece Add(Piece before, uint64_t name);

  // The ids of its blocks, for the caller to set. Valid until Add.
  absl::Span<uint32_t> blocks(Piece piece);
  uint32_t model(Piece piece) const { return nodes_[piece].model; }

  // Adds a reference to a resident piece.
  void Refer(Piece piece);
  // Takes one reference back from `last` and each piece before it, up to the
  // start.
  void Release(Piece last);

  // Of the pieces that nobody refers to.
  uint64_t cached_bytes() const { return cached_bytes_; }
  // Of those, the one to go first. REQUIRES: cached_bytes() > 0.
  Piece oldest() const { return oldest_; }
  // Makes oldest() go. Its blocks are the caller's to free, before.
  void RemoveOldest();

  void Clear();

 private:
  struct Node {
    uint64_t name = 0;
    Piece before = kNone;
    uint32_t model = 0;
    uint32_t references = 0;
    Piece older = kNone;  // of the cached ones
    Piece newer = kNone;
  };

  void Cache(Piece piece);
  void Uncache(Piece piece);

  std::vector<uint64_t> piece_bytes_;  // by model
  const size_t piece_blocks_;
  std::vector<Node> nodes_;       // the starts first, then by piece
  std::vector<uint32_t> blocks_;  // piece_blocks_ for each node
  std::vector<Piece> free_nodes_;
  absl::flat_hash_map<std::pair<Piece, uint64_t>, Piece> after_;
  Piece oldest_ = kNone;  // of the cached ones
  Piece newest_ = kNone;
  uint64_t cached_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_KV_PIECES_H_
