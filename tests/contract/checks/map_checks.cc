// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Mapping memory at addresses.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

FIRN_CONTRACT(map, anywhere_in_a_reservation,
              Documented("cuda.h, cuMemMap: range of a reservation")) {
  const DevicePtr address = device.Reserve(8);
  for (const uint64_t granule : {5u, 0u, 7u}) {
    FIRN_WORKS(device.Map(device.At(address, granule), device.Create()));
    FIRN_WORKS(device.SetAccess(device.At(address, granule), 1));
    FIRN_WORKS(device.FillGranule(device.At(address, granule),
                                  static_cast<uint8_t>(granule)));
  }
  FIRN_HOLDS(device.GranuleIs(device.At(address, 0), 0));
  FIRN_HOLDS(device.GranuleIs(device.At(address, 5), 5));
  FIRN_HOLDS(device.GranuleIs(device.At(address, 7), 7));
}

FIRN_CONTRACT(map, any_handle_at_any_address, Documented("cuda.h, cuMemMap")) {
  const DevicePtr forth = device.Reserve(2);
  const DevicePtr back = device.Reserve(2);
  const PhysicalHandle a = device.Create();
  const PhysicalHandle b = device.Create();
  FIRN_WORKS(device.Map(device.At(forth, 0), a));
  FIRN_WORKS(device.Map(device.At(forth, 1), b));
  FIRN_WORKS(device.Map(device.At(back, 0), b));
  FIRN_WORKS(device.Map(device.At(back, 1), a));
  FIRN_WORKS(device.SetAccess(forth, 2));
  FIRN_WORKS(device.SetAccess(back, 2));
  FIRN_WORKS(device.FillGranule(device.At(forth, 0), 0xa));
  FIRN_WORKS(device.FillGranule(device.At(forth, 1), 0xb));
  FIRN_HOLDS(device.GranuleIs(device.At(back, 0), 0xb));
  FIRN_HOLDS(device.GranuleIs(device.At(back, 1), 0xa));
}

FIRN_CONTRACT(map, refuses_what_is_mapped,
              Documented("cuda.h, cuMemMap: reservations that are not "
                         "currently mapped")) {
  const DevicePtr address = device.MapAnywhere(device.Create());
  FIRN_WORKS(device.FillGranule(address, 0x19));
  FIRN_REFUSES(device.Map(address, device.Create()));
  FIRN_HOLDS(device.GranuleIs(address, 0x19));
}

FIRN_CONTRACT(map, refuses_an_overlap_with_what_is_mapped,
              Documented("cuda.h, cuMemMap: reservations that are not "
                         "currently mapped")) {
  const DevicePtr address = device.Reserve(4);
  FIRN_WORKS(device.Map(device.At(address, 2), device.Create()));
  const PhysicalHandle handle = device.Create(2);
  FIRN_REFUSES(device.Map(device.At(address, 1), handle, 2));
  FIRN_REFUSES(device.Map(device.At(address, 2), handle, 2));
  // Nothing of it was mapped.
  FIRN_WORKS(device.Map(address, handle, 2));
}

FIRN_CONTRACT(map, refuses_addresses_without_a_reservation,
              Documented("cuda.h, cuMemMap: must be a reservation")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_WORKS(device.MemAddressFree(address, device.granule_bytes()));
  FIRN_REFUSES(device.Map(address, device.Create()));
  FIRN_REFUSES(device.Map(0, device.Create()));
}

FIRN_CONTRACT(map, refuses_what_leaves_the_reservation,
              Documented("cuda.h, cuMemMap: must be a reservation")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_REFUSES(device.Map(device.At(address, 1), device.Create(2), 2));
  FIRN_WORKS(device.Map(device.At(address, 1), device.Create()));
}

FIRN_CONTRACT(map, refuses_to_span_reservations,
              Strict("cuda.h does not say")) {
  const DevicePtr both = device.Reserve(4);
  FIRN_WORKS(device.MemAddressFree(both, 4 * device.granule_bytes()));
  DevicePtr first = 0;
  DevicePtr second = 0;
  FIRN_WORKS(device.MemAddressReserve(&first, 2 * device.granule_bytes(),
                                      device.granule_bytes(), both, 0));
  FIRN_WORKS(device.MemAddressReserve(&second, 2 * device.granule_bytes(),
                                      device.granule_bytes(),
                                      device.At(both, 2), 0));
  FIRN_NEEDS(second == device.At(first, 2), "the hints were not followed");
  FIRN_REFUSES(device.Map(device.At(first, 1), device.Create(2), 2));
}

FIRN_CONTRACT(map, refuses_an_unaligned_address,
              Documented("cuda.h, cuMemMap: multiples of the granularity")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_REFUSES(
      device.Map(address + device.granule_bytes() / 2, device.Create()));
}

FIRN_CONTRACT(map, refuses_bytes_that_are_no_multiple,
              Documented("cuda.h, cuMemMap: multiples of the granularity")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_REFUSES(device.MemMap(address, device.granule_bytes() / 2, 0,
                             device.Create(), 0));
}

FIRN_CONTRACT(map, refuses_zero_bytes, Observed("hip-tests, hipMemMap.cc")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_REFUSES(device.MemMap(address, 0, 0, device.Create(), 0));
}

FIRN_CONTRACT(map, refuses_an_offset,
              Documented("cuda.h, cuMemMap: offset must be zero")) {
  const DevicePtr address = device.Reserve(1);
  const PhysicalHandle handle = device.Create(2);
  FIRN_REFUSES(device.MemMap(address, device.granule_bytes(),
                             device.granule_bytes(), handle, 0));
}

FIRN_CONTRACT(map, refuses_flags,
              Documented("cuda.h, cuMemMap: flags must be zero")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_REFUSES(
      device.MemMap(address, device.granule_bytes(), 0, device.Create(), 1));
}

FIRN_CONTRACT(map, refuses_more_than_the_allocation,
              Documented("cuda.h, cuMemMap: offset + size within the "
                         "allocation")) {
  const DevicePtr address = device.Reserve(4);
  FIRN_REFUSES(device.Map(address, device.Create(2), 3));
  FIRN_WORKS(device.Map(address, device.Create(2), 2));
}

FIRN_CONTRACT(map, refuses_part_of_an_allocation,
              Strict("cuda.h can be read either way, and nobody does it")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_REFUSES(device.Map(address, device.Create(2), 1));
}

FIRN_CONTRACT(map, refuses_handle_zero, Observed("hip-tests, hipMemMap.cc")) {
  FIRN_REFUSES(device.Map(device.Reserve(1), 0));
}

FIRN_CONTRACT(map, refuses_an_unknown_handle,
              Strict("NVIDIA's driver need not notice")) {
  FIRN_REFUSES(device.Map(device.Reserve(1), 0x123456789abcdef));
}

FIRN_CONTRACT(map, gives_no_access,
              Documented("cuda.h, cuMemMap: does not make the address "
                         "accessible")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_REFUSES(device.FillGranule(address, 1));
}

FIRN_CONTRACT(map, reservation_takes_memory_of_several_devices,
              Documented("CUDA programming guide, virtual memory management: "
                         "chunks of any device"),
              kTwoDevices) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_WORKS(device.Map(device.At(address, 1), device.other().Create()));
  FIRN_WORKS(device.SetAccess(address, 2));
  FIRN_WORKS(device.Fill(address, 0x77, 2 * device.granule_bytes()));
  FIRN_HOLDS(device.AllBytesAre(address, 0x77, 2 * device.granule_bytes()));
}

FIRN_CONTRACT(map, needs_no_handle_order,
              Inferred("cuda.h, cuMemMap: each mapping stands alone")) {
  const DevicePtr address = device.Reserve(3);
  PhysicalHandle handles[3];
  for (PhysicalHandle& handle : handles) handle = device.Create();
  for (uint64_t i = 0; i < 3; ++i) {
    FIRN_WORKS(device.Map(device.At(address, i), handles[2 - i]));
  }
  FIRN_WORKS(device.SetAccess(address, 3));
  FIRN_WORKS(device.Fill(address, 0x44, 3 * device.granule_bytes()));
  FIRN_WORKS(device.FillGranule(device.At(address, 1), 0x45));
  FIRN_HOLDS(device.GranuleIs(device.At(address, 0), 0x44));
  FIRN_HOLDS(device.GranuleIs(device.At(address, 1), 0x45));
  FIRN_HOLDS(device.GranuleIs(device.At(address, 2), 0x44));
}

FIRN_CONTRACT(map, contents_move_to_another_address,
              Documented("cuda.h, cuMemUnmap and cuMemMap")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr here = device.MapAnywhere(handle);
  const DevicePtr there = device.Reserve(1);
  FIRN_WORKS(device.FillGranule(here, 0x5d));
  FIRN_WORKS(device.Unmap(here));
  FIRN_WORKS(device.Map(there, handle));
  FIRN_WORKS(device.SetAccess(there, 1));
  FIRN_HOLDS(device.GranuleIs(there, 0x5d));
  // And other memory to this address.
  FIRN_WORKS(device.Map(here, device.Create()));
  FIRN_WORKS(device.SetAccess(here, 1));
  FIRN_WORKS(device.FillGranule(here, 0x5e));
  FIRN_HOLDS(device.GranuleIs(there, 0x5d));
}

}  // namespace
}  // namespace firn::contract
