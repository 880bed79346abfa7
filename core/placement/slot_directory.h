// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What each slot of a window holds, found from an address by arithmetic: one
// word a slot, which threads read and change without the pool's lock.

#ifndef FIRN_CORE_PLACEMENT_SLOT_DIRECTORY_H_
#define FIRN_CORE_PLACEMENT_SLOT_DIRECTORY_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "firn/vmm/units.h"

namespace firn {

enum class BlockState : uint8_t {
  kNone,    // no block
  kLive,    // handed out
  kParked,  // freed, kept ready by a thread's cache (core/block_caches.h)
  kPending  // freed, its stream is not done with it
};

// A slot's contents: the state in the low bits, the requested bytes above.
using SlotCell = std::atomic<uint64_t>;
constexpr uint64_t MakeSlotWord(BlockState state, uint64_t requested_bytes) {
  return (requested_bytes << 8) | static_cast<uint64_t>(state);
}
constexpr BlockState StateOf(uint64_t word) {
  return static_cast<BlockState>(word & 0xFF);
}
constexpr uint64_t RequestedBytesOf(uint64_t word) { return word >> 8; }

// Where the slots of a window are.
struct SlotGrid {
  uint32_t size_class = 0;
  uint32_t lo_quanta = 0;
  uint32_t slots = 0;
};

// Thread safety: Find may be called from any thread at any time; what it says
// of an address that no live block starts at may be out of date. The rest is
// guarded by its owner.
class SlotDirectory {
 public:
  // Slots of class i are `slot_quanta[i]` apart; those of one class more are
  // alone in their windows. Granules have at most 2^20 quanta.
  SlotDirectory(uint32_t vg_count, absl::Span<const uint32_t> slot_quanta);
  SlotDirectory(const SlotDirectory&) = delete;
  SlotDirectory& operator=(const SlotDirectory&) = delete;

  // The slots of a window on `vg`, all kNone: cell i is slot i's.
  SlotCell* Open(VgIndex vg, const SlotGrid& grid);
  // All of them are kNone again.
  void Close(VgIndex vg);

  struct Slot {
    SlotCell* cell = nullptr;  // null: no slot starts there
    uint32_t size_class = 0;
  };
  Slot Find(VgIndex vg, uint32_t offset_quanta) const {
    Slot slot;
    SlotCell* const table = tables_[vg.value()].load(std::memory_order_acquire);
    if (table == nullptr) return slot;
    // One word, so that of a table that is being used again all is read at
    // once.
    const SlotGrid grid = Unpack(table[0].load(std::memory_order_relaxed));
    const uint32_t distance = offset_quanta - grid.lo_quanta;
    const Divisor& divisor = divisors_[grid.size_class];
    const uint32_t index = static_cast<uint32_t>(
        uint64_t{distance} * divisor.reciprocal >> kReciprocalBits);
    if (index >= grid.slots || index * divisor.slot_quanta != distance) {
      return slot;
    }
    slot.cell = &table[1 + index];
    slot.size_class = grid.size_class;
    return slot;
  }

 private:
  static constexpr int kFieldBits = 21;
  // With distance and slot_quanta below 2^20, rounding the reciprocal up errs
  // by less than distance * 2^-40 < 1 / slot_quanta. A distance below 0 wraps
  // to 2^31 and more: far beyond the last slot.
  static constexpr int kReciprocalBits = 40;

  struct Divisor {
    uint64_t reciprocal = 0;
    uint32_t slot_quanta = 0;
  };

  static uint64_t Pack(const SlotGrid& grid) {
    return uint64_t{grid.size_class} << (2 * kFieldBits) |
           uint64_t{grid.lo_quanta} << kFieldBits | grid.slots;
  }
  static SlotGrid Unpack(uint64_t word) {
    constexpr uint64_t kMask = (uint64_t{1} << kFieldBits) - 1;
    SlotGrid grid;
    grid.size_class = static_cast<uint32_t>(word >> (2 * kFieldBits));
    grid.lo_quanta = static_cast<uint32_t>(word >> kFieldBits & kMask);
    grid.slots = static_cast<uint32_t>(word & kMask);
    return grid;
  }

  // By VG: the grid, packed, then the cells.
  std::vector<std::atomic<SlotCell*>> tables_;
  std::vector<Divisor> divisors_;  // by size class
  // A table lives as long as the directory, as an address may be looked up
  // while its window goes; it is used again for as many slots, rounded up to a
  // power of two.
  std::vector<std::unique_ptr<SlotCell[]>> all_tables_;
  std::array<std::vector<SlotCell*>, kFieldBits> unused_tables_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SLOT_DIRECTORY_H_
