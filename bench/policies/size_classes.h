// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The block sizes of policies that keep one size per page: exact multiples of
// 512 bytes up to 8 KiB, then 8 per power of two.

#ifndef FIRN_BENCH_POLICIES_SIZE_CLASSES_H_
#define FIRN_BENCH_POLICIES_SIZE_CLASSES_H_

#include <cstdint>

namespace firn::bench {

struct SizeClass {
  uint32_t index = 0;  // dense, ascending with the size
  uint64_t block_bytes = 0;
};

// The least class whose blocks hold `bytes` (at least 1).
SizeClass SizeClassOf(uint64_t bytes);

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_SIZE_CLASSES_H_
