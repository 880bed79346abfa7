// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many kernel mappings (VMAs) this process may still make. Linux limits
// them (vm.max_map_count, 65,530 unless set otherwise) and fails mmap, in
// whoever calls it next, beyond that: so the CPU driver stops well before.

#ifndef FIRN_VMM_CPU_KERNEL_MAPPING_BUDGET_H_
#define FIRN_VMM_CPU_KERNEL_MAPPING_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace firn::cpu {

// Thread safety: all methods may be called from any thread.
class KernelMappingBudget {
 public:
  // What a call that was refused for the budget of the process broke.
  static constexpr const char* kRule =
      "the process must stay below the host's limit of memory mappings "
      "(vm.max_map_count)";

  explicit KernelMappingBudget(int64_t limit) : limit_(limit) {}

  // The one of this process, shared by all its CPU drivers: eleven twelfths of
  // what the kernel allows (60,070 of 65,530).
  static KernelMappingBudget& OfProcess();

  // Adds `count`, unless that would pass the limit.
  bool TryAdd(int64_t count);
  void Remove(int64_t count) { used_.fetch_sub(count); }

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_KERNEL_MAPPING_BUDGET_H_
