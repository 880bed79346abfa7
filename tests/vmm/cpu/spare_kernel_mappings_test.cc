// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/spare_kernel_mappings.h"

#include <limits>

#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

using cpu::SpareKernelMappings;

int AllKernelMappings() {
  return KernelMappingsIn(0, std::numeric_limits<DevicePtr>::max());
}

TEST(SpareKernelMappingsTest, TheyAreMappingsOfTheKernelUntilGivenUp) {
  SpareKernelMappings spares;
  // Whatever the first look at the list takes is there from now on.
  AllKernelMappings();
  const int before = AllKernelMappings();
  spares.Refill();
  EXPECT_EQ(AllKernelMappings(), before + SpareKernelMappings::kCount);
  spares.Refill();
  EXPECT_EQ(AllKernelMappings(), before + SpareKernelMappings::kCount);
  spares.GiveUp();
  EXPECT_EQ(AllKernelMappings(), before);
  spares.GiveUp();
  spares.Refill();
  EXPECT_EQ(AllKernelMappings(), before + SpareKernelMappings::kCount);
  spares.GiveUp();
}

TEST(SpareKernelMappingsTest, WhatFailsIsTriedOnceMoreWithoutThem) {
  if (testing::kUnderAddressSanitizer || testing::kUnderThreadSanitizer) {
    GTEST_SKIP() << "the sanitizer itself makes mappings meanwhile";
  }
  SpareKernelMappings::OfProcess().Refill();
  const int before = AllKernelMappings();
  int calls = 0;
  EXPECT_TRUE(cpu::WithSpareMappings([&] { return ++calls == 1; }));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(AllKernelMappings(), before);
  calls = 0;
  EXPECT_TRUE(cpu::WithSpareMappings([&] { return ++calls == 2; }));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(AllKernelMappings(), before - SpareKernelMappings::kCount);
  calls = 0;
  EXPECT_FALSE(cpu::WithSpareMappings([&] { return ++calls > 2; }));
  EXPECT_EQ(calls, 2);
  SpareKernelMappings::OfProcess().Refill();
}

}  // namespace
}  // namespace firn::cpu_testing
