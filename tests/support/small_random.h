// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Seeded random choices that are the same on every platform, unlike those of
// the standard library's distributions.

#ifndef FIRN_TESTS_SUPPORT_SMALL_RANDOM_H_
#define FIRN_TESTS_SUPPORT_SMALL_RANDOM_H_

#include <cstdint>
#include <random>

namespace firn::testing {

class SmallRandom {
 public:
  explicit SmallRandom(uint64_t seed) : engine_(seed) {}

  // A number in [0, choices).
  uint32_t Below(uint32_t choices) {
    return static_cast<uint32_t>(engine_() % choices);
  }
  // A number in [lo, hi].
  uint32_t Between(uint32_t lo, uint32_t hi) { return lo + Below(hi - lo + 1); }
  bool OneIn(uint32_t choices) { return Below(choices) == 0; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_SMALL_RANDOM_H_
