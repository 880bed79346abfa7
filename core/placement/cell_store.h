// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the words of slots are kept (core/placement/slot_directory.h).

#ifndef FIRN_CORE_PLACEMENT_CELL_STORE_H_
#define FIRN_CORE_PLACEMENT_CELL_STORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace firn {

using SlotCell = std::atomic<uint64_t>;

// Rows of cells, which live as long as the store: a row that is not used any
// more may still be read, and is handed out again for as many cells, rounded up
// to a power of two.
//
// A free finds its cell anywhere among those of all live blocks. With a million
// of them that is a miss of the caches, which costs less where the pages are
// huge: rows are cut from chunks of twice the bytes of the one before, up to a
// huge page, so that a small pool stays small.
//
// Thread safety: none; guarded by its owner.
class CellStore {
 public:
  CellStore() = default;
  CellStore(const CellStore&) = delete;
  CellStore& operator=(const CellStore&) = delete;

  static constexpr uint32_t kMostCells = uint32_t{1} << 16;

  // At least `cells` of them, from 1 to kMostCells; new ones are zero.
  SlotCell* Take(uint32_t cells);
  // Gives back a row that was taken for as many.
  void Return(SlotCell* row, uint32_t cells);

 private:
  struct Delete {
    size_t bytes = 0;
    void operator()(SlotCell* cells) const;
  };
  using Chunk = std::unique_ptr<SlotCell[], Delete>;

  static constexpr int kLog2s = 17;

  void AddChunk(size_t least_cells);

  std::vector<Chunk> chunks_;
  SlotCell* next_ = nullptr;  // not handed out yet, of the newest chunk
  size_t left_cells_ = 0;
  std::array<std::vector<SlotCell*>, kLog2s> unused_;  // by log2 of their cells
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_CELL_STORE_H_
