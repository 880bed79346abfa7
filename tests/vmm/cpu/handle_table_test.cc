// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/handle_table.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

TEST(HandleTableTest, AnAllocationLivesAsLongAsAnythingHoldsIt) {
  cpu::HandleTable handles;
  const PhysicalHandle handle = handles.Add(3, 17);
  uint32_t index = 0;
  ASSERT_TRUE(handles.Find(handle, &index));
  EXPECT_EQ(handles.allocation(index).granules, 3u);
  EXPECT_EQ(handles.allocation(index).first_granule, 17u);
  handles.AddMapping(index);
  EXPECT_FALSE(handles.DropUser(index));
  EXPECT_FALSE(handles.Find(handle, &index));
  handles.AddUser(index);
  EXPECT_TRUE(handles.Find(handle, &index));
  EXPECT_FALSE(handles.DropMapping(index));
  EXPECT_TRUE(handles.DropUser(index));
}

TEST(HandleTableTest, AnOutdatedHandleFindsNothing) {
  cpu::HandleTable handles;
  const PhysicalHandle old = handles.Add(1, 0);
  uint32_t index = 0;
  ASSERT_TRUE(handles.Find(old, &index));
  ASSERT_TRUE(handles.DropUser(index));
  handles.Erase(index);
  const PhysicalHandle fresh = handles.Add(1, 0);
  EXPECT_NE(fresh, old);
  EXPECT_FALSE(handles.Find(old, &index));
  EXPECT_TRUE(handles.Find(fresh, &index));
  EXPECT_FALSE(handles.Find(0, &index));
}

}  // namespace
}  // namespace firn::cpu_testing
