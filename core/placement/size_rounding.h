// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the classical structures round the sizes they are asked for.

#ifndef FIRN_CORE_PLACEMENT_SIZE_ROUNDING_H_
#define FIRN_CORE_PLACEMENT_SIZE_ROUNDING_H_

#include <cstdint>

namespace firn {

// Larger requests than this are no memory of any device; refusing them first
// keeps sums from overflowing.
inline constexpr uint64_t kLargestRequestBytes = uint64_t{1} << 47;

// What is too large stays too large, and can be rounded without overflow.
constexpr uint64_t CapRequest(uint64_t bytes) {
  return bytes <= kLargestRequestBytes ? bytes : kLargestRequestBytes + 1;
}

constexpr uint64_t DivideUp(uint64_t value, uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// REQUIRES: `unit` is a power of two; the result does not overflow.
constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}

constexpr uint64_t RoundDown(uint64_t value, uint64_t unit) {
  return value & ~(unit - 1);
}

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SIZE_ROUNDING_H_
