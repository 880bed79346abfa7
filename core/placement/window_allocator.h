// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks smaller than a granule, in windows: intervals of offsets that one
// virtual granule may use of its granule.

#ifndef FIRN_CORE_PLACEMENT_WINDOW_ALLOCATOR_H_
#define FIRN_CORE_PLACEMENT_WINDOW_ALLOCATOR_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/low_discrepancy.h"
#include "firn/core/placement/size_classes.h"
#include "firn/core/placement/slot_directory.h"
#include "firn/vmm/units.h"

namespace firn {

// A block by where it starts.
struct BlockStart {
  VgIndex vg;
  uint32_t offset_quanta = 0;
};

// How far a search may go.
enum class Effort {
  // Whole windows only, in gaps between windows or on free granules.
  kOrdinary,
  // Before failing: smaller windows in any gap, and single slots in holes under
  // the windows of others.
  kScattered,
};

// Thread safety: none; guarded by its owner.
class WindowAllocator {
 public:
  // Owns none of its arguments, which must outlive it. The directory is that of
  // all arenas.
  WindowAllocator(Backing* backing, const SizeClasses* classes,
                  SlotDirectory* directory);

  // `quanta` is below a granule. Threads of different `rank` get slots that lie
  // apart. ResourceExhausted if nothing fits; then, as after a failing driver
  // call, nothing has changed.
  absl::StatusOr<BlockStart> Allocate(uint32_t quanta,
                                      uint32_t alignment_quanta,
                                      uint64_t requested_bytes, uint32_t rank,
                                      Effort effort);
  // The requested bytes of the live block that starts at `start`, whose
  // virtual granule is a window; 0 if no live block starts there.
  uint64_t RequestedBytes(BlockStart start) const;
  // Such a block is live no more, but keeps its place until it is freed: its
  // requested bytes; 0, and nothing has changed, if no live block starts there,
  // as of two threads that free a block one comes too late.
  uint64_t SetPending(BlockStart start);
  // A live block is marked, so that it is freed behind the owner's lock: false
  // if it is not live.
  bool Mark(BlockStart start);
  // A pending block is handed out again.
  void SetLive(BlockStart start, uint64_t requested_bytes);
  // Frees a block, whatever its state.
  void Free(BlockStart start);

  // Takes up to `count` free slots of a size class, parked ones, from windows
  // that there are. Appends them to `blocks`.
  void TakeParked(uint32_t size_class, uint32_t count, uint32_t rank,
                  std::vector<BlockStart>* blocks);

  // What a request is placed as: the extent of its slot, and where it may
  // start.
  struct Shape {
    uint32_t size_class = 0;  // SizeClasses::count(): a window of its own
    uint32_t quanta = 0;
    uint32_t alignment_quanta = 1;
  };
  Shape ShapeOf(uint32_t quanta, uint32_t alignment_quanta) const;

  // Live bytes have left `granule`: they may have been in the way of windows.
  void UnblockAll(GranuleId granule);

  // Appends the live extents of a window, sorted and merged.
  void AppendLiveExtents(uint32_t window,
                         std::vector<OffsetInterval>* extents) const;
  uint32_t LiveQuanta(uint32_t window) const {
    return windows_[window].live * windows_[window].slot_quanta;
  }
  // Calls `visit` with the contents of each slot of any window that is not
  // free, and with what the slot takes up.
  void ForEachBlock(
      absl::FunctionRef<void(const SlotContents&, uint32_t quanta)> visit)
      const;
  // The window's virtual granule is about to get another granule, with other
  // neighbours: what blocked its slots no longer counts.
  void PrepareMove(uint32_t window);

  absl::Status CheckInvariants() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Window {
    VgIndex vg;
    uint32_t size_class = kNone;  // none: a single block of its own size
    uint32_t slot_quanta = 0;
    uint32_t slots = 0;
    uint32_t live = 0;
    uint32_t first_slot = 0;  // where searches start
    bool blocked = false;     // free slots, all under live bytes of others
    uint32_t next = kNone;    // in its class's list of equal free counts
    uint32_t previous = kNone;
    std::vector<uint64_t> live_slots;  // bitmap: live, parked or pending
    SlotDirectory::Cells cells;        // by slot
  };
  // Windows of a class with free slots, by number of free slots.
  struct ClassList {
    std::vector<uint32_t> heads;     // by free slots
    std::vector<uint64_t> occupied;  // bitmap over heads
    uint32_t windows = 0;
    bool grown = false;
    LowDiscrepancySequence first_slots{LowDiscrepancySequence::kRootOfTwo};
  };

  absl::StatusOr<BlockStart> AllocateSlot(uint32_t size_class,
                                          uint64_t requested_bytes,
                                          uint32_t rank, Effort effort);
  // A new window in a gap, or on an empty granule.
  absl::StatusOr<uint32_t> NewWindow(uint32_t size_class, uint32_t slot_quanta,
                                     uint32_t slots, uint32_t alignment_quanta,
                                     bool use_empty_granule);
  absl::StatusOr<uint32_t> NewWindowInHole(uint32_t size_class,
                                           uint32_t slot_quanta,
                                           uint32_t alignment_quanta);
  uint32_t AddWindow(VgIndex vg, OffsetInterval interval, uint32_t size_class,
                     uint32_t slot_quanta, uint32_t slots);
  void RemoveWindow(uint32_t index);

  // A slot of the window that is free and not under another's live bytes.
  uint32_t FindSlot(const Window& window, uint32_t rank) const;
  BlockStart TakeSlot(uint32_t index, uint32_t slot, BlockState state,
                      uint64_t requested_bytes);
  SlotContents ContentsOf(const Window& window, uint32_t slot) const;
  OffsetInterval SlotInterval(const Window& window, uint32_t slot) const;
  uint32_t SlotAt(const Window& window, uint32_t offset_quanta) const;

  void Link(uint32_t index);
  void Unlink(uint32_t index);
  uint32_t FirstWithFewestFree(const ClassList& list) const;
  void Block(uint32_t index);

  Backing* const backing_;
  GranuleBooks* const books_;
  const SizeClasses& classes_;
  SlotDirectory& directory_;
  std::vector<ClassList> lists_;  // by size class
  std::vector<Window> windows_;
  std::vector<uint32_t> unused_windows_;
  LowDiscrepancySequence first_stripes_{LowDiscrepancySequence::kGoldenRatio};
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_WINDOW_ALLOCATOR_H_
