// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Devices, and the granularity of their memory.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

// --- device ---

FIRN_CONTRACT(device, count_includes_this_device,
              Documented("cuda.h, cuDeviceGetCount")) {
  int32_t count = 0;
  FIRN_WORKS(device.DeviceGetCount(&count));
  FIRN_HOLDS(count > device.ordinal());
}

FIRN_CONTRACT(device, has_virtual_memory_management,
              Documented("CUDA programming guide, virtual memory management: "
                         "query for support")) {
  int32_t value = 0;
  FIRN_WORKS(device.DeviceGetAttribute(
      &value, DeviceAttribute::kVirtualMemoryManagement));
  FIRN_EQUALS(1, value);
}

FIRN_CONTRACT(device, has_unified_addressing,
              Documented("cuda.h, cuMemAddressReserve: needs UVA")) {
  int32_t value = 0;
  FIRN_WORKS(
      device.DeviceGetAttribute(&value, DeviceAttribute::kUnifiedAddressing));
  FIRN_EQUALS(1, value);
}

FIRN_CONTRACT(device, unknown_attribute_is_refused,
              Inferred("cuda.h, cuDeviceGetAttribute: INVALID_VALUE")) {
  int32_t value = 0;
  FIRN_REFUSES(
      device.DeviceGetAttribute(&value, static_cast<DeviceAttribute>(100'000)));
}

FIRN_CONTRACT(device, peers_can_access_each_other_or_not_alike,
              Inferred("cuda.h, cuDeviceCanAccessPeer"), kTwoDevices) {
  int32_t there = 0;
  int32_t back = 0;
  FIRN_WORKS(device.DeviceCanAccessPeer(&there, device.other().ordinal()));
  FIRN_WORKS(device.other().DeviceCanAccessPeer(&back, device.ordinal()));
  FIRN_EQUALS(there, back);
}

FIRN_CONTRACT(device, peer_that_does_not_exist_is_refused,
              Documented("cuda.h, cuDeviceCanAccessPeer: INVALID_DEVICE")) {
  int32_t count = 0;
  int32_t can_access = 0;
  FIRN_WORKS(device.DeviceGetCount(&count));
  FIRN_REFUSES(device.DeviceCanAccessPeer(&can_access, count));
}

// --- granularity ---

FIRN_CONTRACT(granularity, minimum_serves_size_alignment_and_mapping,
              Documented("cuda.h, cuMemGetAllocationGranularity")) {
  FIRN_HOLDS(device.granule_bytes() > 0);
  const AllocationProp prop = device.Prop();
  DevicePtr address = 0;
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemAddressReserve(&address, device.granule_bytes(),
                                      device.granule_bytes(), 0, 0));
  FIRN_EQUALS(uint64_t{0}, address % device.granule_bytes());
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  FIRN_WORKS(device.MemMap(address, device.granule_bytes(), 0, handle, 0));
}

FIRN_CONTRACT(granularity, recommended_is_a_multiple_of_the_minimum,
              Inferred("cuda.h, CUmemAllocationGranularity_flags")) {
  const AllocationProp prop = device.Prop();
  size_t bytes = 0;
  FIRN_WORKS(device.MemGetAllocationGranularity(&bytes, &prop,
                                                GranularityKind::kRecommended));
  FIRN_HOLDS(bytes > 0);
  FIRN_EQUALS(uint64_t{0}, bytes % device.granule_bytes());
}

FIRN_CONTRACT(granularity, null_output_is_refused,
              Observed("hip-tests, hipMemGetAllocationGranularity.cc")) {
  const AllocationProp prop = device.Prop();
  FIRN_REFUSES(device.MemGetAllocationGranularity(nullptr, &prop,
                                                  GranularityKind::kMinimum));
}

FIRN_CONTRACT(granularity, unknown_kind_is_refused,
              Observed("hip-tests, hipMemGetAllocationGranularity.cc")) {
  const AllocationProp prop = device.Prop();
  size_t bytes = 0;
  FIRN_REFUSES(device.MemGetAllocationGranularity(
      &bytes, &prop, static_cast<GranularityKind>(0xff)));
}

FIRN_CONTRACT(granularity, null_properties_are_refused,
              Strict("NVIDIA's driver was seen to crash here")) {
  size_t bytes = 0;
  FIRN_GIVES(DriverResult::kInvalidValue,
             device.MemGetAllocationGranularity(&bytes, nullptr,
                                                GranularityKind::kMinimum));
}

FIRN_CONTRACT(granularity, host_numa_memory_has_one,
              Observed("NCCL asks for it: src/include/alloc.h")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostNumaVirtualMemoryManagement),
             "no NUMA memory");
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHostNuma, 0};
  size_t bytes = 0;
  FIRN_WORKS(device.MemGetAllocationGranularity(&bytes, &prop,
                                                GranularityKind::kMinimum));
  FIRN_HOLDS(bytes > 0);
}

}  // namespace
}  // namespace firn::contract
