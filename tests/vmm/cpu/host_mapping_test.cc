// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/host_mapping.h"

#include <cstdint>

#include "firn/vmm/cpu/host_memory.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

TEST(HostMappingTest, AHoleThatAFailedCallLeftIsClosed) {
  const uint64_t page_bytes = cpu::HostPageBytes();
  const uint64_t bytes = 8 * page_bytes;
  DevicePtr base = 0;
  ASSERT_TRUE(cpu::ReserveAddresses(bytes, page_bytes, 0, &base));
  EXPECT_FALSE(cpu::CloseHole(base, bytes));
  cpu::ReleaseAddresses(base + 3 * page_bytes, page_bytes);
  EXPECT_EQ(KernelMappingsIn(base + 3 * page_bytes, page_bytes), 0);
  EXPECT_TRUE(cpu::CloseHole(base + 2 * page_bytes, 2 * page_bytes));
  EXPECT_EQ(KernelMappingsIn(base + 3 * page_bytes, page_bytes), 1);
  EXPECT_FALSE(cpu::CloseHole(base, bytes));
  cpu::ReleaseAddresses(base, bytes);
}

}  // namespace
}  // namespace firn::cpu_testing
