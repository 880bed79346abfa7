// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Creating physical memory.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

DriverResult TryCreate(ContractDevice& device, const AllocationProp& prop) {
  size_t bytes = 0;
  if (device.MemGetAllocationGranularity(
          &bytes, &prop, GranularityKind::kMinimum) != DriverResult::kSuccess ||
      bytes < device.granule_bytes()) {
    bytes = device.granule_bytes();
  }
  PhysicalHandle handle = 0;
  return device.MemCreate(&handle, bytes, &prop, 0);
}

FIRN_CONTRACT(create, handles_differ,
              Inferred("cuda.h, cuMemCreate: a handle names one allocation")) {
  const PhysicalHandle a = device.Create();
  const PhysicalHandle b = device.Create();
  FIRN_HOLDS(a != b);
}

FIRN_CONTRACT(create, handle_is_never_zero,
              Observed("hip-tests, hipMemRelease.cc: 0 is no handle")) {
  FIRN_HOLDS(device.Create() != 0);
}

FIRN_CONTRACT(create, several_granules_make_one_allocation,
              Documented("cuda.h, cuMemCreate: a multiple of the "
                         "granularity")) {
  const DevicePtr address = device.MapAnywhere(device.Create(3), 3);
  const uint64_t bytes = 3 * device.granule_bytes();
  FIRN_WORKS(device.Fill(address, 0x41, bytes));
  FIRN_HOLDS(device.AllBytesAre(address, 0x41, bytes));
}

FIRN_CONTRACT(create, null_handle_is_refused,
              Observed("hip-tests, hipMemCreate.cc")) {
  const AllocationProp prop = device.Prop();
  FIRN_REFUSES(device.MemCreate(nullptr, device.granule_bytes(), &prop, 0));
}

FIRN_CONTRACT(create, null_properties_are_refused,
              Observed("hip-tests, hipMemCreate.cc")) {
  PhysicalHandle handle = 0;
  FIRN_REFUSES(device.MemCreate(&handle, device.granule_bytes(), nullptr, 0));
}

FIRN_CONTRACT(create, zero_bytes_are_refused,
              Observed("hip-tests, hipMemCreate.cc")) {
  PhysicalHandle handle = 0;
  const AllocationProp prop = device.Prop();
  FIRN_REFUSES(device.MemCreate(&handle, 0, &prop, 0));
}

FIRN_CONTRACT(create, bytes_are_a_multiple_of_the_granularity,
              Documented("cuda.h, cuMemCreate: size")) {
  PhysicalHandle handle = 0;
  const AllocationProp prop = device.Prop();
  FIRN_REFUSES(device.MemCreate(&handle, device.granule_bytes() - 1, &prop, 0));
  FIRN_REFUSES(device.MemCreate(
      &handle, device.granule_bytes() + device.granule_bytes() / 2, &prop, 0));
}

FIRN_CONTRACT(create, flags_are_zero,
              Documented("cuda.h, cuMemCreate: flags")) {
  PhysicalHandle handle = 0;
  const AllocationProp prop = device.Prop();
  FIRN_REFUSES(device.MemCreate(&handle, device.granule_bytes(), &prop, 1));
}

FIRN_CONTRACT(create, type_is_pinned, Observed("hip-tests, hipMemCreate.cc")) {
  AllocationProp prop = device.Prop();
  prop.type = AllocationType::kInvalid;
  FIRN_REFUSES(TryCreate(device, prop));
}

FIRN_CONTRACT(create, location_type_is_known,
              Observed("hip-tests, hipMemCreate.cc")) {
  AllocationProp prop = device.Prop();
  prop.location.type = LocationType::kInvalid;
  FIRN_REFUSES(TryCreate(device, prop));
}

FIRN_CONTRACT(create, device_exists, Observed("hip-tests, hipMemCreate.cc")) {
  int32_t count = 0;
  FIRN_WORKS(device.DeviceGetCount(&count));
  AllocationProp prop = device.Prop();
  prop.location.id = -1;
  FIRN_REFUSES(TryCreate(device, prop));
  prop.location.id = count;
  FIRN_REFUSES(TryCreate(device, prop));
}

FIRN_CONTRACT(create, unknown_handle_type_is_refused,
              Inferred("cuda.h, CUmemAllocationHandleType")) {
  AllocationProp prop = device.Prop();
  prop.requested_handle_types = static_cast<ShareableHandleType>(0x40);
  FIRN_REFUSES(TryCreate(device, prop));
}

FIRN_CONTRACT(create, fabric_handles_need_support,
              Observed("NCCL falls back from NOT_PERMITTED and NOT_SUPPORTED: "
                       "src/allocator.cc")) {
  FIRN_NEEDS(!device.Has(DeviceAttribute::kFabricHandles),
             "the device has fabric handles");
  AllocationProp prop = device.Prop();
  prop.requested_handle_types = ShareableHandleType::kFabric;
  FIRN_REFUSES(TryCreate(device, prop));
}

FIRN_CONTRACT(create, file_descriptors_may_be_asked_for,
              Documented("CUDA programming guide, virtual memory management: "
                         "shareable memory")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kPosixFileDescriptorHandles),
             "no handles as file descriptors");
  AllocationProp prop = device.Prop();
  prop.requested_handle_types = ShareableHandleType::kPosixFileDescriptor;
  FIRN_WORKS(TryCreate(device, prop));
}

FIRN_CONTRACT(create, rdma_may_be_asked_for_where_supported,
              Documented("cuda.h, CUmemAllocationProp and attribute 110")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kGpuDirectRdmaWithVmm), "no RDMA");
  AllocationProp prop = device.Prop();
  prop.alloc_flags.gpu_direct_rdma_capable = 1;
  FIRN_WORKS(TryCreate(device, prop));
}

FIRN_CONTRACT(create, reserved_bytes_are_zero,
              Strict("cuda.h has properties zeroed before use")) {
  AllocationProp prop = device.Prop();
  prop.alloc_flags.reserved[3] = 1;
  FIRN_GIVES(DriverResult::kInvalidValue, TryCreate(device, prop));
}

FIRN_CONTRACT(create, beyond_the_device_memory_is_out_of_memory,
              Documented("cuda.h, CUDA_ERROR_OUT_OF_MEMORY")) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  FIRN_WORKS(device.MemGetInfo(&free_bytes, &total_bytes));
  PhysicalHandle handle = 0;
  const AllocationProp prop = device.Prop();
  const uint64_t bytes =
      (total_bytes / device.granule_bytes() + 1) * device.granule_bytes();
  FIRN_GIVES(DriverResult::kOutOfMemory,
             device.MemCreate(&handle, bytes, &prop, 0));
  FIRN_HOLDS(device.Create() != 0);
}

FIRN_CONTRACT(create, any_device_may_be_the_location,
              Documented("cuda.h, cuMemCreate: the target device comes from "
                         "the properties"),
              kTwoDevices) {
  PhysicalHandle handle = 0;
  const AllocationProp prop = device.other().Prop();
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  AllocationProp reported;
  FIRN_WORKS(device.MemGetAllocationPropertiesFromHandle(&reported, handle));
  FIRN_EQUALS(device.other().ordinal(), reported.location.id);
}

// --- host memory ---

FIRN_CONTRACT(create, host_memory_ignores_the_id,
              Documented("cuda.h, cuMemCreate: HOST")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostVirtualMemoryManagement),
             "no host memory");
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHost, 0};
  FIRN_WORKS(TryCreate(device, prop));
  prop.location.id = 12345;
  FIRN_WORKS(TryCreate(device, prop));
}

FIRN_CONTRACT(create, host_memory_is_never_shareable,
              Documented("cuda.h, cuMemCreate: HOST, INVALID_VALUE")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostVirtualMemoryManagement),
             "no host memory");
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHost, 0};
  prop.requested_handle_types = ShareableHandleType::kPosixFileDescriptor;
  FIRN_GIVES(DriverResult::kInvalidValue, TryCreate(device, prop));
}

FIRN_CONTRACT(create, host_numa_memory_has_a_node,
              Documented("cuda.h, cuMemCreate: HOST_NUMA")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostNumaVirtualMemoryManagement),
             "no NUMA memory");
  int32_t node = 0;
  FIRN_WORKS(device.DeviceGetAttribute(&node, DeviceAttribute::kHostNumaId));
  AllocationProp prop = device.Prop();
  // Without NUMA the node is 0.
  prop.location = {LocationType::kHostNuma, node < 0 ? 0 : node};
  size_t bytes = 0;
  FIRN_WORKS(device.MemGetAllocationGranularity(&bytes, &prop,
                                                GranularityKind::kMinimum));
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, bytes, &prop, 0));
}

FIRN_CONTRACT(create, host_numa_node_exists,
              Inferred("cuda.h, cuMemCreate: the id must be that of a node")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostNumaVirtualMemoryManagement),
             "no NUMA memory");
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHostNuma, 100'000};
  FIRN_REFUSES(TryCreate(device, prop));
}

FIRN_CONTRACT(create, host_numa_current_is_invalid,
              Documented("cuda.h, cuMemCreate: HOST_NUMA_CURRENT, "
                         "INVALID_VALUE")) {
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHostNumaCurrent, 0};
  FIRN_GIVES(DriverResult::kInvalidValue, TryCreate(device, prop));
}

}  // namespace
}  // namespace firn::contract
