// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A few kernel mappings (VMAs) that the process holds for nothing but to give
// them up when the kernel refuses, for want of them, what must not fail: the
// program around the CPU driver may use up all that there are.

#ifndef FIRN_VMM_CPU_SPARE_KERNEL_MAPPINGS_H_
#define FIRN_VMM_CPU_SPARE_KERNEL_MAPPINGS_H_

#include <atomic>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"

namespace firn::cpu {

// Has no destructor, so that the one of the process can be used at any time.
//
// Thread safety: all methods may be called from any thread.
class SpareKernelMappings {
 public:
  static constexpr int kCount = 16;

  constexpr SpareKernelMappings() = default;
  SpareKernelMappings(const SpareKernelMappings&) = delete;
  SpareKernelMappings& operator=(const SpareKernelMappings&) = delete;

  // The one of this process, shared by all its CPU drivers.
  static SpareKernelMappings& OfProcess();

  // Takes what is missing, as far as the kernel has it. Costs nothing where
  // nothing is missing.
  void Refill();
  // Async-signal-safe.
  void GiveUp();

 private:
  // The start of a range of addresses that holds them; 1 more if it holds
  // kCount. 0 where there is none.
  std::atomic<uint64_t> range_{0};
};

template <typename Map>
ABSL_ATTRIBUTE_NOINLINE bool TryAgainWithSpareMappings(const Map& map) {
  SpareKernelMappings::OfProcess().GiveUp();
  return map();
}

// Whether `map`, which asks the kernel for mappings and says whether it got
// them, succeeds; the second time, if need be, with what was spared.
// Async-signal-safe if `map` is.
template <typename Map>
inline bool WithSpareMappings(const Map& map) {
  return ABSL_PREDICT_TRUE(map()) || TryAgainWithSpareMappings(map);
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_SPARE_KERNEL_MAPPINGS_H_
