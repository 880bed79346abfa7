// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/occupancy.h"

#include <algorithm>

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

uint32_t Occupancy::ClearRunFrom(uint32_t from, uint32_t to) const {
  uint32_t at = from;  // everything from `from` to here is clear
  while (at < to) {
    const uint64_t word = words_[at / 64] >> (at % 64);
    if (word != 0) {
      at += static_cast<uint32_t>(absl::countr_zero(word));
      break;
    }
    at += 64 - at % 64;
  }
  return from < to ? std::min(at, to) - from : 0;
}

uint32_t Occupancy::ClearRunUpTo(uint32_t to) const {
  uint32_t at = to;  // everything from here to `to` is clear
  while (at > 0) {
    const uint64_t word = words_[(at - 1) / 64] << (63 - (at - 1) % 64);
    if (word != 0) {
      return to - at + static_cast<uint32_t>(absl::countl_zero(word));
    }
    at -= (at - 1) % 64 + 1;
  }
  return to;
}

}  // namespace firn
