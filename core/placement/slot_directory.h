// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What each slot of a window holds, found from an address by arithmetic: one
// word a slot, which threads read and change without the pool's lock.

#ifndef FIRN_CORE_PLACEMENT_SLOT_DIRECTORY_H_
#define FIRN_CORE_PLACEMENT_SLOT_DIRECTORY_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "firn/core/placement/cell_store.h"
#include "firn/vmm/units.h"

namespace firn {

enum class BlockState : uint8_t {
  kNone,    // no block
  kLive,    // handed out
  kMarked,  // likewise, with something on record that its free must heed
  kParked,  // freed, kept ready by a thread's cache (core/block_caches.h)
  kPending  // freed, its stream is not done with it
};

// A slot's contents. The epoch is its window's: a word of an earlier window,
// whose memory is used again, is told from one of the window that was looked
// up.
struct SlotContents {
  BlockState state = BlockState::kNone;
  uint64_t requested_bytes = 0;  // below 2^27
  uint32_t epoch = 0;            // below 2^kEpochBits
};

inline constexpr int kEpochBits = 22;
constexpr uint64_t PackSlot(const SlotContents& contents) {
  return contents.requested_bytes << 27 | uint64_t{contents.epoch} << 4 |
         static_cast<uint64_t>(contents.state);
}
constexpr SlotContents UnpackSlot(uint64_t word) {
  SlotContents contents;
  contents.state = static_cast<BlockState>(word & 0xF);
  contents.epoch =
      static_cast<uint32_t>(word >> 4 & ((uint64_t{1} << kEpochBits) - 1));
  contents.requested_bytes = word >> 27;
  return contents;
}
// Gives the slot another state, and returns the rest; nothing, and nothing has
// changed, where `from` is not its state, or the window another.
inline std::optional<SlotContents> ChangeState(SlotCell* cell, BlockState from,
                                               BlockState to, uint32_t epoch) {
  uint64_t word = cell->load(std::memory_order_relaxed);
  while (true) {
    SlotContents contents = UnpackSlot(word);
    if (contents.state != from || contents.epoch != epoch) return std::nullopt;
    contents.state = to;
    if (cell->compare_exchange_weak(word, PackSlot(contents),
                                    std::memory_order_relaxed)) {
      return contents;
    }
  }
}

// Where the slots of a window are.
struct SlotGrid {
  uint32_t size_class = 0;  // below 2^8
  uint32_t lo_quanta = 0;   // below 2^18
  uint32_t slots = 0;       // below 2^16
  uint32_t epoch = 0;       // chosen by the directory
};

// Thread safety: Find may be called from any thread at any time; what it says
// of an address that no live block starts at may be out of date. The rest is
// guarded by its owner.
class SlotDirectory {
 public:
  // Slots of class i are `slot_quanta[i]` apart; those of one class more are
  // alone in their windows. Granules have at most 2^17 quanta.
  SlotDirectory(uint32_t vg_count, absl::Span<const uint32_t> slot_quanta);
  SlotDirectory(const SlotDirectory&) = delete;
  SlotDirectory& operator=(const SlotDirectory&) = delete;

  // The slots of a window on `vg`.
  struct Cells {
    SlotCell* first = nullptr;  // slot i's is `first[i]`; not of this epoch yet
    uint32_t epoch = 0;
  };
  Cells Open(VgIndex vg, const SlotGrid& grid);
  // All of them are kNone again.
  void Close(VgIndex vg);

  struct Slot {
    SlotCell* cell = nullptr;  // null: no slot starts there
    uint32_t size_class = 0;
    uint32_t epoch = 0;
  };
  Slot Find(VgIndex vg, uint32_t offset_quanta) const {
    Slot slot;
    const Entry& entry = entries_[vg.value()];
    // The same grid, with its epoch, before and after: the cells are its.
    const uint64_t word = entry.grid.load(std::memory_order_acquire);
    SlotCell* const cells = entry.cells.load(std::memory_order_acquire);
    if (word == 0 || entry.grid.load(std::memory_order_relaxed) != word) {
      return slot;
    }
    const SlotGrid grid = Unpack(word);
    const uint32_t distance = offset_quanta - grid.lo_quanta;
    const Divisor& divisor = divisors_[grid.size_class];
    const uint32_t index = static_cast<uint32_t>(
        uint64_t{distance} * divisor.reciprocal >> kReciprocalBits);
    if (index >= grid.slots || index * divisor.slot_quanta != distance) {
      return slot;
    }
    slot.cell = &cells[index];
    // It is changed next, if anything: among many it is far away.
    __builtin_prefetch(slot.cell, /*rw=*/1);
    slot.size_class = grid.size_class;
    slot.epoch = grid.epoch;
    return slot;
  }

 private:
  // With distance and slot_quanta up to 2^17, rounding the reciprocal up errs
  // by less than distance * 2^-40 < 1 / slot_quanta. A distance below 0 wraps
  // to 2^31 and more: far beyond the last slot.
  static constexpr int kReciprocalBits = 40;
  static constexpr int kClassBits = 8;
  static constexpr int kLoBits = 18;
  static constexpr int kSlotsBits = 16;
  static_assert(kClassBits + kLoBits + kSlotsBits + kEpochBits == 64);

  struct Divisor {
    uint64_t reciprocal = 0;
    uint32_t slot_quanta = 0;
  };

  static uint64_t Pack(const SlotGrid& grid) {
    uint64_t word = grid.epoch;
    word = word << kClassBits | grid.size_class;
    word = word << kLoBits | grid.lo_quanta;
    return word << kSlotsBits | grid.slots;
  }
  static SlotGrid Unpack(uint64_t word) {
    const auto field = [&word](int bits) {
      const uint32_t value =
          static_cast<uint32_t>(word & ((uint64_t{1} << bits) - 1));
      word >>= bits;
      return value;
    };
    SlotGrid grid;
    grid.slots = field(kSlotsBits);
    grid.lo_quanta = field(kLoBits);
    grid.size_class = field(kClassBits);
    grid.epoch = static_cast<uint32_t>(word);
    return grid;
  }

  struct Entry {
    std::atomic<uint64_t> grid{0};  // packed; 0: no window
    std::atomic<SlotCell*> cells{nullptr};
  };

  std::vector<Entry> entries_;     // by VG
  std::vector<Divisor> divisors_;  // by size class
  // An address may be looked up while its window goes.
  CellStore cells_;
  uint32_t last_epoch_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SLOT_DIRECTORY_H_
