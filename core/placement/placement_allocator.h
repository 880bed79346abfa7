// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks of any number of quanta, where a classical structure puts them.

#ifndef FIRN_CORE_PLACEMENT_PLACEMENT_ALLOCATOR_H_
#define FIRN_CORE_PLACEMENT_PLACEMENT_ALLOCATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/placement.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/vmm/units.h"

namespace firn {

// The structure has virtual granules that are mapped, each alone on its
// granule: open ones. Those of them with nothing live stay in it, and can be
// taken for their granules at any time. What shares its granule with others,
// because a pass has merged them, is closed: nothing new comes to it until all
// that is live there has been freed. Its window is what is live.
//
// All of a block's extent counts as live, what the structure rounds up to
// included.
//
// Thread safety: none; guarded by its owner.
class PlacementAllocator {
 public:
  // Does not own `backing`, which must outlive it.
  PlacementAllocator(Backing* backing, std::unique_ptr<Placement> structure);
  ~PlacementAllocator();
  PlacementAllocator(const PlacementAllocator&) = delete;
  PlacementAllocator& operator=(const PlacementAllocator&) = delete;

  // First where the structure has room, without a driver call; else it is given
  // addresses, with granules from the cache, the driver and wherever nothing is
  // live. ResourceExhausted if there are too few; after any failure nothing has
  // changed, but for granules that are mapped now and hold nothing.
  absl::StatusOr<BlockStart> Allocate(uint64_t quanta,
                                      uint64_t alignment_quanta,
                                      uint64_t requested_bytes);
  // The requested bytes of the live block that starts there; 0 if none does.
  uint64_t RequestedBytes(BlockStart start) const;
  // Such a block is live no more, but keeps its place until it is freed: its
  // requested bytes.
  uint64_t SetPending(BlockStart start);
  // A pending block is handed out again, or its free has failed.
  void SetLive(BlockStart start, uint64_t requested_bytes);
  // Frees a block, whatever its state. No work uses it, or may use it only
  // before what uses its memory next.
  void Free(BlockStart start);

  // Virtual granules that the block which starts there has a part of.
  VgRange RangeOf(BlockStart start) const;
  // How many granules an allocation takes at most.
  uint32_t GranulesFor(uint64_t quanta, uint64_t alignment_quanta) const;

  // Appends what is live on a virtual granule, sorted and merged.
  void AppendLiveExtents(VgIndex vg,
                         std::vector<OffsetInterval>* extents) const;
  uint32_t LiveQuanta(VgIndex vg) const;

  struct PlacedBlock {
    BlockStart start;
    uint64_t quanta = 0;           // that it takes up
    uint64_t requested_bytes = 0;  // 0 unless it is live
  };
  // Calls `visit` with each block; with each of which a part is on `vg`, in
  // order of their addresses.
  using Visit = absl::FunctionRef<void(const PlacedBlock&)>;
  void ForEachBlock(Visit visit) const;
  void ForEachBlockOn(VgIndex vg, Visit visit) const;

  // Nothing new comes to virtual granules on `granule` until they are empty.
  void CloseAllOn(GranuleId granule);

  absl::Status CheckInvariants() const;

 private:
  struct Block {
    uint64_t quanta = 0;
    uint64_t requested_bytes = 0;  // 0 unless it is live
  };
  struct VgState {
    uint32_t live_quanta = 0;
    bool is_open = false;
  };
  using Blocks = absl::btree_map<uint64_t, Block>;  // by first quantum

  uint64_t FirstQuantum(VgIndex vg) const {
    return uint64_t{vg.value()} * books_->quanta_per_granule();
  }
  uint64_t QuantumOf(BlockStart start) const {
    return FirstQuantum(start.vg) + start.offset_quanta;
  }
  BlockStart StartOf(uint64_t quantum) const;
  PlacedBlock PlacedAt(Blocks::const_iterator block) const;
  // The first block that reaches beyond the first quantum of `vg`.
  Blocks::const_iterator FirstOn(VgIndex vg) const;
  // The structure's addresses: multiples of what is asked for are such of the
  // device's.
  FreeRange AddressesOf(VgRange vgs) const;
  FreeRange AddressesOf(uint64_t first_quantum, uint64_t quanta) const;
  uint64_t QuantumAt(uint64_t address) const;
  VgRange VgsOf(uint64_t first_quantum, uint64_t quanta) const;
  // Calls `visit` with each virtual granule of the extent, and the part of it.
  template <typename Call>
  void ForEachPart(uint64_t first_quantum, uint64_t quanta, Call call) const;

  // Gives the structure room for such a request.
  absl::Status Grow(uint64_t bytes, uint64_t alignment_bytes);
  std::optional<VgRange> FindAddresses(uint32_t vgs,
                                       uint64_t alignment_bytes) const;
  // The virtual granule is the structure's no more.
  void Close(VgIndex vg);

  Backing* const backing_;
  GranuleBooks* const books_;
  const std::unique_ptr<Placement> structure_;
  const uint64_t granule_bytes_;
  const uint64_t base_bytes_;  // the structure's address of the first quantum
  Blocks blocks_;
  absl::flat_hash_map<VgIndex, VgState>
      vgs_;  // open ones, and with live quanta
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_PLACEMENT_ALLOCATOR_H_
