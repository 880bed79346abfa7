// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same on every machine and with every compiler,
// unlike those of the standard library's distributions.

#ifndef FIRN_BENCH_TRACES_SEEDED_RANDOM_H_
#define FIRN_BENCH_TRACES_SEEDED_RANDOM_H_

#include <cstdint>

namespace firn::bench {

// The mixing step of SplitMix64: a bijection whose outputs look random.
inline uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// In [0, 1), from the upper 53 bits.
inline double UnitFraction(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// A draw for the thing numbered `index`, the same in whatever order things are
// drawn. `purpose` keeps draws for the same thing apart.
inline uint64_t HashedDraw(uint64_t seed, uint64_t index, uint64_t purpose) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  return MixBits(MixBits(MixBits(seed + kGolden) + index) + purpose * kGolden);
}

// A sequence of draws (SplitMix64). Thread safety: none.
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(MixBits(seed)) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    return MixBits(state_);
  }
  // In [0, 1).
  double Fraction() { return UnitFraction(Next()); }
  // In [0, bound); the bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SEEDED_RANDOM_H_
