// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The primitive blocks of stitching: runs of physical chunks in the address
// range they were created with. As GMLake's pBlocks.

#ifndef FIRN_BENCH_POLICIES_PRIMITIVE_BLOCKS_H_
#define FIRN_BENCH_POLICIES_PRIMITIVE_BLOCKS_H_

#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "firn/core/placement/free_range_tree.h"

namespace firn::bench {

// Chunks are named by the granule of address space they were created at: as
// they never leave it, a name is one chunk for as long as that exists.
struct ChunkRun {
  uint64_t first = 0;
  uint64_t chunks = 0;

  uint64_t end() const { return first + chunks; }
};

// Each block is wholly free or wholly active. A block may be split anywhere
// between chunks, which takes no driver call, as each chunk is mapped by
// itself; free neighbours created in one piece are joined.
//
// Thread safety: none.
class PrimitiveBlocks {
 public:
  PrimitiveBlocks();

  // New chunks, as one active block.
  ChunkRun Create(uint64_t chunks, uint32_t stream);
  // The smallest free block of the stream with at least `chunks`, of those the
  // lowest.
  std::optional<ChunkRun> BestFit(uint64_t chunks, uint32_t stream) const;
  // The largest free block of the stream; there must be one.
  ChunkRun Largest(uint32_t stream) const;
  // Some free block, not of `skipped_stream`; there must be one.
  ChunkRun AnyFree(std::optional<uint32_t> skipped_stream) const;

  // Makes active what a free block holds of `run`, from its first chunk on,
  // and returns that: less than `run` where the block ends before.
  ChunkRun Take(ChunkRun run);
  // The active block that starts with `first`, if there is one.
  std::optional<ChunkRun> ActiveAt(uint64_t first) const;
  // Frees it.
  void Give(uint64_t first);
  // Ends a run that was taken: its chunks exist no more.
  void Destroy(uint64_t first);

  uint64_t chunks() const { return chunks_; }
  uint64_t free_chunks() const { return free_chunks_; }
  uint64_t FreeChunksOf(uint32_t stream) const;

 private:
  struct Block {
    uint64_t chunks = 0;
    uint32_t stream = 0;
    bool is_free = false;
    // Its neighbour below is not of the same creation, or was destroyed.
    bool starts_piece = false;
  };
  using Blocks = absl::btree_map<uint64_t, Block>;  // by first chunk

  struct Key {
    uint32_t stream = 0;
    uint64_t chunks = 0;
    uint64_t first = 0;

    bool operator<(const Key& other) const {
      if (stream != other.stream) return stream < other.stream;
      if (chunks != other.chunks) return chunks < other.chunks;
      return first < other.first;
    }
  };

  void InsertFree(uint64_t first, const Block& block);
  void EraseFree(uint64_t first, const Block& block);

  FreeRangeTree addresses_;  // in granules
  Blocks blocks_;
  absl::btree_set<Key> free_blocks_;
  absl::flat_hash_map<uint32_t, uint64_t> free_chunks_of_stream_;
  uint64_t chunks_ = 0;
  uint64_t free_chunks_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_PRIMITIVE_BLOCKS_H_
