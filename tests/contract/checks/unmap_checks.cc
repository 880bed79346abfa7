// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Unmapping.

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

FIRN_CONTRACT(unmap, leaves_a_reservation,
              Documented("cuda.h, cuMemUnmap: converted to an address "
                         "reservation")) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.MemAddressFree(address, device.granule_bytes()));
}

FIRN_CONTRACT(unmap, takes_access_away, Documented("cuda.h, cuMemUnmap")) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.FillGranule(address, 1));
  FIRN_WORKS(device.Unmap(address));
  FIRN_REFUSES(device.FillGranule(address, 1));
}

FIRN_CONTRACT(unmap, refuses_part_of_a_mapping,
              Documented("cuda.h, cuMemUnmap: cannot unmap a sub-range")) {
  const DevicePtr address = device.MapAnywhere(device.Create(4), 4);
  FIRN_REFUSES(device.Unmap(address, 1));
  FIRN_REFUSES(device.Unmap(device.At(address, 1), 2));
  FIRN_REFUSES(device.Unmap(device.At(address, 3), 1));
}

FIRN_CONTRACT(unmap, refuses_a_byte_too_few,
              Observed("hip-tests, hipMemUnmap.cc")) {
  const DevicePtr address = device.MapRow();
  FIRN_REFUSES(device.MemUnmap(address, device.granule_bytes() - 1));
}

FIRN_CONTRACT(unmap, refusal_leaves_the_mapping_usable,
              Inferred("cuda.h, cuMemUnmap: only success unmaps")) {
  const DevicePtr address = device.MapAnywhere(device.Create(2), 2);
  const uint64_t bytes = 2 * device.granule_bytes();
  FIRN_WORKS(device.Fill(address, 0x15, bytes));
  FIRN_REFUSES(device.Unmap(address, 1));
  FIRN_HOLDS(device.AllBytesAre(address, 0x15, bytes));
  FIRN_WORKS(device.Unmap(address, 2));
}

FIRN_CONTRACT(unmap, takes_many_whole_mappings,
              Observed("kvcached unmaps a tensor of many mappings at once: "
                       "ftensor.cpp")) {
  const DevicePtr address = device.MapRow(5);
  FIRN_WORKS(device.Unmap(device.At(address, 1), 3));
  FIRN_WORKS(device.FillGranule(device.At(address, 0), 1));
  for (const uint64_t granule : {1u, 2u, 3u}) {
    FIRN_REFUSES(device.FillGranule(device.At(address, granule), 1));
  }
  FIRN_WORKS(device.FillGranule(device.At(address, 4), 1));
}

FIRN_CONTRACT(unmap, refuses_one_and_a_half_mappings,
              Documented("cuda.h, cuMemUnmap: cannot unmap a sub-range")) {
  const DevicePtr address = device.Reserve(3);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_WORKS(device.Map(device.At(address, 1), device.Create(2), 2));
  FIRN_WORKS(device.SetAccess(address, 3));
  FIRN_REFUSES(device.Unmap(address, 2));
  FIRN_WORKS(device.Fill(address, 1, 3 * device.granule_bytes()));
}

FIRN_CONTRACT(unmap, refuses_what_is_not_mapped,
              Inferred("cuda.h, cuMemUnmap: the range that was mapped to")) {
  const DevicePtr address = device.Reserve(1);
  FIRN_REFUSES(device.Unmap(address));
}

FIRN_CONTRACT(unmap, refuses_the_second_time,
              Inferred("cuda.h, cuMemUnmap: the range that was mapped to")) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.Unmap(address));
  FIRN_REFUSES(device.Unmap(address));
}

FIRN_CONTRACT(unmap, refuses_a_hole_and_unmaps_nothing,
              Strict("cuda.h does not say what becomes of the rest")) {
  const DevicePtr address = device.Reserve(3);
  for (const uint64_t granule : {0u, 2u}) {
    FIRN_WORKS(device.Map(device.At(address, granule), device.Create()));
    FIRN_WORKS(device.SetAccess(device.At(address, granule), 1));
  }
  FIRN_REFUSES(device.Unmap(address, 3));
  FIRN_WORKS(device.FillGranule(device.At(address, 0), 1));
  FIRN_WORKS(device.FillGranule(device.At(address, 2), 1));
}

FIRN_CONTRACT(unmap, refuses_a_tail_and_unmaps_nothing,
              Strict("cuda.h does not say what becomes of the rest")) {
  const DevicePtr address = device.Reserve(2);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_WORKS(device.SetAccess(address, 1));
  FIRN_REFUSES(device.Unmap(address, 2));
  FIRN_WORKS(device.FillGranule(address, 1));
}

FIRN_CONTRACT(unmap, refuses_null_and_zero_bytes,
              Observed("hip-tests, hipMemUnmap.cc")) {
  const DevicePtr address = device.MapRow();
  FIRN_REFUSES(device.MemUnmap(0, device.granule_bytes()));
  FIRN_REFUSES(device.MemUnmap(address, 0));
}

FIRN_CONTRACT(unmap, leaves_neighbours_alone,
              Inferred("cuda.h, cuMemUnmap: of the given range")) {
  const DevicePtr address = device.MapRow(3);
  for (uint64_t i = 0; i < 3; ++i) {
    FIRN_WORKS(
        device.FillGranule(device.At(address, i), static_cast<uint8_t>(i)));
  }
  FIRN_WORKS(device.Unmap(device.At(address, 1)));
  FIRN_HOLDS(device.GranuleIs(device.At(address, 0), 0));
  FIRN_HOLDS(device.GranuleIs(device.At(address, 2), 2));
}

FIRN_CONTRACT(unmap, keeps_memory_with_a_handle,
              Documented("cuda.h, cuMemUnmap: freed if there are no "
                         "unreleased handles")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.FillGranule(address, 0x16));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.Map(address, handle));
  FIRN_WORKS(device.SetAccess(address, 1));
  FIRN_HOLDS(device.GranuleIs(address, 0x16));
}

FIRN_CONTRACT(unmap, remapping_exchanges_memory,
              Inferred("cuda.h, cuMemUnmap and cuMemMap")) {
  const PhysicalHandle a = device.Create();
  const PhysicalHandle b = device.Create();
  const DevicePtr address = device.MapAnywhere(a);
  FIRN_WORKS(device.FillGranule(address, 0xa));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.Map(address, b));
  FIRN_WORKS(device.SetAccess(address, 1));
  FIRN_WORKS(device.FillGranule(address, 0xb));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.Map(address, a));
  FIRN_WORKS(device.SetAccess(address, 1));
  FIRN_HOLDS(device.GranuleIs(address, 0xa));
}

FIRN_CONTRACT(unmap, is_safe_once_the_last_use_completed,
              Documented("cuda.h, cuEventSynchronize: work is complete")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const EventHandle event = device.NewEvent();
  FIRN_WORKS(device.MemsetD8Async(address, 1, device.granule_bytes(), stream));
  FIRN_WORKS(device.EventRecord(event, stream));
  FIRN_WORKS(device.EventSynchronize(event));
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.CtxSynchronize());
}

}  // namespace
}  // namespace firn::contract
