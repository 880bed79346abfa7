// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/kernel_mapping_budget.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

TEST(KernelMappingBudgetTest, RefusesWhatWouldPassTheLimit) {
  cpu::KernelMappingBudget budget(10);
  EXPECT_TRUE(budget.TryAdd(8));
  EXPECT_FALSE(budget.TryAdd(3));
  EXPECT_EQ(budget.used(), 8);
  EXPECT_TRUE(budget.TryAdd(2));
  budget.Remove(10);
  EXPECT_EQ(budget.used(), 0);
}

TEST(KernelMappingBudgetTest, TheProcessKeepsSomeForItself) {
  EXPECT_GE(cpu::KernelMappingBudget::OfProcess().limit(), 1000);
}

}  // namespace
}  // namespace firn::cpu_testing
