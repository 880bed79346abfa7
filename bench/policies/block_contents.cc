// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/block_contents.h"

#include <cstddef>
#include <cstring>

namespace firn::bench {
namespace {

constexpr uint64_t kWordBytes = sizeof(uint64_t);

// An odd multiplier: no two words of a block are equal, nor two blocks whose
// seeds differ by less than their lengths.
constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

uint64_t FirstWord(uint64_t seed) { return (seed + 1) * 0xbf58476d1ce4e5b9; }

}  // namespace

void FillBlock(void* block, uint64_t bytes, uint64_t seed) {
  auto* out = static_cast<unsigned char*>(block);
  uint64_t word = FirstWord(seed);
  const uint64_t whole_bytes = bytes / kWordBytes * kWordBytes;
  for (uint64_t i = 0; i < whole_bytes; i += kWordBytes) {
    std::memcpy(out + i, &word, kWordBytes);
    word += kStep;
  }
  std::memcpy(out + whole_bytes, &word,
              static_cast<size_t>(bytes - whole_bytes));
}

bool BlockIsIntact(const void* block, uint64_t bytes, uint64_t seed) {
  const auto* in = static_cast<const unsigned char*>(block);
  uint64_t word = FirstWord(seed);
  const uint64_t whole_bytes = bytes / kWordBytes * kWordBytes;
  // Differences are gathered, not branched on: the compiler can then compare
  // several words at once.
  uint64_t differences = 0;
  for (uint64_t i = 0; i < whole_bytes; i += kWordBytes) {
    uint64_t found;
    std::memcpy(&found, in + i, kWordBytes);
    differences |= found ^ word;
    word += kStep;
  }
  return differences == 0 &&
         std::memcmp(in + whole_bytes, &word,
                     static_cast<size_t>(bytes - whole_bytes)) == 0;
}

}  // namespace firn::bench
