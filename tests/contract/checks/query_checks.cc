// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the driver says about addresses and about free memory.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

template <typename T>
DriverResult GetAttribute(ContractDevice& device, PointerAttribute attribute,
                          DevicePtr address, T* value) {
  return device.PointerGetAttribute(value, attribute, address);
}

// --- address_range ---

FIRN_CONTRACT(address_range, is_the_mapping,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_RANGE_SIZE: the mapped "
                         "region comes from cuMemGetAddressRange")) {
  const DevicePtr address = device.Reserve(4);
  FIRN_WORKS(device.Map(device.At(address, 1), device.Create(2), 2));
  FIRN_WORKS(device.SetAccess(device.At(address, 1), 2));
  DevicePtr base = 0;
  size_t bytes = 0;
  FIRN_WORKS(
      device.MemGetAddressRange(&base, &bytes, device.At(address, 2) + 100));
  FIRN_EQUALS(device.At(address, 1), base);
  FIRN_EQUALS(2 * device.granule_bytes(), uint64_t{bytes});
}

FIRN_CONTRACT(address_range, ends_with_the_handle,
              Observed("openucx issue 11461: only the first of several "
                       "handles")) {
  const DevicePtr address = device.MapRow(3);
  DevicePtr base = 0;
  size_t bytes = 0;
  FIRN_WORKS(device.MemGetAddressRange(&base, &bytes, device.At(address, 1)));
  FIRN_EQUALS(device.At(address, 1), base);
  FIRN_EQUALS(device.granule_bytes(), uint64_t{bytes});
}

FIRN_CONTRACT(address_range, outputs_are_optional,
              Documented("cuda.h, cuMemGetAddressRange: both are optional")) {
  const DevicePtr address = device.MapRow();
  DevicePtr base = 0;
  size_t bytes = 0;
  FIRN_WORKS(device.MemGetAddressRange(&base, nullptr, address));
  FIRN_WORKS(device.MemGetAddressRange(nullptr, &bytes, address));
  FIRN_EQUALS(address, base);
  FIRN_EQUALS(device.granule_bytes(), uint64_t{bytes});
}

FIRN_CONTRACT(address_range, refuses_unknown_addresses,
              Documented("cuda.h, cuMemGetAddressRange lists INVALID_VALUE, "
                         "NOT_FOUND")) {
  DevicePtr base = 0;
  size_t bytes = 0;
  int on_the_stack = 0;
  FIRN_REFUSES(device.MemGetAddressRange(
      &base, &bytes, reinterpret_cast<uintptr_t>(&on_the_stack)));
}

FIRN_CONTRACT(address_range, refuses_what_is_not_mapped,
              Strict("cuda.h names no range for a bare reservation")) {
  const DevicePtr address = device.Reserve(1);
  DevicePtr base = 0;
  size_t bytes = 0;
  FIRN_REFUSES(device.MemGetAddressRange(&base, &bytes, address));
}

// --- pointer ---

FIRN_CONTRACT(pointer, range_is_the_reservation,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR")) {
  const DevicePtr address = device.Reserve(4);
  FIRN_WORKS(device.Map(device.At(address, 2), device.Create()));
  FIRN_WORKS(device.SetAccess(device.At(address, 2), 1));
  DevicePtr start = 0;
  size_t bytes = 0;
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kRangeStart,
                          device.At(address, 2) + 8, &start));
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kRangeBytes,
                          device.At(address, 2) + 8, &bytes));
  FIRN_EQUALS(address, start);
  FIRN_EQUALS(4 * device.granule_bytes(), uint64_t{bytes});
}

FIRN_CONTRACT(pointer, tells_whether_it_is_mapped,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_MAPPED")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_WORKS(device.SetAccess(address, 1));
  bool mapped = false;
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kMapped, address, &mapped));
  FIRN_HOLDS(mapped);
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kMapped,
                          device.At(address, 1), &mapped));
  FIRN_HOLDS(!mapped);
}

FIRN_CONTRACT(pointer, mapping_is_the_mapping,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR and "
                         "_SIZE")) {
  const DevicePtr address = device.Reserve(4);
  FIRN_WORKS(device.Map(device.At(address, 1), device.Create(2), 2));
  FIRN_WORKS(device.SetAccess(device.At(address, 1), 2));
  DevicePtr start = 0;
  size_t bytes = 0;
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kMappingStart,
                          device.At(address, 2), &start));
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kMappingBytes,
                          device.At(address, 2), &bytes));
  FIRN_EQUALS(device.At(address, 1), start);
  FIRN_EQUALS(2 * device.granule_bytes(), uint64_t{bytes});
}

FIRN_CONTRACT(pointer, memory_type_is_device,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_MEMORY_TYPE")) {
  const DevicePtr address = device.MapRow();
  uint32_t type = 0;
  FIRN_WORKS(
      GetAttribute(device, PointerAttribute::kMemoryType, address, &type));
  FIRN_EQUALS(2u, type);
}

FIRN_CONTRACT(pointer, ordinal_is_that_of_the_memory,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: the "
                         "device it was allocated against"),
              kTwoDevices) {
  const DevicePtr address = device.other().MapRow();
  FIRN_WORKS(device.SetAccess(address, 1));
  int32_t ordinal = -1;
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kDeviceOrdinal, address,
                          &ordinal));
  FIRN_EQUALS(device.other().ordinal(), ordinal);
}

FIRN_CONTRACT(pointer, legacy_ipc_is_impossible,
              Observed("NCCL tells such memory by it: src/register.cc")) {
  const DevicePtr address = device.MapRow();
  bool capable = true;
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kIsLegacyIpcCapable,
                          address, &capable));
  FIRN_HOLDS(!capable);
}

FIRN_CONTRACT(pointer, tells_the_allowed_handle_types,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kPosixFileDescriptorHandles),
             "no handles as file descriptors");
  AllocationProp prop = device.Prop();
  prop.requested_handle_types = ShareableHandleType::kPosixFileDescriptor;
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  uint64_t types = 0;
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kAllowedHandleTypes,
                          device.MapAnywhere(handle), &types));
  FIRN_EQUALS(uint64_t{1}, types);
  FIRN_WORKS(GetAttribute(device, PointerAttribute::kAllowedHandleTypes,
                          device.MapRow(), &types));
  FIRN_EQUALS(uint64_t{0}, types);
}

FIRN_CONTRACT(pointer, tells_the_access_of_the_device,
              Documented("cuda.h, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS")) {
  const DevicePtr address = device.MapRow();
  int32_t flags = 0;
  FIRN_WORKS(
      GetAttribute(device, PointerAttribute::kAccessFlags, address, &flags));
  FIRN_EQUALS(3, flags);
}

FIRN_CONTRACT(pointer, unknown_address_is_refused,
              Documented("cuda.h, cuPointerGetAttribute: INVALID_VALUE")) {
  int on_the_stack = 0;
  uint32_t type = 0;
  FIRN_REFUSES(GetAttribute(device, PointerAttribute::kMemoryType,
                            reinterpret_cast<uintptr_t>(&on_the_stack), &type));
}

FIRN_CONTRACT(pointer, null_output_is_refused,
              Inferred("cuda.h, cuPointerGetAttribute: INVALID_VALUE")) {
  const DevicePtr address = device.MapRow();
  FIRN_REFUSES(
      device.PointerGetAttribute(nullptr, PointerAttribute::kMapped, address));
}

// --- memory_info ---

FIRN_CONTRACT(memory_info, free_is_part_of_total,
              Documented("cuda.h, cuMemGetInfo")) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  FIRN_WORKS(device.MemGetInfo(&free_bytes, &total_bytes));
  FIRN_HOLDS(free_bytes <= total_bytes);
  FIRN_HOLDS(total_bytes > 0);
}

FIRN_CONTRACT(memory_info, creation_takes_what_it_says,
              Inferred("cuda.h, cuMemCreate"), kOwnMemoryInfo) {
  const uint64_t before = device.FreeBytes();
  (void)device.Create(3);
  FIRN_EQUALS(before - 3 * device.granule_bytes(), device.FreeBytes());
}

FIRN_CONTRACT(memory_info, addresses_and_mappings_take_nothing,
              Documented("cuda.h, cuMemAddressReserve and cuMemMap: no memory "
                         "is created"),
              kOwnMemoryInfo) {
  const PhysicalHandle handle = device.Create();
  const uint64_t before = device.FreeBytes();
  (void)device.MapAnywhere(handle);
  (void)device.MapAnywhere(handle);
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(memory_info, devices_are_counted_apart,
              Documented("cuda.h, cuMemGetInfo: of the current context"),
              kTwoDevices | kOwnMemoryInfo) {
  const uint64_t before = device.FreeBytes();
  (void)device.other().Create(2);
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(memory_info, host_memory_is_not_the_devices,
              Documented("cuda.h, cuMemCreate: a CPU allocation"),
              kOwnMemoryInfo) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostNumaVirtualMemoryManagement),
             "no NUMA memory");
  const uint64_t before = device.FreeBytes();
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHostNuma, 0};
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  FIRN_EQUALS(before, device.FreeBytes());
}

}  // namespace
}  // namespace firn::contract
