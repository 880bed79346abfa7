// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/kernel_mapping_budget.h"

#include <fstream>

namespace firn::cpu {
namespace {

constexpr int64_t kDefaultMaxMapCount = 65530;

int64_t LimitOfProcess() {
  int64_t max_map_count = kDefaultMaxMapCount;
  std::ifstream file("/proc/sys/vm/max_map_count");
  if (int64_t value = 0; file >> value && value > 0) max_map_count = value;
  // The rest is for the program's own libraries, stacks and heaps, and for the
  // moments in which one mapping is replaced by another.
  return max_map_count - max_map_count / 12;
}

}  // namespace

KernelMappingBudget& KernelMappingBudget::OfProcess() {
  // Never destroyed: drivers may outlive static objects.
  static auto* const budget = new KernelMappingBudget(LimitOfProcess());
  return *budget;
}

bool KernelMappingBudget::TryAdd(int64_t count) {
  int64_t used = used_.load();
  do {
    if (count > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + count));
  return true;
}

}  // namespace firn::cpu
