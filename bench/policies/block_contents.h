// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a replay with contents writes into each block and expects to find there
// for as long as the block lives.

#ifndef FIRN_BENCH_POLICIES_BLOCK_CONTENTS_H_
#define FIRN_BENCH_POLICIES_BLOCK_CONTENTS_H_

#include <cstdint>

namespace firn::bench {

// Fills [block, block + bytes) with words that differ between seeds and from
// one place of a block to any other.
void FillBlock(void* block, uint64_t bytes, uint64_t seed);

// Whether every byte is as FillBlock left it.
bool BlockIsIntact(const void* block, uint64_t bytes, uint64_t seed);

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BLOCK_CONTENTS_H_
