// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a memory snapshot is put together out of what a pool's books say.

#ifndef FIRN_CORE_MEMORY_SEGMENTS_H_
#define FIRN_CORE_MEMORY_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "firn/core/domain.h"
#include "firn/core/memory_snapshot.h"

namespace firn {

// Puts segments together out of ranges and the blocks in them. Makes no call of
// others. Thread safety: none.
class MemorySegmentBuilder {
 public:
  // Does not own `segments`, which must outlive it; appends to them.
  explicit MemorySegmentBuilder(std::vector<MemorySegment>* segments)
      : segments_(segments) {}
  MemorySegmentBuilder(const MemorySegmentBuilder&) = delete;
  MemorySegmentBuilder& operator=(const MemorySegmentBuilder&) = delete;

  // A mapped range; ranges come by address. It continues the last segment if it
  // begins where that ends, in the same domain.
  void AddRange(uint64_t address, uint64_t bytes, DomainId domain);
  // A block in the last segment; blocks come by address.
  void AddBlock(const MemoryBlock& block);
  // No more will come.
  void Finish();

 private:
  // What lies between the last block and `address` is inactive.
  void FillUpTo(uint64_t address);

  std::vector<MemorySegment>* const segments_;
  uint64_t filled_to_ = 0;  // in the last segment
  bool has_segment_ = false;
};

// Sets the streams of live blocks whose allocation is in the history.
void AddStreams(MemorySnapshot* snapshot);

}  // namespace firn

#endif  // FIRN_CORE_MEMORY_SEGMENTS_H_
