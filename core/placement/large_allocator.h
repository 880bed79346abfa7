// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks of a granule and more: whole granules side by side, and a remainder
// at the tail or the head that shares its granule with others.

#ifndef FIRN_CORE_PLACEMENT_LARGE_ALLOCATOR_H_
#define FIRN_CORE_PLACEMENT_LARGE_ALLOCATOR_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/low_discrepancy.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/vmm/units.h"

namespace firn {

// Thread safety: none; guarded by its owner.
class LargeAllocator {
 public:
  // Does not own `backing`, which must outlive it.
  explicit LargeAllocator(Backing* backing);

  // `quanta` is a granule or more. First a run of mapped empty granules that
  // is long enough, without a driver call; else addresses anywhere, with
  // granules from the cache, the driver and wherever nothing is live. An
  // alignment above 1 quantum keeps the remainder at the tail. With
  // Effort::kScattered the remainder may lie under the windows of others.
  // ResourceExhausted if there are too few granules; after any failure nothing
  // has changed.
  absl::StatusOr<BlockStart> Allocate(uint64_t quanta,
                                      uint64_t alignment_quanta,
                                      uint64_t requested_bytes, Effort effort);
  // The requested bytes of the live block that starts at `start`, whose
  // virtual granule belongs to a large block; 0 if none starts there.
  uint64_t RequestedBytes(BlockStart start) const;
  // The live block that starts at `start`, as RequestedBytes has found, is live
  // no more, but keeps its place until it is parked: its requested bytes.
  uint64_t SetPending(BlockStart start);
  // The block is live again: its free has failed.
  void SetLive(BlockStart start, uint64_t requested_bytes);
  // Frees a block. It is parked: it stays as it is, mapped, and counts as free;
  // TakeParked gives it to the next request of its extent. The oldest parked
  // block may be dissolved for it: returns the granule that the remainder of
  // that one lay on, if it had one.
  GranuleId Park(BlockStart start);
  std::optional<BlockStart> TakeParked(uint64_t quanta,
                                       uint64_t alignment_quanta,
                                       uint64_t requested_bytes);
  // Unmaps a block of whole granules that is live no more and gives up its
  // place: its granules go back to the store. No work uses it. On failure it is
  // as it was.
  absl::Status Unmap(BlockStart start);
  bool has_parked() const { return parked_count_ > 0; }
  // Makes empty runs of all parked blocks, still mapped: before anybody looks
  // for free granules, and before live memory moves. Appends the granules that
  // remainders lay on to `shared`.
  void DissolveParked(std::vector<GranuleId>* shared);

  // Calls `visit` with the requested bytes of each block, 0 unless it is live,
  // and with what it takes up. Nothing is parked.
  void ForEachBlock(
      absl::FunctionRef<void(uint64_t requested_bytes, uint64_t quanta)> visit)
      const;

  // Virtual granules of the block that owns `vg`.
  VgRange RangeOf(VgIndex vg) const;

  // Where the block that owns `vg` lies, and what it is.
  struct Placed {
    VgRange range;
    BlockStart start;
    uint64_t quanta = 0;           // that it takes up, from its start on
    uint64_t requested_bytes = 0;  // 0 unless it is live
    bool is_parked = false;
  };
  Placed PlacedAt(VgIndex vg) const;

  // How many granules an allocation of `quanta` takes at most.
  uint32_t GranulesFor(uint64_t quanta) const;

  absl::Status CheckInvariants() const;

 private:
  // Few enough to be looked through in nanoseconds.
  static constexpr uint32_t kMostParked = 16;

  struct Block {
    VgRange range;
    uint32_t remainder_quanta = 0;  // 0: whole granules only
    bool remainder_first = false;   // at the head of the block
    bool is_used = false;           // the record is of a block
    uint64_t requested_bytes = 0;   // 0 unless it is live
    uint32_t interiors() const {
      return range.count - (remainder_quanta > 0 ? 1 : 0);
    }
  };
  // What a request is made of.
  struct Shape {
    uint32_t interiors = 0;
    uint32_t remainder_quanta = 0;
    bool tail_only = false;
    uint32_t vgs() const { return interiors + (remainder_quanta > 0 ? 1 : 0); }
  };
  // Where a block goes.
  struct Site {
    VgRange range;
    bool remainder_first = false;
    GranuleId host;  // of the remainder; none: a granule of its own
  };

  Shape ShapeOf(uint64_t quanta, uint64_t alignment_quanta) const;
  OffsetInterval RemainderInterval(uint32_t quanta, bool first) const;
  VgIndex RemainderVg(const Block& block) const;
  // Whether the remainder is to share the granule of others now, at the price
  // of a driver call: memory is running out, and much of what is left lies in
  // pieces. Until then it takes a granule of its own and offers the rest.
  bool IsTimeToShare(const Shape& shape) const;
  // A site that needs no driver call; with `share` none where the remainder
  // would be alone.
  std::optional<Site> FindMapped(const Shape& shape, bool share);
  bool IsFreeSpare(VgIndex vg, OffsetInterval interval) const;
  // Addresses to be filled with granules.
  std::optional<VgRange> FindAddresses(uint32_t vgs,
                                       uint64_t alignment_granules) const;
  // Addresses around empty runs for whole granules with a remainder that has
  // a host: the fewer of them are mapped in vain the better.
  std::optional<VgRange> FindAddressesToShare(const Shape& shape,
                                              bool remainder_first) const;
  VgRange ExtendThroughFree(VgRange run, uint32_t wanted) const;
  // Gives the remainder a host, or decides on which side it stands alone.
  void ChooseHost(const Shape& shape, Effort effort, Site* site);
  // Maps what is missing in the site.
  absl::Status FillSite(const Site& site, const Shape& shape);
  // Makes empty runs of what was mapped, but will not be used.
  void LeaveEmpty(VgRange range);
  BlockStart Commit(const Site& site, const Shape& shape,
                    uint64_t requested_bytes);
  uint32_t AddBlock(const Block& block);
  // A block leaves the parked ones.
  void RemoveParked(uint32_t position);
  // Makes an empty run of a block's granules. Returns the granule that its
  // remainder lay on, none if it had none.
  GranuleId Dissolve(uint32_t index);
  BlockStart StartOf(const Block& block) const;

  Backing* const backing_;
  GranuleBooks* const books_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> unused_blocks_;
  // Parked blocks, oldest first.
  std::array<uint32_t, kMostParked> parked_;
  uint32_t parked_count_ = 0;
  LowDiscrepancySequence sides_{LowDiscrepancySequence::kGoldenRatio};
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_LARGE_ALLOCATOR_H_
