// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The stitched blocks of stitching: second address ranges over chunks of
// several primitive blocks. As GMLake's sBlocks.

#ifndef FIRN_BENCH_POLICIES_STITCHED_RANGES_H_
#define FIRN_BENCH_POLICIES_STITCHED_RANGES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/inlined_vector.h"
#include "bench/policies/driver_ledger.h"
#include "bench/policies/primitive_blocks.h"
#include "firn/core/placement/free_range_tree.h"

namespace firn::bench {

// Books of which range maps which chunks, and of how many of these are free: a
// range can be used again once all of its chunks are. Mapping and unmapping are
// charged to the ledger.
//
// Thread safety: none.
class StitchedRanges {
 public:
  using Range = uint32_t;

  // `ledger` must outlive the object.
  explicit StitchedRanges(DriverLedger* ledger);
  StitchedRanges(const StitchedRanges&) = delete;
  StitchedRanges& operator=(const StitchedRanges&) = delete;

  // A new range over `chunks`, all of them active, in use.
  Range Stitch(std::vector<uint64_t> chunks, uint32_t stream);
  // The smallest range of the stream of `least` to `most` chunks whose chunks
  // are all free.
  std::optional<Range> BestFit(uint64_t least, uint64_t most,
                               uint32_t stream) const;
  // Puts a free range to use for a block of its first `used_chunks`; the
  // caller takes these and tells.
  void Use(Range range, uint64_t used_chunks);
  // Ends the use.
  void Give(Range range);

  // What happened to primitive blocks. Chunks end only while they are free.
  void ChunksTaken(ChunkRun run);
  void ChunksGiven(ChunkRun run);
  void ChunksEnded(ChunkRun run);

  // Unmaps the ranges not in use that were used least recently, until no more
  // than `chunks` are mapped, or all that are left are in use.
  void ShrinkTo(uint64_t chunks);

  // Its address, in granules.
  uint64_t address(Range range) const { return entries_[range].address; }
  const std::vector<uint64_t>& chunks(Range range) const {
    return entries_[range].chunks;
  }
  uint64_t used_chunks(Range range) const {
    return entries_[range].used_chunks;
  }
  // Of all ranges.
  uint64_t mapped_chunks() const { return mapped_chunks_; }
  uint64_t count() const { return count_; }

 private:
  static constexpr Range kNone = ~Range{0};

  struct Entry {
    uint64_t address = 0;
    uint64_t address_chunks = 0;  // its length when it was made
    std::vector<uint64_t> chunks;
    uint64_t free_chunks = 0;
    uint64_t used_chunks = 0;  // 0: not in use
    uint32_t stream = 0;
    // Neighbours in the list of ranges not in use.
    Range older = kNone;
    Range newer = kNone;
  };

  struct Key {
    uint32_t stream = 0;
    Range range = 0;
    uint64_t chunks = 0;
    uint64_t address = 0;

    bool operator<(const Key& other) const {
      if (stream != other.stream) return stream < other.stream;
      if (chunks != other.chunks) return chunks < other.chunks;
      return address < other.address;
    }
  };

  Key KeyOf(Range range) const;
  bool IsReady(const Entry& entry) const;
  // Calls visit(range, chunks) for each range over some of the run's chunks,
  // once or more, with the number of these.
  template <typename Visitor>
  void VisitAliases(ChunkRun run, Visitor visit);
  void AppendNewest(Range range);
  void Unlink(Range range);
  void ForgetAlias(uint64_t chunk, Range range);
  void Remove(Range range);
  // Unmaps what a range in use does not need.
  void Truncate(Range range);

  DriverLedger* const ledger_;
  FreeRangeTree addresses_;  // in granules
  std::vector<Entry> entries_;
  std::vector<Range> unused_entries_;
  // By chunk: the ranges that map it, in order of their stitching.
  std::vector<absl::InlinedVector<Range, 2>> aliases_;
  // Ranges all of whose chunks are free.
  absl::btree_set<Key> ready_;
  Range oldest_ = kNone;
  Range newest_ = kNone;
  uint64_t mapped_chunks_ = 0;
  uint64_t count_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_STITCHED_RANGES_H_
