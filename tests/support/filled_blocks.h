// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks of a pool filled with patterns that no two share, to be checked byte
// by byte through the raw pointers.

#ifndef FIRN_TESTS_SUPPORT_FILLED_BLOCKS_H_
#define FIRN_TESTS_SUPPORT_FILLED_BLOCKS_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver.h"

namespace firn::testing {

struct FilledBlock {
  void* ptr = nullptr;
  uint64_t bytes = 0;
  uint64_t seed = 0;
};

// The i-th 8-byte word of a block's pattern.
inline uint64_t PatternWord(uint64_t seed, uint64_t i) {
  uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15 + i;
  word ^= word >> 31;
  word *= 0xBF58476D1CE4E5B9;
  return word ^ (word >> 29);
}

inline void Fill(const FilledBlock& block) {
  char* const bytes = static_cast<char*>(block.ptr);
  for (uint64_t i = 0; i < block.bytes; i += 8) {
    const uint64_t word = PatternWord(block.seed, i / 8);
    std::memcpy(bytes + i, &word, block.bytes - i < 8 ? block.bytes - i : 8);
  }
}

// Whether every byte is as Fill left it.
inline bool IsIntact(const FilledBlock& block) {
  const char* const bytes = static_cast<const char*>(block.ptr);
  for (uint64_t i = 0; i < block.bytes; i += 8) {
    const uint64_t word = PatternWord(block.seed, i / 8);
    if (std::memcmp(bytes + i, &word,
                    block.bytes - i < 8 ? block.bytes - i : 8) != 0) {
      return false;
    }
  }
  return true;
}

inline uint64_t CountDamaged(const std::vector<FilledBlock>& blocks) {
  uint64_t damaged = 0;
  for (const FilledBlock& block : blocks) {
    if (!IsIntact(block)) ++damaged;
  }
  return damaged;
}

// Fills the block by a kernel on `stream`.
inline DriverResult FillOnStream(CpuDriver* driver, const FilledBlock& block,
                                 StreamHandle stream) {
  KernelRange range;
  range.address = reinterpret_cast<uintptr_t>(block.ptr);
  range.bytes = block.bytes;
  range.writes = true;
  return driver->LaunchKernel(stream, {range}, [block] { Fill(block); });
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_FILLED_BLOCKS_H_
