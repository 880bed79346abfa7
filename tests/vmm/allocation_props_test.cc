// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/allocation_props.h"

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

// What a driver requires of everything that is not asked for.
void ExpectNothingElse(const AllocationProp& prop) {
  EXPECT_EQ(prop.type, AllocationType::kPinned);
  EXPECT_EQ(prop.win32_handle_metadata, nullptr);
  EXPECT_EQ(prop.alloc_flags.compression_type, 0);
  EXPECT_EQ(prop.alloc_flags.usage, 0);
  for (const unsigned char byte : prop.alloc_flags.reserved) {
    EXPECT_EQ(byte, 0);
  }
}

TEST(AllocationPropsTest, MovableMemoryCannotBeHeldOnToFromOutside) {
  const AllocationProp prop = MovableProp(3);
  EXPECT_EQ(prop.location.type, LocationType::kDevice);
  EXPECT_EQ(prop.location.id, 3);
  EXPECT_EQ(prop.requested_handle_types, ShareableHandleType::kNone);
  EXPECT_EQ(prop.alloc_flags.gpu_direct_rdma_capable, 0);
  ExpectNothingElse(prop);
  EXPECT_FALSE(MayBeShared(prop));
}

TEST(AllocationPropsTest, ExportableMemoryHasWhatWasAskedFor) {
  const AllocationProp exported =
      ExportableProp(2, ShareableHandleType::kPosixFileDescriptor, false);
  EXPECT_EQ(exported.location.type, LocationType::kDevice);
  EXPECT_EQ(exported.location.id, 2);
  EXPECT_EQ(exported.requested_handle_types,
            ShareableHandleType::kPosixFileDescriptor);
  EXPECT_EQ(exported.alloc_flags.gpu_direct_rdma_capable, 0);
  ExpectNothingElse(exported);
  EXPECT_TRUE(MayBeShared(exported));

  const AllocationProp rdma =
      ExportableProp(2, ShareableHandleType::kNone, true);
  EXPECT_EQ(rdma.requested_handle_types, ShareableHandleType::kNone);
  EXPECT_EQ(rdma.alloc_flags.gpu_direct_rdma_capable, 1);
  ExpectNothingElse(rdma);
  EXPECT_TRUE(MayBeShared(rdma));
}

TEST(AllocationPropsTest, ExportableMemoryThatNobodyCanExportMayMove) {
  EXPECT_FALSE(
      MayBeShared(ExportableProp(0, ShareableHandleType::kNone, false)));
}

TEST(AllocationPropsTest, MemoryOfTheHostIsNotShareableAndHasANodeOrNone) {
  const AllocationProp node = HostProp({LocationType::kHostNuma, 1});
  EXPECT_EQ(node.location.type, LocationType::kHostNuma);
  EXPECT_EQ(node.location.id, 1);
  ExpectNothingElse(node);
  EXPECT_FALSE(MayBeShared(node));

  const AllocationProp host = HostProp({LocationType::kHost, 1});
  EXPECT_EQ(host.location.type, LocationType::kHost);
  EXPECT_EQ(host.location.id, 0);
  ExpectNothingElse(host);
  EXPECT_FALSE(MayBeShared(host));
}

}  // namespace
}  // namespace firn::testing
