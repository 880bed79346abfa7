// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/stitching_policy.h"

#include <algorithm>
#include <utility>

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"

namespace firn::bench {
namespace {

// Where addresses of small blocks and of stitched ranges start; those of
// primitive blocks lie below.
constexpr uint64_t kSmallBase = uint64_t{1} << 60;
constexpr uint64_t kStitchedBase = uint64_t{1} << 61;

}  // namespace

StitchingPolicy::StitchingPolicy(const PolicyOptions& options,
                                 const StitchingOptions& stitching)
    : granule_bytes_(options.granule_bytes),
      // Bounded so that addresses suffice.
      capacity_granules_(
          std::min(options.capacity_bytes, kLargestRequestBytes) /
          options.granule_bytes),
      options_(stitching),
      most_stitched_chunks_(std::min(stitching.most_stitched_chunks,
                                     capacity_granules_ * 25 / 2)),
      ledger_(options.cost),
      small_(kSmallBase, options.granule_bytes, CachingOptions(), &ledger_),
      ranges_(&ledger_) {}

absl::StatusOr<uint64_t> StitchingPolicy::Allocate(uint64_t bytes,
                                                   uint32_t stream) {
  if (bytes <= kLargestSmallBlockBytes) return AllocateSmall(bytes, stream);
  if (bytes > kLargestRequestBytes) return NoRoom();
  const std::optional<uint64_t> address =
      AllocateChunks(DivideUp(bytes, granule_bytes_), stream);
  if (!address) return NoRoom();
  blocks_[*address].bytes = bytes;
  live_bytes_ += bytes;
  return *address;
}

absl::StatusOr<uint64_t> StitchingPolicy::AllocateSmall(uint64_t bytes,
                                                        uint32_t stream) {
  if (const std::optional<uint64_t> cached = small_.Reuse(bytes, stream)) {
    return *cached;
  }
  if (!MakeRoom(small_.SegmentGranules(bytes), std::nullopt)) return NoRoom();
  return small_.Open(bytes, stream);
}

std::optional<uint64_t> StitchingPolicy::AllocateChunks(uint64_t chunks,
                                                        uint32_t stream) {
  if (const auto address = Reuse(chunks, stream)) return address;
  const uint64_t free_chunks = primitives_.FreeChunksOf(stream);
  const bool may_stitch =
      chunks > 1 && chunks * granule_bytes_ >= options_.least_stitched_bytes;
  if (may_stitch && free_chunks >= chunks) return Stitch(chunks, 0, stream);
  if (may_stitch && options_.tops_up && free_chunks != 0) {
    const uint64_t new_chunks = chunks - free_chunks;
    if (!MakeRoom(new_chunks, stream)) return std::nullopt;
    return Stitch(chunks, new_chunks, stream);
  }
  if (!MakeRoom(chunks, std::nullopt)) return std::nullopt;
  ledger_.ChargeNewRun(chunks);
  return UsePrimitive(primitives_.Create(chunks, stream));
}

std::optional<uint64_t> StitchingPolicy::Reuse(uint64_t chunks,
                                               uint32_t stream) {
  std::optional<ChunkRun> run = primitives_.BestFit(chunks, stream);
  if (!run || run->chunks != chunks) {
    if (const auto range = ranges_.BestFit(chunks, chunks, stream)) {
      return UseStitched(*range, chunks);
    }
  }
  if (run) {
    run->chunks = chunks;
    primitives_.Take(*run);
    ranges_.ChunksTaken(*run);
    return UsePrimitive(*run);
  }
  if (const auto range =
          ranges_.BestFit(chunks, chunks * options_.reuse_limit, stream)) {
    return UseStitched(*range, chunks);
  }
  return std::nullopt;
}

uint64_t StitchingPolicy::UsePrimitive(ChunkRun run) {
  const uint64_t address = run.first * granule_bytes_;
  blocks_.emplace(address, LiveBlock());
  return address;
}

uint64_t StitchingPolicy::UseStitched(StitchedRanges::Range range,
                                      uint64_t chunks) {
  ranges_.Use(range, chunks);
  const std::vector<uint64_t>& of_range = ranges_.chunks(range);
  for (uint64_t i = 0; i < chunks;) {
    // Adjacent chunks of one primitive block are one active block of it.
    ChunkRun run{of_range[i], 1};
    while (i + run.chunks < chunks && of_range[i + run.chunks] == run.end()) {
      ++run.chunks;
    }
    run = primitives_.Take(run);
    ranges_.ChunksTaken(run);
    i += run.chunks;
  }
  const uint64_t address =
      kStitchedBase + ranges_.address(range) * granule_bytes_;
  blocks_[address].range = range;
  return address;
}

uint64_t StitchingPolicy::Stitch(uint64_t chunks, uint64_t new_chunks,
                                 uint32_t stream) {
  std::vector<uint64_t> stitched;
  stitched.reserve(chunks);
  const auto append = [&](ChunkRun run) {
    for (uint64_t i = 0; i < run.chunks; ++i) stitched.push_back(run.first + i);
  };
  while (stitched.size() < chunks - new_chunks) {
    ChunkRun run = primitives_.Largest(stream);
    run.chunks = std::min(run.chunks, chunks - new_chunks - stitched.size());
    primitives_.Take(run);
    ranges_.ChunksTaken(run);
    append(run);
  }
  if (new_chunks != 0) {
    ledger_.ChargeNewRun(new_chunks);
    append(primitives_.Create(new_chunks, stream));
  }
  const StitchedRanges::Range range =
      ranges_.Stitch(std::move(stitched), stream);
  ranges_.ShrinkTo(most_stitched_chunks_);
  const uint64_t address =
      kStitchedBase + ranges_.address(range) * granule_bytes_;
  blocks_[address].range = range;
  return address;
}

absl::Status StitchingPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) {
    return small_.Free(address) ? absl::OkStatus() : NotABlock(address);
  }
  const auto give = [this](uint64_t first) {
    const ChunkRun run = *primitives_.ActiveAt(first);
    primitives_.Give(first);
    ranges_.ChunksGiven(run);
    return run.chunks;
  };
  if (block->second.range) {
    const StitchedRanges::Range range = *block->second.range;
    const uint64_t used_chunks = ranges_.used_chunks(range);
    ranges_.Give(range);
    for (uint64_t i = 0; i < used_chunks;) i += give(ranges_.chunks(range)[i]);
  } else {
    give(address / granule_bytes_);
  }
  live_bytes_ -= block->second.bytes;
  blocks_.erase(block);
  return absl::OkStatus();
}

uint64_t StitchingPolicy::held_granules() const {
  return primitives_.chunks() + small_.held_granules();
}

bool StitchingPolicy::MakeRoom(uint64_t granules,
                               std::optional<uint32_t> kept_stream) {
  const uint64_t room = capacity_granules_ - held_granules();
  if (granules <= room) return true;
  const uint64_t lacking = granules - room;
  // Segments without a live block.
  const uint64_t cached_granules =
      small_.held_granules() - small_.used_granules();
  uint64_t free_chunks = primitives_.free_chunks();
  if (kept_stream) free_chunks -= primitives_.FreeChunksOf(*kept_stream);
  if (lacking > cached_granules + free_chunks) return false;
  small_.ReleaseCached(lacking);
  if (lacking > cached_granules) {
    ReleaseChunks(lacking - cached_granules, kept_stream);
  }
  return true;
}

void StitchingPolicy::ReleaseChunks(uint64_t chunks,
                                    std::optional<uint32_t> kept_stream) {
  while (chunks != 0) {
    ChunkRun run = primitives_.AnyFree(kept_stream);
    run.chunks = std::min(run.chunks, chunks);
    // Second mappings go first: memory that is mapped is not given back.
    ranges_.ChunksEnded(run);
    primitives_.Take(run);
    primitives_.Destroy(run.first);
    ledger_.ChargeRelease(run.chunks);
    chunks -= run.chunks;
  }
}

PolicyUsage StitchingPolicy::usage() const {
  const uint64_t used_granules =
      primitives_.chunks() - primitives_.free_chunks() + small_.used_granules();
  return {used_granules * granule_bytes_, held_granules() * granule_bytes_,
          held_granules() + ranges_.mapped_chunks()};
}

PolicyReport StitchingPolicy::Report() {
  return ledger_.Report(live_bytes_ + small_.live_bytes(), granule_bytes_);
}

std::vector<uint64_t> StitchingPolicy::ChunksOf(uint64_t address) const {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return {};
  std::vector<uint64_t> chunks;
  if (const auto& range = block->second.range) {
    chunks = ranges_.chunks(*range);
    chunks.resize(ranges_.used_chunks(*range));
    return chunks;
  }
  const ChunkRun run = *primitives_.ActiveAt(address / granule_bytes_);
  for (uint64_t i = 0; i < run.chunks; ++i) chunks.push_back(run.first + i);
  return chunks;
}

}  // namespace firn::bench
