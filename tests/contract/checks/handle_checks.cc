// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What keeps physical memory alive, and what a handle says about it.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

// --- release ---

FIRN_CONTRACT(release, while_mapped_keeps_contents,
              Documented("cuda.h, cuMemRelease: outstanding mappings")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.FillGranule(address, 0x2a));
  FIRN_WORKS(device.MemRelease(handle));
  // What is created next must not get that memory.
  const DevicePtr next = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.FillGranule(next, 0x2b));
  FIRN_HOLDS(device.GranuleIs(address, 0x2a));
}

FIRN_CONTRACT(release, then_unmap_works,
              Observed("hip-tests, hipMemUnmap.cc")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.MemAddressFree(address, device.granule_bytes()));
}

FIRN_CONTRACT(release, gives_memory_back, Documented("cuda.h, cuMemRelease"),
              kOwnMemoryInfo) {
  const uint64_t before = device.FreeBytes();
  const PhysicalHandle handle = device.Create(4);
  FIRN_EQUALS(before - 4 * device.granule_bytes(), device.FreeBytes());
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(release, memory_goes_with_the_last_mapping,
              Documented("cuda.h, cuMemRelease: once all mappings and "
                         "references are gone"),
              kOwnMemoryInfo) {
  const uint64_t before = device.FreeBytes();
  const PhysicalHandle handle = device.Create();
  const DevicePtr a = device.MapAnywhere(handle);
  const DevicePtr b = device.MapAnywhere(handle);
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_WORKS(device.Unmap(a));
  FIRN_EQUALS(before - device.granule_bytes(), device.FreeBytes());
  FIRN_WORKS(device.Unmap(b));
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(release, makes_room_for_creation,
              Inferred("cuda.h, cuMemRelease: memory is freed"),
              kOwnMemoryInfo) {
  const uint64_t granules = device.FreeBytes() / device.granule_bytes();
  const AllocationProp prop = device.Prop();
  PhysicalHandle second = 0;
  const PhysicalHandle first = device.Create(granules);
  FIRN_GIVES(DriverResult::kOutOfMemory,
             device.MemCreate(&second, device.granule_bytes(), &prop, 0));
  FIRN_WORKS(device.MemRelease(first));
  FIRN_WORKS(device.MemCreate(&second, device.granule_bytes(), &prop, 0));
}

FIRN_CONTRACT(release, zero_is_refused,
              Observed("hip-tests, hipMemRelease.cc")) {
  FIRN_REFUSES(device.MemRelease(0));
}

FIRN_CONTRACT(release, unknown_handle_is_refused,
              Strict("undefined in cuda.h, cuMemRelease")) {
  FIRN_REFUSES(device.MemRelease(0x123456789abcdef));
}

FIRN_CONTRACT(release, second_time_is_refused,
              Strict("undefined in cuda.h, cuMemRelease")) {
  const PhysicalHandle handle = device.Create();
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_REFUSES(device.MemRelease(handle));
}

FIRN_CONTRACT(release, released_handle_cannot_be_mapped,
              Strict("undefined in cuda.h, cuMemRelease")) {
  const DevicePtr address = device.Reserve(1);
  const PhysicalHandle handle = device.Create();
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_REFUSES(device.Map(address, handle));
}

FIRN_CONTRACT(release, handle_values_are_not_used_again,
              Strict("a stale handle must not name other memory")) {
  const PhysicalHandle first = device.Create();
  FIRN_WORKS(device.MemRelease(first));
  for (int i = 0; i < 20; ++i) {
    const PhysicalHandle handle = device.Create();
    FIRN_HOLDS(handle != first);
    FIRN_WORKS(device.MemRelease(handle));
  }
}

// --- retain ---

FIRN_CONTRACT(retain, returns_the_handle_used_to_map,
              Documented("cuda.h, cuMemRetainAllocationHandle")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  PhysicalHandle retained = 0;
  FIRN_WORKS(device.MemRetainAllocationHandle(&retained, address));
  FIRN_EQUALS(handle, retained);
}

FIRN_CONTRACT(retain, takes_any_address_inside,
              Documented("cuda.h, cuMemRetainAllocationHandle: note")) {
  const PhysicalHandle handle = device.Create(2);
  const DevicePtr address = device.MapAnywhere(handle, 2);
  PhysicalHandle retained = 0;
  FIRN_WORKS(
      device.MemRetainAllocationHandle(&retained, device.At(address, 2) - 1));
  FIRN_EQUALS(handle, retained);
}

FIRN_CONTRACT(retain, adds_a_reference,
              Documented("cuda.h, cuMemRetainAllocationHandle: to be "
                         "released")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.FillGranule(address, 0x66));
  PhysicalHandle retained = 0;
  FIRN_WORKS(device.MemRetainAllocationHandle(&retained, address));
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_WORKS(device.Unmap(address));
  // Only the retained reference is left.
  const DevicePtr again = device.Reserve(1);
  FIRN_WORKS(device.Map(again, retained));
  FIRN_WORKS(device.SetAccess(again, 1));
  FIRN_HOLDS(device.GranuleIs(again, 0x66));
}

FIRN_CONTRACT(retain, works_on_a_released_handle_that_is_mapped,
              Documented("cuda.h, cuMemRetainAllocationHandle: of the backing "
                         "memory of an address")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.MemRelease(handle));
  PhysicalHandle retained = 0;
  FIRN_WORKS(device.MemRetainAllocationHandle(&retained, address));
  FIRN_EQUALS(handle, retained);
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.Map(address, retained));
}

FIRN_CONTRACT(retain, each_is_paired_with_a_release,
              Documented("cuda.h, cuMemRetainAllocationHandle"),
              kOwnMemoryInfo) {
  const uint64_t before = device.FreeBytes();
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  PhysicalHandle retained = 0;
  FIRN_WORKS(device.MemRetainAllocationHandle(&retained, address));
  FIRN_WORKS(device.MemRetainAllocationHandle(&retained, address));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_EQUALS(before - device.granule_bytes(), device.FreeBytes());
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(retain, refuses_what_is_not_mapped,
              Documented("cuda.h, cuMemRetainAllocationHandle: will fail")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(address, device.Create()));
  PhysicalHandle retained = 0;
  FIRN_REFUSES(
      device.MemRetainAllocationHandle(&retained, device.At(address, 1)));
  FIRN_WORKS(device.Unmap(address));
  FIRN_REFUSES(device.MemRetainAllocationHandle(&retained, address));
}

FIRN_CONTRACT(retain, null_output_is_refused,
              Observed("hip-tests, hipMemRetainAllocationHandle.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_REFUSES(device.MemRetainAllocationHandle(nullptr, address));
}

// --- properties ---

FIRN_CONTRACT(properties, are_those_of_creation,
              Documented("cuda.h, cuMemGetAllocationPropertiesFromHandle")) {
  AllocationProp prop;
  FIRN_WORKS(
      device.MemGetAllocationPropertiesFromHandle(&prop, device.Create()));
  FIRN_HOLDS(prop.type == AllocationType::kPinned);
  FIRN_HOLDS(prop.location.type == LocationType::kDevice);
  FIRN_EQUALS(device.ordinal(), prop.location.id);
  FIRN_HOLDS(prop.requested_handle_types == ShareableHandleType::kNone);
  FIRN_EQUALS(0, static_cast<int>(prop.alloc_flags.gpu_direct_rdma_capable));
}

FIRN_CONTRACT(properties, tell_the_handle_types,
              Documented("cuda.h, cuMemGetAllocationPropertiesFromHandle")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kPosixFileDescriptorHandles),
             "no handles as file descriptors");
  AllocationProp prop = device.Prop();
  prop.requested_handle_types = ShareableHandleType::kPosixFileDescriptor;
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  AllocationProp reported;
  FIRN_WORKS(device.MemGetAllocationPropertiesFromHandle(&reported, handle));
  FIRN_HOLDS(reported.requested_handle_types ==
             ShareableHandleType::kPosixFileDescriptor);
}

FIRN_CONTRACT(properties, tell_whether_rdma_was_asked_for,
              Documented("cuda.h, cuMemGetAllocationPropertiesFromHandle")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kGpuDirectRdmaWithVmm), "no RDMA");
  AllocationProp prop = device.Prop();
  prop.alloc_flags.gpu_direct_rdma_capable = 1;
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  AllocationProp reported;
  FIRN_WORKS(device.MemGetAllocationPropertiesFromHandle(&reported, handle));
  FIRN_EQUALS(1,
              static_cast<int>(reported.alloc_flags.gpu_direct_rdma_capable));
}

FIRN_CONTRACT(properties, tell_a_host_location,
              Documented("cuda.h, cuMemGetAllocationPropertiesFromHandle")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostNumaVirtualMemoryManagement),
             "no NUMA memory");
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHostNuma, 0};
  size_t bytes = 0;
  FIRN_WORKS(device.MemGetAllocationGranularity(&bytes, &prop,
                                                GranularityKind::kMinimum));
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, bytes, &prop, 0));
  AllocationProp reported;
  FIRN_WORKS(device.MemGetAllocationPropertiesFromHandle(&reported, handle));
  FIRN_HOLDS(reported.location.type == LocationType::kHostNuma);
  FIRN_EQUALS(0, reported.location.id);
}

FIRN_CONTRACT(properties, null_output_is_refused,
              Observed("hip-tests, "
                       "hipMemGetAllocationPropertiesFromHandle.cc")) {
  FIRN_REFUSES(
      device.MemGetAllocationPropertiesFromHandle(nullptr, device.Create()));
}

FIRN_CONTRACT(properties, zero_handle_is_refused,
              Observed("hip-tests, "
                       "hipMemGetAllocationPropertiesFromHandle.cc")) {
  AllocationProp prop;
  FIRN_REFUSES(device.MemGetAllocationPropertiesFromHandle(&prop, 0));
}

FIRN_CONTRACT(properties, unknown_handle_is_refused,
              Strict("NVIDIA's driver need not notice")) {
  AllocationProp prop;
  FIRN_REFUSES(
      device.MemGetAllocationPropertiesFromHandle(&prop, 0x123456789abcdef));
}

}  // namespace
}  // namespace firn::contract
