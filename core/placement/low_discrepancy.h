// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Low-discrepancy choices: whatever regular pattern decides which blocks
// survive, their offsets stay spread, so that survivors can be merged.

#ifndef FIRN_CORE_PLACEMENT_LOW_DISCREPANCY_H_
#define FIRN_CORE_PLACEMENT_LOW_DISCREPANCY_H_

#include <cstdint>

namespace firn {

// The n-th of a sequence over [0, choices): floor(frac(n * alpha) * choices)
// with an irrational alpha, in 64-bit fixed point. Multiples of an irrational
// are spread evenly at every scale; an odd multiplier modulo a power of two is
// not.
class LowDiscrepancySequence {
 public:
  // The fractional parts of the golden ratio and of the square root of two,
  // times 2^64: two sequences that do not follow each other.
  static constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  static constexpr uint64_t kRootOfTwo = 0x6A09E667F3BCC908;

  explicit LowDiscrepancySequence(uint64_t alpha) : alpha_(alpha) {}

  uint32_t Next(uint32_t choices) {
    state_ += alpha_;
    return static_cast<uint32_t>(((state_ >> 32) * choices) >> 32);
  }

 private:
  uint64_t alpha_;
  uint64_t state_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_LOW_DISCREPANCY_H_
