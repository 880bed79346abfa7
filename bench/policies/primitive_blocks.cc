// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/primitive_blocks.h"

#include <algorithm>
#include <limits>

namespace firn::bench {
namespace {

// More than any capacity a policy admits.
constexpr uint64_t kAddressSpaceGranules = uint64_t{1} << 48;

}  // namespace

PrimitiveBlocks::PrimitiveBlocks() {
  addresses_.Insert({0, kAddressSpaceGranules});
}

void PrimitiveBlocks::InsertFree(uint64_t first, const Block& block) {
  free_blocks_.insert({block.stream, block.chunks, first});
  free_chunks_of_stream_[block.stream] += block.chunks;
  free_chunks_ += block.chunks;
}

void PrimitiveBlocks::EraseFree(uint64_t first, const Block& block) {
  free_blocks_.erase({block.stream, block.chunks, first});
  free_chunks_of_stream_[block.stream] -= block.chunks;
  free_chunks_ -= block.chunks;
}

ChunkRun PrimitiveBlocks::Create(uint64_t chunks, uint32_t stream) {
  const FreeRangeTree::Node node = addresses_.FirstFit(chunks);
  const uint64_t first = addresses_.range(node).start;
  addresses_.Take(node, first, chunks);
  Block block;
  block.chunks = chunks;
  block.stream = stream;
  block.starts_piece = true;
  blocks_.emplace(first, block);
  chunks_ += chunks;
  return {first, chunks};
}

std::optional<ChunkRun> PrimitiveBlocks::BestFit(uint64_t chunks,
                                                 uint32_t stream) const {
  const auto found = free_blocks_.lower_bound({stream, chunks, 0});
  if (found == free_blocks_.end() || found->stream != stream) {
    return std::nullopt;
  }
  return ChunkRun{found->first, found->chunks};
}

ChunkRun PrimitiveBlocks::Largest(uint32_t stream) const {
  const auto above = free_blocks_.lower_bound(
      {stream, std::numeric_limits<uint64_t>::max(), 0});
  const Key& largest = *std::prev(above);
  return {largest.first, largest.chunks};
}

ChunkRun PrimitiveBlocks::AnyFree(
    std::optional<uint32_t> skipped_stream) const {
  auto found = free_blocks_.begin();
  if (found->stream == skipped_stream) {
    found = free_blocks_.lower_bound(
        {found->stream, std::numeric_limits<uint64_t>::max(), 0});
  }
  return {found->first, found->chunks};
}

ChunkRun PrimitiveBlocks::Take(ChunkRun run) {
  const auto found = std::prev(blocks_.upper_bound(run.first));
  const uint64_t block_first = found->first;
  const Block block = found->second;
  EraseFree(block_first, block);

  Block taken = block;
  taken.is_free = false;
  taken.chunks = std::min(run.end(), block_first + block.chunks) - run.first;
  const uint64_t below_chunks = run.first - block_first;
  const uint64_t above_chunks = block.chunks - below_chunks - taken.chunks;
  if (below_chunks == 0) {
    found->second = taken;
  } else {
    found->second.chunks = below_chunks;
    InsertFree(block_first, found->second);
    taken.starts_piece = false;
    blocks_.emplace(run.first, taken);
  }
  if (above_chunks != 0) {
    Block above = block;
    above.chunks = above_chunks;
    above.starts_piece = false;
    const uint64_t above_first = run.first + taken.chunks;
    blocks_.emplace(above_first, above);
    InsertFree(above_first, above);
  }
  return {run.first, taken.chunks};
}

std::optional<ChunkRun> PrimitiveBlocks::ActiveAt(uint64_t first) const {
  const auto found = blocks_.find(first);
  if (found == blocks_.end() || found->second.is_free) return std::nullopt;
  return ChunkRun{first, found->second.chunks};
}

void PrimitiveBlocks::Give(uint64_t first) {
  auto block = blocks_.find(first);
  block->second.is_free = true;
  const auto next = std::next(block);
  if (next != blocks_.end() && next->second.is_free &&
      !next->second.starts_piece) {
    EraseFree(next->first, next->second);
    block->second.chunks += next->second.chunks;
    blocks_.erase(next);
    block = blocks_.find(first);
  }
  if (!block->second.starts_piece && std::prev(block)->second.is_free) {
    const auto previous = std::prev(block);
    const uint64_t previous_first = previous->first;
    EraseFree(previous_first, previous->second);
    previous->second.chunks += block->second.chunks;
    blocks_.erase(block);
    block = blocks_.find(previous_first);
  }
  InsertFree(block->first, block->second);
}

void PrimitiveBlocks::Destroy(uint64_t first) {
  const auto block = blocks_.find(first);
  const uint64_t chunks = block->second.chunks;
  const auto next = std::next(block);
  if (next != blocks_.end()) next->second.starts_piece = true;
  blocks_.erase(block);
  addresses_.Give({first, chunks}, addresses_.Around(first));
  chunks_ -= chunks;
}

uint64_t PrimitiveBlocks::FreeChunksOf(uint32_t stream) const {
  const auto chunks = free_chunks_of_stream_.find(stream);
  return chunks == free_chunks_of_stream_.end() ? 0 : chunks->second;
}

}  // namespace firn::bench
