// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/cell_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>

#include "absl/numeric/bits.h"

namespace firn {
namespace {

constexpr size_t kFirstChunkBytes = size_t{32} << 10;
constexpr size_t kHugePageBytes = size_t{2} << 20;

std::align_val_t AlignmentOf(size_t bytes) {
  return std::align_val_t{bytes < kHugePageBytes ? alignof(std::max_align_t)
                                                 : kHugePageBytes};
}

size_t Log2Of(uint32_t cells) {
  return static_cast<size_t>(absl::bit_width(cells - 1));
}

}  // namespace

void CellStore::Delete::operator()(SlotCell* cells) const {
  ::operator delete(cells, AlignmentOf(bytes));
}

SlotCell* CellStore::Take(uint32_t cells) {
  const size_t log2 = Log2Of(cells);
  std::vector<SlotCell*>& unused = unused_[log2];
  if (!unused.empty()) {
    SlotCell* const row = unused.back();
    unused.pop_back();
    return row;
  }
  const size_t count = size_t{1} << log2;
  if (left_cells_ < count) AddChunk(count);
  SlotCell* const row = next_;
  next_ += count;
  left_cells_ -= count;
  return row;
}

void CellStore::Return(SlotCell* row, uint32_t cells) {
  unused_[Log2Of(cells)].push_back(row);
}

void CellStore::AddChunk(size_t least_cells) {
  // What is left of the chunk before makes rows of its own.
  while (left_cells_ > 0) {
    const size_t log2 = static_cast<size_t>(absl::bit_width(left_cells_)) - 1;
    unused_[log2].push_back(next_);
    next_ += size_t{1} << log2;
    left_cells_ -= size_t{1} << log2;
  }
  Delete deleter;
  deleter.bytes =
      chunks_.empty()
          ? kFirstChunkBytes
          : std::min(2 * chunks_.back().get_deleter().bytes, kHugePageBytes);
  deleter.bytes = std::max(deleter.bytes, least_cells * sizeof(SlotCell));
  void* const memory =
      ::operator new(deleter.bytes, AlignmentOf(deleter.bytes));
  // Advice: without it, or where it is not taken, all is as right.
  if (deleter.bytes >= kHugePageBytes) {
    madvise(memory, deleter.bytes, MADV_HUGEPAGE);
  }
  left_cells_ = deleter.bytes / sizeof(SlotCell);
  next_ = new (memory) SlotCell[left_cells_]();
  chunks_.emplace_back(next_, deleter);
}

}  // namespace firn
