// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reserving addresses and giving them back.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

// --- reserve ---

FIRN_CONTRACT(reserve, keeps_the_alignment_asked_for,
              Documented("cuda.h, cuMemAddressReserve: alignment")) {
  const uint64_t alignment_bytes = 8 * device.granule_bytes();
  for (int i = 0; i < 3; ++i) {
    DevicePtr address = 0;
    FIRN_WORKS(device.MemAddressReserve(&address, device.granule_bytes(),
                                        alignment_bytes, 0, 0));
    FIRN_EQUALS(uint64_t{0}, address % alignment_bytes);
  }
}

FIRN_CONTRACT(reserve, default_alignment_suits_mappings,
              Observed("PyTorch relies on it: CUDACachingAllocator.cpp")) {
  DevicePtr address = 0;
  FIRN_WORKS(
      device.MemAddressReserve(&address, 3 * device.granule_bytes(), 0, 0, 0));
  FIRN_EQUALS(uint64_t{0}, address % device.granule_bytes());
}

FIRN_CONTRACT(reserve, ranges_do_not_overlap,
              Inferred("cuda.h, cuMemAddressReserve")) {
  const uint64_t bytes = 4 * device.granule_bytes();
  const DevicePtr a = device.Reserve(4);
  const DevicePtr b = device.Reserve(4);
  FIRN_HOLDS(a + bytes <= b || b + bytes <= a);
}

FIRN_CONTRACT(reserve, hint_is_only_a_hint,
              Documented("cuda.h, cuMemAddressReserve: addr is a hint")) {
  const uint64_t bytes = 4 * device.granule_bytes();
  const DevicePtr taken = device.Reserve(4);
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAddressReserve(&address, bytes, device.granule_bytes(),
                                      taken, 0));
  FIRN_HOLDS(taken + bytes <= address || address + bytes <= taken);
}

FIRN_CONTRACT(reserve, may_exceed_the_device_memory,
              Observed("PyTorch reserves more than the device has: "
                       "CUDACachingAllocator.cpp")) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  FIRN_WORKS(device.MemGetInfo(&free_bytes, &total_bytes));
  const uint64_t granules = 4 * total_bytes / device.granule_bytes();
  FIRN_HOLDS(device.Reserve(granules) != 0);
}

FIRN_CONTRACT(reserve, null_output_is_refused,
              Observed("hip-tests, hipMemAddressReserve.cc")) {
  FIRN_REFUSES(
      device.MemAddressReserve(nullptr, device.granule_bytes(), 0, 0, 0));
}

FIRN_CONTRACT(reserve, zero_bytes_are_refused,
              Observed("hip-tests, hipMemAddressReserve.cc")) {
  DevicePtr address = 0;
  FIRN_REFUSES(device.MemAddressReserve(&address, 0, 0, 0, 0));
}

FIRN_CONTRACT(reserve, bytes_are_a_multiple_of_the_host_page,
              Documented("cuda.h, cuMemAddressReserve: size")) {
  DevicePtr address = 0;
  FIRN_REFUSES(
      device.MemAddressReserve(&address, device.granule_bytes() + 1, 0, 0, 0));
}

FIRN_CONTRACT(reserve, alignment_is_a_power_of_two_or_zero,
              Documented("cuda.h, cuMemAddressReserve: alignment")) {
  DevicePtr address = 0;
  FIRN_REFUSES(
      device.MemAddressReserve(&address, device.granule_bytes(), 3, 0, 0));
}

FIRN_CONTRACT(reserve, flags_are_zero,
              Documented("cuda.h, cuMemAddressReserve: flags")) {
  DevicePtr address = 0;
  FIRN_REFUSES(
      device.MemAddressReserve(&address, device.granule_bytes(), 0, 0, 1));
}

FIRN_CONTRACT(reserve, more_than_there_are_addresses_is_refused,
              Documented("cuda.h, cuMemAddressReserve: OUT_OF_MEMORY")) {
  DevicePtr address = 0;
  FIRN_REFUSES(device.MemAddressReserve(&address, uint64_t{1} << 62, 0, 0, 0));
  FIRN_HOLDS(device.Reserve(1) != 0);
}

// --- address_free ---

FIRN_CONTRACT(address_free, gives_back_what_was_reserved,
              Documented("cuda.h, cuMemAddressFree")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.MemAddressFree(address, 2 * device.granule_bytes()));
  // No longer a reservation.
  FIRN_REFUSES(device.Map(address, device.Create()));
}

FIRN_CONTRACT(address_free, refuses_a_part,
              Documented("cuda.h, cuMemAddressFree: size must match")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_REFUSES(device.MemAddressFree(address, device.granule_bytes()));
  FIRN_WORKS(device.Map(device.At(address, 1), device.Create()));
}

FIRN_CONTRACT(address_free, refuses_more_than_was_reserved,
              Documented("cuda.h, cuMemAddressFree: size must match")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_REFUSES(device.MemAddressFree(address, 3 * device.granule_bytes()));
  FIRN_WORKS(device.Map(address, device.Create()));
}

FIRN_CONTRACT(address_free, refuses_an_address_inside,
              Documented("cuda.h, cuMemAddressFree: ptr must match")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_REFUSES(
      device.MemAddressFree(device.At(address, 1), device.granule_bytes()));
  FIRN_WORKS(device.Map(device.At(address, 1), device.Create()));
}

FIRN_CONTRACT(address_free, refuses_the_second_time,
              Inferred("cuda.h, cuMemAddressFree: what was reserved")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.MemAddressFree(address, 2 * device.granule_bytes()));
  FIRN_REFUSES(device.MemAddressFree(address, 2 * device.granule_bytes()));
}

FIRN_CONTRACT(address_free, refuses_null_and_zero_bytes,
              Observed("hip-tests, hipMemAddressFree.cc")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_REFUSES(device.MemAddressFree(0, device.granule_bytes()));
  FIRN_REFUSES(device.MemAddressFree(address, 0));
}

FIRN_CONTRACT(address_free, refuses_while_mapped,
              Strict("the CUDA programming guide demands an unmapped range, "
                     "and does not say what happens else")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(device.At(address, 1), device.Create()));
  FIRN_GIVES(DriverResult::kInvalidValue,
             device.MemAddressFree(address, 2 * device.granule_bytes()));
  FIRN_WORKS(device.SetAccess(device.At(address, 1), 1));
  FIRN_WORKS(device.FillGranule(device.At(address, 1), 7));
}

FIRN_CONTRACT(address_free, keeps_the_memory_that_was_mapped_there,
              Inferred("cuda.h: handles and reservations are independent")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr first = device.MapAnywhere(handle);
  FIRN_WORKS(device.FillGranule(first, 0x3c));
  FIRN_WORKS(device.Unmap(first));
  FIRN_WORKS(device.MemAddressFree(first, device.granule_bytes()));
  FIRN_HOLDS(device.GranuleIs(device.MapAnywhere(handle), 0x3c));
}

}  // namespace
}  // namespace firn::contract
