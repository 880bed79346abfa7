// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may access what: devices, peers and the host; the limits; and the check
// that device work makes.

#include <cstdint>
#include <vector>

#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/host_memory.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

using cpu::AccessRange;
using cpu::PhysicalRange;

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kInvalid = DriverResult::kInvalidValue;
constexpr DriverResult kNoMemory = DriverResult::kOutOfMemory;
constexpr AccessFlags kNone = AccessFlags::kNone;
constexpr AccessFlags kRead = AccessFlags::kRead;
constexpr AccessFlags kReadWrite = AccessFlags::kReadWrite;

class DeviceMemoryAccessTest : public MemoryTest {
 protected:
  DevicePtr ReserveAt(DevicePtr hint) {
    DevicePtr address = 0;
    TestMemory::ExpectOk(
        memory_->Reserve(&address, kMemoryGranule, 0, hint, 0));
    return address;
  }
  // Two reservations of a granule each that touch; 0 if they do not.
  DevicePtr ReserveNeighbours() {
    const DevicePtr both = memory_.Reserve(2);
    TestMemory::ExpectOk(memory_->Unreserve(both, 2 * kMemoryGranule));
    const DevicePtr first = ReserveAt(both);
    const DevicePtr second = ReserveAt(first + kMemoryGranule);
    if (second == first + kMemoryGranule) return first;
    TestMemory::ExpectOk(memory_->Unreserve(first, kMemoryGranule));
    TestMemory::ExpectOk(memory_->Unreserve(second, kMemoryGranule));
    return 0;
  }

  TestMemory memory_{GetParam()};
};

TEST_P(DeviceMemoryAccessTest, ANewMappingGivesAccessToNobody) {
  const DevicePtr base = memory_.Reserve(1);
  const PhysicalHandle handle = memory_.Create();
  memory_.Map(base, handle);
  memory_.SetAccess(base, 1, 0);
  memory_.SetAccess(base, 1, 1);
  memory_.Unmap(base);
  memory_.Map(base, handle);
  EXPECT_EQ(memory_.GetAccess(base, Device(0)), kNone);
  EXPECT_EQ(memory_.GetAccess(base, Device(1)), kNone);
  EXPECT_FALSE(memory_.Permits(0, base, 1, false));
}

TEST_P(DeviceMemoryAccessTest, ASetAccessChangesOnlyTheLocationsItLists) {
  const DevicePtr base = memory_.NewMemory();
  EXPECT_EQ(memory_.GetAccess(base, Device(1)), kNone);
  memory_.SetAccess(base, 1, 1, kRead);
  EXPECT_EQ(memory_.GetAccess(base, Device(0)), kReadWrite);
  EXPECT_EQ(memory_.GetAccess(base, Device(1)), kRead);
  EXPECT_TRUE(memory_.Permits(1, base, kMemoryGranule, false));
  EXPECT_FALSE(memory_.Permits(1, base, 1, true));
  memory_.SetAccess(base, 1, 0, kNone);
  EXPECT_FALSE(memory_.Permits(0, base, 1, false));
  EXPECT_TRUE(memory_.Permits(1, base, 1, false));
}

TEST_P(DeviceMemoryAccessTest, OneCallGivesAccessToSeveralLocations) {
  const DevicePtr base = memory_.Reserve(1);
  memory_.Map(base, memory_.Create(PropAt(HostNode())));
  EXPECT_EQ(memory_.TrySetAccess(base, 1,
                                 {{Device(0), kReadWrite},
                                  {Device(1), kRead},
                                  {HostNode(7), kReadWrite}}),
            kOk);
  EXPECT_EQ(memory_.GetAccess(base, Device(0)), kReadWrite);
  EXPECT_EQ(memory_.GetAccess(base, Device(1)), kRead);
  EXPECT_EQ(memory_.GetAccess(base, HostNode()), kReadWrite);
  EXPECT_EQ(memory_.GetAccess(base, Host()), kReadWrite);
}

TEST_P(DeviceMemoryAccessTest, DescriptorsMustNotContradictEachOther) {
  const DevicePtr base = memory_.NewMemory();
  EXPECT_EQ(memory_.TrySetAccess(base, 1,
                                 {{Device(1), kRead}, {Device(1), kReadWrite}}),
            kInvalid);
  EXPECT_EQ(
      memory_.TrySetAccess(base, 1, {{Device(1), kRead}, {Device(1), kNone}}),
      kInvalid);
  EXPECT_EQ(memory_.GetAccess(base, Device(1)), kNone);
  EXPECT_EQ(
      memory_.TrySetAccess(base, 1, {{Device(1), kRead}, {Device(1), kRead}}),
      kOk);
}

TEST_P(DeviceMemoryAccessTest, LocationsMustExist) {
  const DevicePtr base = memory_.NewMemory();
  const MemLocation bad[] = {Device(2), Device(-1), Device(cpu::kHostLocation),
                             MemLocation{LocationType::kHostNumaCurrent, 0},
                             MemLocation{}};
  for (const MemLocation& location : bad) {
    EXPECT_EQ(
        memory_.TrySetAccess(base, 1, {{Device(0), kNone}, {location, kRead}}),
        kInvalid);
    AccessFlags flags = kNone;
    EXPECT_EQ(memory_->GetAccess(&flags, &location, base).result, kInvalid);
  }
  EXPECT_EQ(memory_.GetAccess(base, Device(0)), kReadWrite);
}

TEST_P(DeviceMemoryAccessTest, TheHostAccessesNothingButItsOwnMemory) {
  const DevicePtr base = memory_.Reserve(3);
  memory_.Map(base, memory_.Create(PropAt(Host())));
  memory_.Map(memory_.At(base, 1), memory_.Create(PropAt(HostNode())));
  memory_.Map(memory_.At(base, 2), memory_.Create());
  EXPECT_EQ(memory_.TrySetAccess(base, 2, {{Host(), kReadWrite}}), kOk);
  EXPECT_EQ(memory_.TrySetAccess(base, 2, {{HostNode(), kReadWrite}}), kOk);
  // All or nothing.
  EXPECT_EQ(memory_.TrySetAccess(base, 3, {{HostNode(), kNone}}), kInvalid);
  EXPECT_EQ(memory_.GetAccess(base, Host()), kReadWrite);
  EXPECT_EQ(memory_.GetAccess(memory_.At(base, 2), Host()), kNone);
}

TEST_P(DeviceMemoryAccessTest, WithoutPeersADeviceAccessesItsOwnAndTheHosts) {
  cpu::MemoryOptions options = SmallMemory();
  options.peer_access = false;
  TestMemory memory(GetParam(), options);
  const DevicePtr base = memory.Reserve(3);
  memory.Map(base, memory.Create(PropAt(Device(0))));
  memory.Map(memory.At(base, 1), memory.Create(PropAt(Device(1))));
  memory.Map(memory.At(base, 2), memory.Create(PropAt(Host())));
  for (int device = 0; device < 2; ++device) {
    const std::vector<AccessDesc> descs = {{Device(device), kReadWrite}};
    EXPECT_EQ(memory.TrySetAccess(base, 1, descs),
              device == 0 ? kOk : kInvalid);
    EXPECT_EQ(memory.TrySetAccess(memory.At(base, 1), 1, descs),
              device == 1 ? kOk : kInvalid);
    EXPECT_EQ(memory.TrySetAccess(memory.At(base, 2), 1, descs), kOk);
    EXPECT_EQ(memory.TrySetAccess(base, 3, descs), kInvalid);
  }
}

TEST_P(DeviceMemoryAccessTest, EachDeviceHasMemoryOfItsOwn) {
  memory_.Create(PropAt(Device(1)), 10);
  EXPECT_EQ(memory_.FreeGranules(0), kMemoryGranules);
  EXPECT_EQ(memory_.FreeGranules(1), kMemoryGranules - 10);
  EXPECT_EQ(memory_.TryCreate(PropAt(Device(1)), 7), kNoMemory);
  EXPECT_EQ(memory_.TryCreate(PropAt(Device(0)), 16), kOk);
  // The host's counts against no device.
  EXPECT_EQ(memory_.TryCreate(PropAt(Host()), 4 * kMemoryGranules), kOk);
  EXPECT_EQ(memory_.TryCreate(PropAt(HostNode()), 4 * kMemoryGranules), kOk);
  EXPECT_EQ(memory_.FreeGranules(0), 0u);
  EXPECT_EQ(memory_.FreeGranules(1), 6u);
}

TEST(DeviceMemoryHostTest, MemoryOfTheHostIsRefusedBeyondWhatTheHostHas) {
  TestMemory memory(/*real=*/true);
  const uint64_t granules = cpu::HostAvailableBytes() / kMemoryGranule;
  EXPECT_EQ(memory.TryCreate(PropAt(Host()), 2 * granules), kNoMemory);
  EXPECT_EQ(memory->live_handles(), 0u);
}

TEST_P(DeviceMemoryAccessTest, OneHandleMoreThanTheLimitIsRefused) {
  cpu::MemoryOptions options = SmallMemory();
  options.max_handles = 3;
  TestMemory memory(GetParam(), options);
  const PhysicalHandle shared = memory.Create(ShareablePropAt(Device(0)));
  const int file = memory.Export(shared);
  memory.Create();
  const DevicePtr base = memory.Reserve(1);
  const PhysicalHandle mapped = memory.Create();
  memory.Map(base, mapped);
  EXPECT_EQ(memory.TryCreate(PropAt(Device(0))), kNoMemory);
  PhysicalHandle imported = 77;
  EXPECT_EQ(memory.TryImport(file, &imported), kNoMemory);
  EXPECT_EQ(imported, 77u);
  // A mapping keeps a handle.
  memory.Release(mapped);
  EXPECT_EQ(memory->live_handles(), 3u);
  EXPECT_EQ(memory.TryImport(file, &imported), kNoMemory);
  memory.Unmap(base);
  EXPECT_EQ(memory->live_handles(), 2u);
  EXPECT_EQ(memory.TryImport(file, &imported), kOk);
  EXPECT_EQ(close(file), 0);
}

TEST_P(DeviceMemoryAccessTest, AccessBeyondTheLimitOfMappingsChangesNothing) {
  cpu::MemoryOptions options = SmallMemory();
  options.max_mappings = 3;
  TestMemory memory(GetParam(), options);
  const DevicePtr base = memory.Reserve(6);
  // A mapping counts once, however many granules and locations it has, and not
  // before it is accessible.
  memory.Map(base, memory.Create(2), 2);
  for (uint64_t i = 2; i < 6; ++i)
    memory.Map(memory.At(base, i), memory.Create());
  EXPECT_EQ(memory->live_mappings(), 5u);
  memory.SetAccess(base, 3);
  memory.SetAccess(base, 3, 1);
  EXPECT_EQ(memory.TrySetAccess(base, 5, {{Device(0), kRead}}), kNoMemory);
  EXPECT_EQ(memory.GetAccess(base, Device(0)), kReadWrite);
  EXPECT_EQ(memory.GetAccess(memory.At(base, 3), Device(0)), kNone);
  memory.SetAccess(memory.At(base, 3));
  EXPECT_EQ(memory.TrySetAccess(memory.At(base, 4), 1, {{Device(0), kRead}}),
            kNoMemory);
  // Taking away is always right, and makes room as unmapping does.
  EXPECT_EQ(memory.TrySetAccess(base, 6, {{Device(0), kNone}}), kOk);
  memory.SetAccess(memory.At(base, 4));
  memory.Unmap(base, 2);
  memory.SetAccess(memory.At(base, 5));
  EXPECT_EQ(memory.TrySetAccess(memory.At(base, 3), 1, {{Device(0), kRead}}),
            kNoMemory);
}

TEST_P(DeviceMemoryAccessTest, WorkIsCheckedByTheByteAndTheDevice) {
  const DevicePtr base = memory_.Reserve(3);
  for (uint64_t i = 0; i < 3; ++i) {
    memory_.Map(memory_.At(base, i), memory_.Create());
  }
  memory_.SetAccess(base, 1);
  memory_.SetAccess(memory_.At(base, 1), 1, 0, kRead);
  EXPECT_TRUE(memory_.Permits(0, base, kMemoryGranule, true));
  EXPECT_FALSE(memory_.Permits(0, base, kMemoryGranule + 1, true));
  EXPECT_TRUE(memory_.Permits(0, base, 2 * kMemoryGranule, false));
  EXPECT_FALSE(memory_.Permits(0, base, 2 * kMemoryGranule + 1, false));
  EXPECT_TRUE(memory_.Permits(0, memory_.At(base, 2) - 1, 1, false));
  EXPECT_FALSE(memory_.Permits(0, base - 1, 2, false));
  EXPECT_FALSE(memory_.Permits(1, base, 1, false));
  EXPECT_TRUE(memory_.Permits(0, base, 0, true));
  EXPECT_FALSE(memory_.Permits(0, base, ~uint64_t{0}, false));
  EXPECT_FALSE(memory_.Permits(0, 64, 1, false));
}

TEST_P(DeviceMemoryAccessTest, WorkSpansReservationsThatTouch) {
  // Others of the process may be faster to take what is given back.
  constexpr int kTries = 16;
  DevicePtr both = 0;
  for (int i = 0; i < kTries && both == 0; ++i) both = ReserveNeighbours();
  if (both == 0) GTEST_SKIP() << "the host gives no neighbouring addresses";
  for (uint64_t i = 0; i < 2; ++i) {
    memory_.Map(memory_.At(both, i), memory_.Create());
    memory_.SetAccess(memory_.At(both, i));
  }
  EXPECT_TRUE(memory_.Permits(0, both, 2 * kMemoryGranule, true));
  EXPECT_EQ(memory_.TrySetAccess(both, 2, {{Device(0), kRead}}), kInvalid);
}

TEST_P(DeviceMemoryAccessTest, WhatWasUnmappedSinceIsNotForEarlierWork) {
  const DevicePtr base = memory_.Reserve(2);
  const PhysicalHandle handle = memory_.Create();
  memory_.Map(base, handle);
  memory_.SetAccess(base);
  memory_.Map(memory_.At(base, 1), handle);
  memory_.SetAccess(memory_.At(base, 1));
  const uint64_t queued = memory_->unmap_epoch();
  EXPECT_TRUE(memory_.Permits(0, base, 2 * kMemoryGranule, true, queued));
  memory_.Unmap(base);
  EXPECT_GT(memory_->unmap_epoch(), queued);
  memory_.Map(base, handle);
  memory_.SetAccess(base);
  EXPECT_FALSE(memory_.Permits(0, base, 1, true, queued));
  EXPECT_TRUE(memory_.Permits(0, base, 1, true, memory_->unmap_epoch()));
  // The neighbour was not touched.
  EXPECT_TRUE(memory_.Permits(0, memory_.At(base, 1), 1, true, queued));
  // A refused unmap is none.
  EXPECT_EQ(memory_.TryUnmap(base, 3), kInvalid);
  EXPECT_EQ(memory_->unmap_epoch(), queued + 1);
}

TEST_P(DeviceMemoryAccessTest, ANewReservationDoesNotHideAnUnmap) {
  const DevicePtr base = memory_.NewMemory();
  const uint64_t queued = memory_->unmap_epoch();
  memory_.Unmap(base);
  ASSERT_TRUE(memory_->Unreserve(base, kMemoryGranule).ok());
  ASSERT_EQ(ReserveAt(base), base);
  memory_.Map(base, memory_.Create());
  memory_.SetAccess(base);
  EXPECT_FALSE(memory_.Permits(0, base, 1, true, queued));
  EXPECT_TRUE(memory_.Permits(0, base, 1, true, memory_->unmap_epoch()));
}

TEST_P(DeviceMemoryAccessTest, WorkMayWaitForAddressesReservedLater) {
  const DevicePtr once = memory_.NewMemory();
  memory_.Unmap(once);
  ASSERT_TRUE(memory_->Unreserve(once, kMemoryGranule).ok());
  // By now there is nothing at these addresses, nor was there ever at those of
  // `fresh`.
  const uint64_t queued = memory_->unmap_epoch();
  const DevicePtr again = ReserveAt(once);
  const DevicePtr fresh = memory_.Reserve(1);
  // Elsewhere life goes on.
  const DevicePtr other = memory_.NewMemory();
  memory_.Unmap(other);
  ASSERT_TRUE(memory_->Unreserve(other, kMemoryGranule).ok());
  for (const DevicePtr address : {again, fresh}) {
    ASSERT_TRUE(memory_->Unreserve(address, kMemoryGranule).ok());
    ASSERT_EQ(ReserveAt(address), address);
    memory_.Map(address, memory_.Create());
    memory_.SetAccess(address);
    EXPECT_TRUE(memory_.Permits(0, address, kMemoryGranule, true, queued));
    memory_.Unmap(address);
    ASSERT_TRUE(memory_->Unreserve(address, kMemoryGranule).ok());
  }
}

TEST_P(DeviceMemoryAccessTest, ACheckTellsWhereTheBytesLie) {
  const DevicePtr base = memory_.Reserve(4);
  const PhysicalHandle two = memory_.Create(2);
  memory_.Map(base, two, 2);
  memory_.Map(memory_.At(base, 2), two, 2);
  memory_.SetAccess(base, 4);
  std::vector<PhysicalRange> physical(1);
  const AccessRange ranges[] = {{base + 100, 4 * kMemoryGranule - 300, true},
                                {base + 7, 1, false}};
  ASSERT_TRUE(memory_->CheckAccess(0, ranges, ~uint64_t{0}, &physical).ok());
  ASSERT_EQ(physical.size(), 4u);
  const PhysicalRange& first = physical[1];
  const PhysicalRange& alias = physical[2];
  EXPECT_NE(first.memory_id, 0u);
  EXPECT_EQ(first.memory_id, alias.memory_id);
  EXPECT_EQ(first.offset_bytes, 100u);
  EXPECT_EQ(first.bytes, 2 * kMemoryGranule - 100);
  EXPECT_EQ(first.address, base + 100);
  EXPECT_TRUE(first.writes);
  EXPECT_EQ(alias.offset_bytes, 0u);
  EXPECT_EQ(alias.bytes, 2 * kMemoryGranule - 200);
  EXPECT_EQ(alias.address, memory_.At(base, 2));
  EXPECT_EQ(physical[3].offset_bytes, 7u);
  EXPECT_FALSE(physical[3].writes);
  // A refusal adds nothing.
  const AccessRange bad[] = {{base, 1, true}, {64, 1, true}};
  EXPECT_FALSE(memory_->CheckAccess(0, bad, ~uint64_t{0}, &physical).ok());
  EXPECT_EQ(physical.size(), 4u);
}

TEST(DeviceMemoryMmuTest, TheMmuAllowsWhatAnyLocationMayDo) {
  TestMemory memory(/*real=*/true);
  const DevicePtr base = memory.NewMemory();
  ByteAt(base) = 17;
  // Each change leaves one location that may write.
  memory.SetAccess(base, 1, 1);
  memory.SetAccess(base, 1, 0, kNone);
  ByteAt(base) = static_cast<uint8_t>(ByteAt(base) + 1);
  memory.SetAccess(base, 1, 0);
  memory.SetAccess(base, 1, 1, kRead);
  ByteAt(base) = static_cast<uint8_t>(ByteAt(base) + 1);
  EXPECT_EQ(ByteAt(base), 19);
}

INSTANTIATE_TEST_SUITE_P(Storages, DeviceMemoryAccessTest, ::testing::Bool(),
                         MemoryKind);

}  // namespace
}  // namespace firn::cpu_testing
