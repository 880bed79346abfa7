// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slab_classes.h"

#include <bit>

#include "firn/core/placement/size_rounding.h"
#include "firn/vmm/units.h"

namespace firn {
namespace {

constexpr uint64_t kLargestExactBytes = 8192;
constexpr uint32_t kExactClasses = kLargestExactBytes / kQuantumBytes;
constexpr uint32_t kClassesPerOctave = 8;

}  // namespace

SlabClass SlabClassOf(uint64_t bytes) {
  if (bytes <= kLargestExactBytes) {
    const uint64_t units = DivideUp(bytes, kQuantumBytes);
    return {static_cast<uint32_t>(units - 1), units * kQuantumBytes};
  }
  // (octave_bytes, 2 * octave_bytes] is divided into steps of equal length.
  const uint64_t octave_bytes = std::bit_floor(bytes - 1);
  const uint64_t step_bytes = octave_bytes / kClassesPerOctave;
  const uint64_t steps = DivideUp(bytes - octave_bytes, step_bytes);
  const auto octave = static_cast<uint32_t>(
      std::countr_zero(octave_bytes / kLargestExactBytes));
  return {kExactClasses + octave * kClassesPerOctave +
              static_cast<uint32_t>(steps) - 1,
          octave_bytes + steps * step_bytes};
}

}  // namespace firn
