// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/handle_table.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

cpu::HandleTarget TargetOf(uint32_t granules, uint64_t first_granule) {
  cpu::HandleTarget target;
  target.granules = granules;
  target.place.first_granule = first_granule;
  return target;
}

TEST(HandleTableTest, AHandleLivesAsLongAsAnythingHoldsIt) {
  cpu::HandleTable handles;
  const PhysicalHandle handle = handles.Add(TargetOf(3, 17), false);
  uint32_t index = 0;
  ASSERT_TRUE(handles.Find(handle, &index));
  EXPECT_EQ(handles.handle(index).target.granules, 3u);
  EXPECT_EQ(handles.handle(index).target.place.first_granule, 17u);
  handles.AddMapping(index);
  EXPECT_FALSE(handles.DropUser(index));
  EXPECT_FALSE(handles.Find(handle, &index));
  EXPECT_EQ(handles.live(), 1u);
  handles.AddUser(index);
  EXPECT_TRUE(handles.Find(handle, &index));
  EXPECT_FALSE(handles.DropMapping(index));
  EXPECT_TRUE(handles.DropUser(index));
  handles.Erase(index);
  EXPECT_EQ(handles.live(), 0u);
}

TEST(HandleTableTest, AnOutdatedHandleFindsNothing) {
  cpu::HandleTable handles;
  const PhysicalHandle old = handles.Add(TargetOf(1, 0), false);
  uint32_t index = 0;
  ASSERT_TRUE(handles.Find(old, &index));
  ASSERT_TRUE(handles.DropUser(index));
  handles.Erase(index);
  const PhysicalHandle fresh = handles.Add(TargetOf(1, 0), true);
  EXPECT_NE(fresh, old);
  EXPECT_FALSE(handles.Find(old, &index));
  EXPECT_TRUE(handles.Find(fresh, &index));
  EXPECT_TRUE(handles.handle(index).imported);
  EXPECT_FALSE(handles.Find(0, &index));
  EXPECT_EQ(handles.live(), 1u);
}

}  // namespace
}  // namespace firn::cpu_testing
