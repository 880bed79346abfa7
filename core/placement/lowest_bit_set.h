// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A set of small integers that gives its least member in a few steps: bits in
// words of 64, under a tree of summaries of 64 words each.

#ifndef FIRN_CORE_PLACEMENT_LOWEST_BIT_SET_H_
#define FIRN_CORE_PLACEMENT_LOWEST_BIT_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace firn {

// Grows to the largest member it ever had. Thread safety: none.
class LowestBitSet {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  bool Contains(uint64_t value) const;

  // Both return whether the set changed.
  bool Insert(uint64_t value);
  bool Erase(uint64_t value);

  // The least member, or kNone.
  uint64_t Lowest() const;

  // The least member that is `value` or more, or kNone.
  uint64_t LowestFrom(uint64_t value) const;

  // Makes the set {0, ..., count - 1}.
  void AssignFirst(uint64_t count);

 private:
  void GrowTo(uint64_t value);
  // The least member below the bit `index` of a level, which is set.
  uint64_t LowestBelow(size_t level, uint64_t index) const;

  // levels_[0] holds the members; a bit of levels_[i + 1] says whether a word
  // of levels_[i] is not zero. The last level is one word.
  std::vector<std::vector<uint64_t>> levels_;
  uint64_t count_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_LOWEST_BIT_SET_H_
