// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/lowest_bit_set.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace firn {
namespace {

constexpr uint64_t kWordBits = 64;

uint64_t BitOf(uint64_t value) { return uint64_t{1} << (value % kWordBits); }

}  // namespace

bool LowestBitSet::Contains(uint64_t value) const {
  if (levels_.empty()) return false;
  const uint64_t word = value / kWordBits;
  return word < levels_[0].size() && (levels_[0][word] & BitOf(value)) != 0;
}

bool LowestBitSet::Insert(uint64_t value) {
  GrowTo(value);
  uint64_t& leaf = levels_[0][value / kWordBits];
  if ((leaf & BitOf(value)) != 0) return false;
  const bool was_empty = leaf == 0;
  leaf |= BitOf(value);
  ++count_;
  if (!was_empty) return true;
  uint64_t index = value / kWordBits;
  for (size_t level = 1; level < levels_.size(); ++level) {
    uint64_t& word = levels_[level][index / kWordBits];
    const bool summary_was_empty = word == 0;
    word |= BitOf(index);
    if (!summary_was_empty) break;
    index /= kWordBits;
  }
  return true;
}

bool LowestBitSet::Erase(uint64_t value) {
  if (!Contains(value)) return false;
  --count_;
  uint64_t index = value;
  for (std::vector<uint64_t>& level : levels_) {
    uint64_t& word = level[index / kWordBits];
    word &= ~BitOf(index);
    if (word != 0) break;
    index /= kWordBits;
  }
  return true;
}

uint64_t LowestBitSet::Lowest() const {
  if (count_ == 0) return kNone;
  return LowestBelow(levels_.size(), 0);
}

uint64_t LowestBitSet::LowestBelow(size_t level, uint64_t index) const {
  while (level-- > 0) {
    const int bit = std::countr_zero(levels_[level][index]);
    index = index * kWordBits + static_cast<uint64_t>(bit);
  }
  return index;
}

uint64_t LowestBitSet::LowestFrom(uint64_t value) const {
  // Up to the first level that has a bit from here on in the same word, and
  // down again from that bit.
  uint64_t index = value;
  for (size_t level = 0; level < levels_.size(); ++level) {
    const uint64_t word = index / kWordBits;
    if (word >= levels_[level].size()) return kNone;
    const uint64_t rest = levels_[level][word] & ~(BitOf(index) - 1);
    if (rest != 0) {
      const int bit = std::countr_zero(rest);
      return LowestBelow(level, word * kWordBits + static_cast<uint64_t>(bit));
    }
    index = word + 1;
  }
  return kNone;
}

void LowestBitSet::AssignFirst(uint64_t count) {
  for (std::vector<uint64_t>& level : levels_) {
    std::fill(level.begin(), level.end(), uint64_t{0});
  }
  count_ = count;
  if (count == 0) return;
  GrowTo(count - 1);
  uint64_t bits = count;
  for (std::vector<uint64_t>& level : levels_) {
    const uint64_t full_words = bits / kWordBits;
    std::fill_n(level.begin(), static_cast<ptrdiff_t>(full_words),
                ~uint64_t{0});
    if (bits % kWordBits != 0) level[full_words] = BitOf(bits) - 1;
    bits = (bits + kWordBits - 1) / kWordBits;
  }
}

void LowestBitSet::GrowTo(uint64_t value) {
  const uint64_t words = value / kWordBits + 1;
  if (!levels_.empty() && words <= levels_[0].size()) return;
  if (levels_.empty()) levels_.emplace_back();
  // Doubling keeps the cost of growing constant for each member.
  levels_[0].resize(std::max<uint64_t>(words, levels_[0].size() * 2));
  for (size_t level = 0; levels_[level].size() > 1; ++level) {
    if (level + 1 == levels_.size()) levels_.emplace_back();
    const std::vector<uint64_t>& below = levels_[level];
    std::vector<uint64_t>& above = levels_[level + 1];
    above.resize((below.size() + kWordBits - 1) / kWordBits);
    // A new level has to learn what stands below it.
    for (uint64_t word = 0; word < below.size(); ++word) {
      if (below[word] != 0) above[word / kWordBits] |= BitOf(word);
    }
  }
}

}  // namespace firn
