// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/occupancy.h"

#include "absl/numeric/bits.h"

namespace firn {

OffsetInterval Occupancy::FindClearRun(uint32_t quanta, uint32_t from,
                                       uint32_t to) const {
  uint32_t start = from;
  uint32_t at = from;
  while (at < to) {
    const uint32_t bit = at % 64;
    const uint64_t word = words_[at / 64] >> bit;
    if (word & 1) {
      at += static_cast<uint32_t>(absl::countr_one(word));
      start = at;
      continue;
    }
    // Clear bits from here to the end of the word, or to the next set one.
    at += word == 0 ? 64 - bit : static_cast<uint32_t>(absl::countr_zero(word));
    if (at - start >= quanta) break;
  }
  OffsetInterval run;
  if (at > to) at = to;
  if (at <= start || at - start < quanta) return run;
  run.lo = start;
  run.hi = start + quanta;
  return run;
}

}  // namespace firn
