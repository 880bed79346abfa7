// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Short ways to write values of vmm/units.h in tests, and how GoogleTest
// prints them.

#ifndef FIRN_TESTS_SUPPORT_UNIT_VALUES_H_
#define FIRN_TESTS_SUPPORT_UNIT_VALUES_H_

#include <cstdint>
#include <ostream>

#include "firn/vmm/units.h"

namespace firn {

template <typename Tag>
void PrintTo(StrongIndex<Tag> index, std::ostream* os) {
  if (index.is_none()) {
    *os << "none";
  } else {
    *os << '#' << index.value();
  }
}
inline void PrintTo(VgRange range, std::ostream* os) { *os << ToString(range); }
inline void PrintTo(OffsetInterval interval, std::ostream* os) {
  *os << '[' << interval.lo << ", " << interval.hi << ')';
}

namespace testing {

inline VgRange Vgs(uint32_t first, uint32_t count) {
  VgRange range;
  range.first = VgIndex(first);
  range.count = count;
  return range;
}

inline OffsetInterval Extent(uint32_t lo, uint32_t hi) {
  OffsetInterval interval;
  interval.lo = lo;
  interval.hi = hi;
  return interval;
}

}  // namespace testing
}  // namespace firn

#endif  // FIRN_TESTS_SUPPORT_UNIT_VALUES_H_
