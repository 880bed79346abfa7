// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// GMLake: memory in chunks of one granule, each with a handle and a mapping of
// its own, and blocks larger than any free piece made by mapping chunks of
// several pieces a second time, side by side ("virtual memory stitching").
//
// Requests up to 1 MiB come from the small pool of the caching allocator, as in
// the original. Others are rounded to whole chunks and served by the first of
// these that can:
// 1. exact: a free primitive block, or a free stitched one, of that length;
// 2. single: the smallest larger primitive block, split; or the smallest larger
//    stitched one, if it is at most `reuse_limit` times as long;
// 3. multiple: free primitive blocks, from the largest down, the last one
//    split, stitched to one range;
// 4. new memory, together with what is free where that is not enough.
// Freeing a stitched block frees its chunks but keeps its mapping, for the next
// request of its length; when too much is mapped, the ranges least recently
// used are unmapped. On shortage free chunks of other streams and free segments
// of small blocks are given back.
//
// Used = granules with live bytes, small ones by segment; held = all; mapped
// address space counts each stitched range on top.

#ifndef FIRN_BENCH_POLICIES_STITCHING_POLICY_H_
#define FIRN_BENCH_POLICIES_STITCHING_POLICY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/caching_heap.h"
#include "bench/policies/driver_ledger.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "bench/policies/primitive_blocks.h"
#include "bench/policies/stitched_ranges.h"

namespace firn::bench {

// The defaults need the least memory, not the fewest driver calls.
struct StitchingOptions {
  // fragLimit: blocks of fewer bytes are not stitched. The original's default
  // is 512 MiB; with 0, a request never fails for want of one free piece.
  uint64_t least_stitched_bytes = 0;
  // reuseLimit: as the original's default.
  uint64_t reuse_limit = 10;
  // reAlloc: new memory only for what free blocks lack. Off in the original,
  // which also creates at least 20 MiB at a time; here it is always as much as
  // is needed.
  bool tops_up = true;
  // autoGC: stitched ranges not in use are unmapped while all of them map more
  // chunks than this, the original's default of 1000 GiB in chunks of 2 MiB, or
  // than 12.5 times the capacity, which that is of a device of 80 GiB.
  uint64_t most_stitched_chunks = 512000;
};

class StitchingPolicy : public Policy {
 public:
  explicit StitchingPolicy(const PolicyOptions& options,
                           const StitchingOptions& stitching = {});

  absl::string_view name() const override { return "stitching"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override;
  PolicyReport Report() override;

  // The chunks behind a block of more than 1 MiB, in order of address: who
  // holds what, for checks. None for other addresses.
  std::vector<uint64_t> ChunksOf(uint64_t address) const;
  uint64_t stitched_ranges() const { return ranges_.count(); }

 private:
  absl::StatusOr<uint64_t> AllocateSmall(uint64_t bytes, uint32_t stream);
  // The address of `chunks` chunks; none if the capacity does not allow it.
  std::optional<uint64_t> AllocateChunks(uint64_t chunks, uint32_t stream);
  // Of what is there, without stitching.
  std::optional<uint64_t> Reuse(uint64_t chunks, uint32_t stream);
  uint64_t UsePrimitive(ChunkRun run);
  uint64_t UseStitched(StitchedRanges::Range range, uint64_t chunks);
  // Stitches free blocks of the stream and `new_chunks` new ones.
  uint64_t Stitch(uint64_t chunks, uint64_t new_chunks, uint32_t stream);

  uint64_t held_granules() const;
  // Whether `granules` may be created, once free memory is given back where
  // the capacity demands it: not that of `kept_stream`, if there is one.
  bool MakeRoom(uint64_t granules, std::optional<uint32_t> kept_stream);
  void ReleaseChunks(uint64_t chunks, std::optional<uint32_t> kept_stream);

  const uint64_t granule_bytes_;
  const uint64_t capacity_granules_;
  const StitchingOptions options_;
  const uint64_t most_stitched_chunks_;
  DriverLedger ledger_;
  CachingHeap small_;
  PrimitiveBlocks primitives_;
  StitchedRanges ranges_;
  struct LiveBlock {
    uint64_t bytes = 0;  // requested
    std::optional<StitchedRanges::Range> range;
  };
  // By address, of blocks that are no small ones.
  absl::flat_hash_map<uint64_t, LiveBlock> blocks_;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_STITCHING_POLICY_H_
