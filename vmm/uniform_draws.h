// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A repeatable sequence of numbers that look random, for what must come out
// the same in every run.

#ifndef FIRN_VMM_UNIFORM_DRAWS_H_
#define FIRN_VMM_UNIFORM_DRAWS_H_

#include <cstdint>

namespace firn {

// Numbers from 0 to below 1 (SplitMix64). Thread safety: none.
class UniformDraws {
 public:
  explicit UniformDraws(uint64_t seed) : state_(seed) {}

  double Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    // 53 bits of it, which a double holds exactly: the result is below 1.
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

}  // namespace firn

#endif  // FIRN_VMM_UNIFORM_DRAWS_H_
