// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/gap_index.h"

#include "absl/numeric/bits.h"

namespace firn {

GapIndex::GapIndex() = default;

int GapIndex::BinOf(uint32_t quanta) {
  const int octave = static_cast<int>(absl::bit_width(quanta)) - 1;
  const uint32_t eighth =
      octave >= 3 ? (quanta >> (octave - 3)) & 7 : (quanta << (3 - octave)) & 7;
  return octave * 8 + static_cast<int>(eighth);
}

int GapIndex::NextBin(int bin) const {
  while (bin < kBinCount) {
    const size_t word = static_cast<size_t>(bin) / 64;
    const uint64_t rest = occupied_[word] >> (bin % 64);
    if (rest != 0) return bin + absl::countr_zero(rest);
    bin = static_cast<int>(word + 1) * 64;
  }
  return kNoBin;
}

GranuleId GapIndex::FirstAtLeast(uint32_t quanta) const {
  int bin = BinOf(quanta);
  // The bin of `quanta` will do only where `quanta` is the least it holds.
  if (quanta > 1 && BinOf(quanta - 1) == bin) ++bin;
  bin = NextBin(bin);
  return bin == kNoBin ? GranuleId() : heads_[static_cast<size_t>(bin)];
}

void GapIndex::Unlink(GranuleId granule) {
  Node& node = nodes_[granule.value()];
  const size_t bin = static_cast<size_t>(node.bin);
  if (!node.next.is_none()) nodes_[node.next.value()].previous = node.previous;
  if (!node.previous.is_none()) {
    nodes_[node.previous.value()].next = node.next;
  } else {
    heads_[bin] = node.next;
    if (node.next.is_none()) {
      occupied_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
    }
  }
  node = Node();
}

void GapIndex::Set(GranuleId granule, uint32_t gap_quanta) {
  const int bin = gap_quanta == 0 ? kNoBin : BinOf(gap_quanta);
  if (granule.value() >= nodes_.size()) {
    if (bin == kNoBin) return;
    nodes_.resize(size_t{granule.value()} + 1);
  }
  if (nodes_[granule.value()].bin == bin) return;
  if (nodes_[granule.value()].bin != kNoBin) Unlink(granule);
  if (bin == kNoBin) return;
  Node& node = nodes_[granule.value()];
  GranuleId& head = heads_[static_cast<size_t>(bin)];
  node.bin = bin;
  node.next = head;
  if (!head.is_none()) nodes_[head.value()].previous = granule;
  head = granule;
  occupied_[static_cast<size_t>(bin) / 64] |= uint64_t{1} << (bin % 64);
}

}  // namespace firn
