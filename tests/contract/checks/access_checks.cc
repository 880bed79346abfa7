// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may access a mapping, and how.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

constexpr AccessFlags kNone = AccessFlags::kNone;
constexpr AccessFlags kRead = AccessFlags::kRead;
constexpr AccessFlags kReadWrite = AccessFlags::kReadWrite;

// Copies a word out, which takes an access right to read.
DriverResult TryRead(ContractDevice& device, DevicePtr address) {
  uint32_t word = 0;
  const StreamHandle stream = device.NewStream();
  const DriverResult result =
      device.MemcpyDtoHAsync(&word, address, sizeof(word), stream);
  (void)device.StreamSynchronize(stream);
  return result;
}

DriverResult TryDesc(ContractDevice& device, DevicePtr address,
                     MemLocation location, AccessFlags flags) {
  const AccessDesc desc{location, flags};
  return device.MemSetAccess(address, device.granule_bytes(), &desc, 1);
}

// --- set_access ---

FIRN_CONTRACT(set_access, read_write_allows_both,
              Documented("cuda.h, CUmemAccess_flags")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.FillGranule(address, 0x31));
  FIRN_HOLDS(device.GranuleIs(address, 0x31));
}

FIRN_CONTRACT(set_access, read_allows_reading_only,
              Observed("hip-tests, hipMemSetGetAccess.cc: a copy there is "
                       "refused")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.FillGranule(address, 0x32));
  FIRN_WORKS(device.SetAccess(address, 1, kRead));
  FIRN_HOLDS(device.GranuleIs(address, 0x32));
  FIRN_REFUSES(device.FillGranule(address, 0x33));
  FIRN_HOLDS(device.GranuleIs(address, 0x32));
}

FIRN_CONTRACT(set_access, none_takes_access_away,
              Observed("hip-tests, hipMemSetGetAccess.cc: a copy there is "
                       "refused")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.SetAccess(address, 1, kNone));
  FIRN_REFUSES(device.FillGranule(address, 0x33));
  FIRN_REFUSES(TryRead(device, address));
}

FIRN_CONTRACT(set_access, changes_keep_contents,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.FillGranule(address, 0x34));
  for (const AccessFlags flags : {kRead, kReadWrite, kNone, kRead}) {
    FIRN_WORKS(device.SetAccess(address, 1, flags));
  }
  FIRN_HOLDS(device.GranuleIs(address, 0x34));
}

FIRN_CONTRACT(set_access, spans_many_mappings,
              Documented("cuda.h, cuMemSetAccess: all allocations of the "
                         "range")) {
  const DevicePtr address = device.MapRow(6);
  FIRN_WORKS(device.Fill(address, 0x35, 6 * device.granule_bytes()));
  FIRN_HOLDS(device.AllBytesAre(address, 0x35, 6 * device.granule_bytes()));
}

FIRN_CONTRACT(set_access, leaves_other_mappings_alone,
              Inferred("cuda.h, cuMemSetAccess: of the given range")) {
  const DevicePtr address = device.MapRow(4);
  FIRN_WORKS(device.SetAccess(device.At(address, 1), 2, kNone));
  FIRN_WORKS(device.FillGranule(device.At(address, 0), 1));
  FIRN_REFUSES(device.FillGranule(device.At(address, 1), 1));
  FIRN_REFUSES(device.FillGranule(device.At(address, 2), 1));
  FIRN_WORKS(device.FillGranule(device.At(address, 3), 1));
}

FIRN_CONTRACT(set_access, refuses_part_of_a_mapping,
              Documented("cuda.h, cuMemSetAccess: the range contains all "
                         "allocations")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(address, device.Create(2), 2));
  FIRN_REFUSES(device.SetAccess(address, 1));
  FIRN_REFUSES(device.SetAccess(device.At(address, 1), 1));
}

FIRN_CONTRACT(set_access, refuses_what_is_not_mapped,
              Documented("cuda.h, cuMemSetAccess: fully mapped")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_REFUSES(device.SetAccess(address, 1));
}

FIRN_CONTRACT(set_access, refuses_a_hole,
              Documented("cuda.h, cuMemSetAccess: fully mapped")) {
  const DevicePtr address = device.Reserve(3);
  FIRN_WORKS(device.Map(device.At(address, 0), device.Create()));
  FIRN_WORKS(device.Map(device.At(address, 2), device.Create()));
  FIRN_REFUSES(device.SetAccess(address, 3));
}

FIRN_CONTRACT(set_access, refuses_a_tail_that_is_not_mapped,
              Documented("cuda.h, cuMemSetAccess: fully mapped")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_REFUSES(device.SetAccess(address, 2));
}

FIRN_CONTRACT(set_access, refusal_changes_nothing,
              Strict("a call does all or nothing")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_GIVES(DriverResult::kInvalidValue, device.SetAccess(address, 2));
  FIRN_REFUSES(device.FillGranule(address, 1));
}

FIRN_CONTRACT(set_access, refuses_unaligned_ranges,
              Observed("hip-tests, hipMemSetGetAccess.cc: one byte too few")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  const AccessDesc desc = device.Desc(kRead);
  FIRN_REFUSES(
      device.MemSetAccess(address, device.granule_bytes() - 1, &desc, 1));
}

FIRN_CONTRACT(set_access, refuses_zero_bytes,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  const AccessDesc desc = device.Desc(kRead);
  FIRN_REFUSES(device.MemSetAccess(address, 0, &desc, 1));
}

FIRN_CONTRACT(set_access, needs_descriptors,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  const AccessDesc desc = device.Desc(kRead);
  FIRN_REFUSES(
      device.MemSetAccess(address, device.granule_bytes(), nullptr, 1));
  FIRN_REFUSES(device.MemSetAccess(address, device.granule_bytes(), &desc, 0));
}

FIRN_CONTRACT(set_access, refuses_unknown_locations,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_REFUSES(
      TryDesc(device, address, {LocationType::kInvalid, 0}, kReadWrite));
  FIRN_REFUSES(
      TryDesc(device, address, {LocationType::kDevice, -1}, kReadWrite));
  FIRN_REFUSES(
      TryDesc(device, address, {LocationType::kDevice, 1000}, kReadWrite));
}

FIRN_CONTRACT(set_access, refuses_unknown_flags,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_REFUSES(TryDesc(device, address, device.Location(),
                       static_cast<AccessFlags>(0x40)));
}

FIRN_CONTRACT(set_access, refuses_the_host_on_device_memory,
              Documented("cuda.h, cuMemSetAccess: HOST_NUMA accessibility for "
                         "such allocations only")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_REFUSES(
      TryDesc(device, address, {LocationType::kHostNuma, 0}, kReadWrite));
}

FIRN_CONTRACT(set_access, is_needed_again_after_a_remap,
              Documented("cuda.h, cuMemUnmap: all mappings start with no "
                         "accessibility")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.Map(address, handle));
  FIRN_REFUSES(device.FillGranule(address, 1));
  FIRN_WORKS(device.SetAccess(address, 1));
  FIRN_WORKS(device.FillGranule(address, 1));
}

FIRN_CONTRACT(set_access, opens_numa_memory_to_device_and_host,
              Observed("NCCL gives both access: src/include/alloc.h")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kHostNumaVirtualMemoryManagement),
             "no NUMA memory");
  AllocationProp prop = device.Prop();
  prop.location = {LocationType::kHostNuma, 0};
  size_t bytes = 0;
  FIRN_WORKS(device.MemGetAllocationGranularity(&bytes, &prop,
                                                GranularityKind::kMinimum));
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, bytes, &prop, 0));
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAddressReserve(&address, bytes, bytes, 0, 0));
  FIRN_WORKS(device.MemMap(address, bytes, 0, handle, 0));
  const AccessDesc descs[] = {
      device.Desc(),
      AccessDesc{MemLocation{LocationType::kHostNuma, 0}, kReadWrite}};
  FIRN_WORKS(device.MemSetAccess(address, bytes, descs, 2));
  FIRN_WORKS(device.Fill(address, 0x36, bytes));
  const auto* const host_view =
      reinterpret_cast<const volatile uint8_t*>(address);
  FIRN_EQUALS(0x36, static_cast<int>(host_view[bytes - 1]));
}

// --- peers ---

FIRN_CONTRACT(set_access, serves_several_locations_in_one_call,
              Documented("cuda.h, cuMemSetAccess: each location of desc"),
              kTwoDevices) {
  const DevicePtr address = device.Reserve(1);
  FIRN_WORKS(device.Map(address, device.Create()));
  const AccessDesc descs[] = {device.Desc(), device.other().Desc()};
  FIRN_WORKS(device.MemSetAccess(address, device.granule_bytes(), descs, 2));
  FIRN_WORKS(device.other().FillGranule(address, 0x37));
  FIRN_HOLDS(device.GranuleIs(address, 0x37));
}

FIRN_CONTRACT(set_access, changes_only_the_locations_listed,
              Observed("NCCL makes a call for each location: "
                       "src/include/alloc.h"),
              kTwoDevices) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.other().SetAccess(address, 1));
  FIRN_WORKS(device.FillGranule(address, 0x38));
  FIRN_WORKS(device.SetAccess(address, 1, kNone));
  FIRN_REFUSES(device.FillGranule(address, 0x39));
  FIRN_HOLDS(device.other().GranuleIs(address, 0x38));
}

FIRN_CONTRACT(set_access, peer_without_a_grant_is_refused,
              Documented("CUDA programming guide, virtual memory management: "
                         "access is per device"),
              kTwoDevices) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_REFUSES(device.other().FillGranule(address, 1));
  FIRN_REFUSES(TryRead(device.other(), address));
}

FIRN_CONTRACT(set_access, peer_may_read_while_the_owner_writes,
              Documented("cuda.h, cuMemSetAccess: flags for each location"),
              kTwoDevices) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.other().SetAccess(address, 1, kRead));
  FIRN_WORKS(device.FillGranule(address, 0x3a));
  FIRN_HOLDS(device.other().GranuleIs(address, 0x3a));
  FIRN_REFUSES(device.other().FillGranule(address, 0x3b));
}

FIRN_CONTRACT(set_access, peers_are_forgotten_with_the_mapping,
              Documented("cuda.h, cuMemUnmap: all mappings start with no "
                         "accessibility"),
              kTwoDevices) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.other().SetAccess(address, 1));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.Map(address, handle));
  FIRN_WORKS(device.SetAccess(address, 1));
  FIRN_REFUSES(device.other().FillGranule(address, 1));
  FIRN_WORKS(device.other().SetAccess(address, 1));
  FIRN_WORKS(device.other().FillGranule(address, 1));
}

FIRN_CONTRACT(set_access, memory_of_a_peer_alone_is_enough,
              Documented("CUDA programming guide, virtual memory management: "
                         "access is per device"),
              kTwoDevices) {
  const DevicePtr address = device.Reserve(1);
  FIRN_WORKS(device.Map(address, device.other().Create()));
  FIRN_WORKS(device.SetAccess(address, 1));
  FIRN_WORKS(device.FillGranule(address, 0x3c));
  FIRN_REFUSES(device.other().FillGranule(address, 1));
}

// --- get_access ---

FIRN_CONTRACT(get_access, tells_what_was_set,
              Documented("cuda.h, cuMemGetAccess")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  const MemLocation location = device.Location();
  for (const AccessFlags flags : {kReadWrite, kRead, kNone}) {
    FIRN_WORKS(device.SetAccess(address, 1, flags));
    AccessFlags came = kReadWrite;
    FIRN_WORKS(device.MemGetAccess(&came, &location, address));
    FIRN_HOLDS(came == flags);
  }
}

FIRN_CONTRACT(get_access, of_a_new_mapping_is_none,
              Inferred("cuda.h, cuMemUnmap: all mappings start with no "
                       "accessibility")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_WORKS(device.Map(address, device.Create()));
  const MemLocation location = device.Location();
  AccessFlags came = kReadWrite;
  FIRN_WORKS(device.MemGetAccess(&came, &location, address));
  FIRN_HOLDS(came == kNone);
}

FIRN_CONTRACT(get_access, takes_any_address_inside,
              Inferred("cuda.h, cuMemGetAccess: address in which to check")) {
  const DevicePtr address = device.MapAnywhere(device.Create(2), 2);
  const MemLocation location = device.Location();
  AccessFlags came = kNone;
  FIRN_WORKS(device.MemGetAccess(&came, &location, device.At(address, 2) - 1));
  FIRN_HOLDS(came == kReadWrite);
}

FIRN_CONTRACT(get_access, is_per_location,
              Documented("cuda.h, cuMemGetAccess: for the given location"),
              kTwoDevices) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.other().SetAccess(address, 1, kRead));
  const MemLocation location = device.other().Location();
  AccessFlags came = kNone;
  FIRN_WORKS(device.MemGetAccess(&came, &location, address));
  FIRN_HOLDS(came == kRead);
}

FIRN_CONTRACT(get_access, refuses_what_is_not_mapped,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.Reserve(1);
  const MemLocation location = device.Location();
  AccessFlags came = kNone;
  FIRN_REFUSES(device.MemGetAccess(&came, &location, address));
}

FIRN_CONTRACT(get_access, refuses_null_arguments,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  const MemLocation location = device.Location();
  AccessFlags came = kNone;
  FIRN_REFUSES(device.MemGetAccess(nullptr, &location, address));
  FIRN_REFUSES(device.MemGetAccess(&came, nullptr, address));
}

FIRN_CONTRACT(get_access, refuses_unknown_locations,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  AccessFlags came = kNone;
  const MemLocation no_type{LocationType::kInvalid, 0};
  FIRN_REFUSES(device.MemGetAccess(&came, &no_type, address));
  const MemLocation no_device{LocationType::kDevice, 1000};
  FIRN_REFUSES(device.MemGetAccess(&came, &no_device, address));
}

}  // namespace
}  // namespace firn::contract
