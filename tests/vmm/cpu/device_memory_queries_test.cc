// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the memory says about addresses and handles.

#include <cstdint>
#include <vector>

#include "firn/vmm/cpu/device_memory.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kInvalid = DriverResult::kInvalidValue;

class DeviceMemoryQueriesTest : public MemoryTest {
 protected:
  template <typename T>
  T Get(PointerAttribute attribute, DevicePtr address, int device = 0) {
    T value = T();
    TestMemory::ExpectOk(
        memory_->GetPointerAttribute(device, &value, attribute, address));
    return value;
  }
  DriverResult TryGet(PointerAttribute attribute, DevicePtr address) {
    uint64_t value = 0;
    return TestMemory::Check(
        memory_->GetPointerAttribute(0, &value, attribute, address));
  }

  TestMemory memory_{GetParam()};
};

TEST_P(DeviceMemoryQueriesTest, AnAddressRangeIsOneMapping) {
  const DevicePtr base = memory_.Reserve(6);
  memory_.Map(memory_.At(base, 1), memory_.Create(3), 3);
  memory_.Map(memory_.At(base, 4), memory_.Create());
  DevicePtr start = 0;
  size_t bytes = 0;
  const DevicePtr inside = memory_.At(base, 3) + 5;
  ASSERT_TRUE(memory_->GetAddressRange(&start, &bytes, inside).ok());
  EXPECT_EQ(start, memory_.At(base, 1));
  EXPECT_EQ(bytes, 3 * kMemoryGranule);
  ASSERT_TRUE(
      memory_->GetAddressRange(nullptr, &bytes, memory_.At(base, 4)).ok());
  EXPECT_EQ(bytes, kMemoryGranule);
  ASSERT_TRUE(
      memory_->GetAddressRange(&start, nullptr, memory_.At(base, 4)).ok());
  EXPECT_EQ(start, memory_.At(base, 4));
  for (const DevicePtr address : {base, memory_.At(base, 5), DevicePtr{64}}) {
    EXPECT_EQ(memory_->GetAddressRange(&start, &bytes, address).result,
              kInvalid);
  }
}

TEST_P(DeviceMemoryQueriesTest, RangeAttributesAreOfTheReservation) {
  const DevicePtr base = memory_.Reserve(6);
  memory_.Map(memory_.At(base, 1), memory_.Create(3), 3);
  for (const DevicePtr address : {base, memory_.At(base, 2) + 9}) {
    EXPECT_EQ(Get<DevicePtr>(PointerAttribute::kRangeStart, address), base);
    EXPECT_EQ(Get<size_t>(PointerAttribute::kRangeBytes, address),
              6 * kMemoryGranule);
  }
  EXPECT_FALSE(Get<bool>(PointerAttribute::kMapped, base));
  EXPECT_TRUE(Get<bool>(PointerAttribute::kMapped, memory_.At(base, 3)));
  EXPECT_EQ(
      Get<DevicePtr>(PointerAttribute::kMappingStart, memory_.At(base, 3)),
      memory_.At(base, 1));
  EXPECT_EQ(Get<size_t>(PointerAttribute::kMappingBytes, memory_.At(base, 3)),
            3 * kMemoryGranule);
}

TEST_P(DeviceMemoryQueriesTest, MappingAttributesNeedAMapping) {
  const DevicePtr base = memory_.Reserve(1);
  for (const PointerAttribute attribute :
       {PointerAttribute::kMemoryType, PointerAttribute::kDeviceOrdinal,
        PointerAttribute::kIsLegacyIpcCapable,
        PointerAttribute::kAllowedHandleTypes, PointerAttribute::kIsRdmaCapable,
        PointerAttribute::kAccessFlags, PointerAttribute::kMappingStart,
        PointerAttribute::kMappingBytes}) {
    EXPECT_EQ(TryGet(attribute, base), kInvalid);
  }
  for (const PointerAttribute attribute :
       {PointerAttribute::kRangeStart, PointerAttribute::kRangeBytes,
        PointerAttribute::kMapped, PointerAttribute::kMemoryType}) {
    EXPECT_EQ(TryGet(attribute, 64), kInvalid);
  }
  memory_.Map(base, memory_.Create());
  EXPECT_EQ(TryGet(PointerAttribute::kMemoryType, base), kOk);
  EXPECT_EQ(TryGet(static_cast<PointerAttribute>(3), base), kInvalid);
  EXPECT_EQ(
      memory_->GetPointerAttribute(0, nullptr, PointerAttribute::kMapped, base)
          .result,
      kInvalid);
}

TEST_P(DeviceMemoryQueriesTest, AnAddressTellsWhatItsMemoryIs) {
  AllocationProp prop = ShareablePropAt(Device(1));
  prop.alloc_flags.gpu_direct_rdma_capable = 1;
  const DevicePtr device = memory_.NewMemory(prop);
  const DevicePtr host = memory_.NewMemory(PropAt(Host()));
  memory_.SetAccess(device, 1, 1, AccessFlags::kRead);
  EXPECT_EQ(Get<uint32_t>(PointerAttribute::kMemoryType, device), 2u);
  EXPECT_EQ(Get<uint32_t>(PointerAttribute::kMemoryType, host), 1u);
  EXPECT_EQ(Get<int32_t>(PointerAttribute::kDeviceOrdinal, device), 1);
  EXPECT_EQ(Get<int32_t>(PointerAttribute::kDeviceOrdinal, host), -1);
  EXPECT_FALSE(Get<bool>(PointerAttribute::kIsLegacyIpcCapable, device));
  EXPECT_TRUE(Get<bool>(PointerAttribute::kIsRdmaCapable, device));
  EXPECT_FALSE(Get<bool>(PointerAttribute::kIsRdmaCapable, host));
  EXPECT_EQ(Get<uint64_t>(PointerAttribute::kAllowedHandleTypes, device), 1u);
  EXPECT_EQ(Get<uint64_t>(PointerAttribute::kAllowedHandleTypes, host), 0u);
  EXPECT_EQ(Get<int32_t>(PointerAttribute::kAccessFlags, device, 0), 3);
  EXPECT_EQ(Get<int32_t>(PointerAttribute::kAccessFlags, device, 1), 1);
}

TEST_P(DeviceMemoryQueriesTest, AHandleTellsThePropertiesItGot) {
  AllocationProp prop = ShareablePropAt(Device(1));
  prop.alloc_flags.gpu_direct_rdma_capable = 1;
  prop.alloc_flags.compression_type = 1;
  const PhysicalHandle handle = memory_.Create(prop);
  AllocationProp got;
  ASSERT_TRUE(memory_->GetProperties(&got, handle).ok());
  EXPECT_EQ(got.type, AllocationType::kPinned);
  EXPECT_EQ(got.requested_handle_types,
            ShareableHandleType::kPosixFileDescriptor);
  EXPECT_EQ(got.location.type, LocationType::kDevice);
  EXPECT_EQ(got.location.id, 1);
  EXPECT_EQ(got.alloc_flags.gpu_direct_rdma_capable, 1);
  // A wish that is not granted.
  EXPECT_EQ(got.alloc_flags.compression_type, 0);
  EXPECT_EQ(memory_->GetProperties(nullptr, handle).result, kInvalid);
  memory_.Release(handle);
  EXPECT_EQ(memory_->GetProperties(&got, handle).result, kInvalid);
}

TEST_P(DeviceMemoryQueriesTest, PropertiesAreCheckedByLocation) {
  const auto create = [this](const AllocationProp& prop) {
    return memory_.TryCreate(prop);
  };
  EXPECT_EQ(create(PropAt(Device(1))), kOk);
  EXPECT_EQ(create(PropAt(Device(2))), kInvalid);
  EXPECT_EQ(create(PropAt(MemLocation{LocationType::kHost, 55})), kOk);
  EXPECT_EQ(create(ShareablePropAt(Host())), kInvalid);
  EXPECT_EQ(create(ShareablePropAt(HostNode())), kOk);
  EXPECT_EQ(create(PropAt(HostNode(1))), kInvalid);
  EXPECT_EQ(create(PropAt(MemLocation{LocationType::kHostNumaCurrent, 0})),
            kInvalid);
  AllocationProp fabric = ShareablePropAt(Device(0));
  fabric.requested_handle_types = static_cast<ShareableHandleType>(9);
  EXPECT_EQ(create(fabric), DriverResult::kNotSupported);
  AllocationProp rdma = PropAt(Device(0));
  rdma.alloc_flags.gpu_direct_rdma_capable = 2;
  EXPECT_EQ(create(rdma), kInvalid);
}

TEST_P(DeviceMemoryQueriesTest, FreedMemoryIsToldOnce) {
  EXPECT_TRUE(memory_->TakeFreedMemory().empty());
  const DevicePtr base = memory_.Reserve(2);
  const PhysicalHandle handle = memory_.Create();
  memory_.Map(base, handle);
  memory_.Map(memory_.At(base, 1), handle);
  memory_.SetAccess(base, 2);
  std::vector<cpu::PhysicalRange> physical;
  const cpu::AccessRange range{base, 1, false};
  ASSERT_TRUE(memory_->CheckAccess(0, {range}, ~uint64_t{0}, &physical).ok());
  memory_.Release(handle);
  memory_.Unmap(base);
  EXPECT_TRUE(memory_->TakeFreedMemory().empty());
  memory_.Unmap(memory_.At(base, 1));
  EXPECT_EQ(memory_->TakeFreedMemory(),
            std::vector<uint64_t>{physical[0].memory_id});
  EXPECT_TRUE(memory_->TakeFreedMemory().empty());
  EXPECT_EQ(memory_->live_handles(), 0u);
  EXPECT_EQ(memory_->live_mappings(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Storages, DeviceMemoryQueriesTest, ::testing::Bool(),
                         MemoryKind);

}  // namespace
}  // namespace firn::cpu_testing
