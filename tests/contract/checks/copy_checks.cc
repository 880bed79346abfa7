// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills.

#include <numeric>

#include "tests/contract/contract_device.h"
#include "tests/contract/gate.h"

namespace firn::contract {
namespace {

// Bytes that all differ from their neighbours.
std::vector<uint8_t> Ramp(size_t bytes) {
  std::vector<uint8_t> ramp(bytes);
  std::iota(ramp.begin(), ramp.end(), uint8_t{3});
  return ramp;
}

FIRN_CONTRACT(copy, from_the_host_and_back,
              Documented("cuda.h, cuMemcpyHtoDAsync and cuMemcpyDtoHAsync")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const std::vector<uint8_t> out = Ramp(1000);
  std::vector<uint8_t> in(out.size());
  FIRN_WORKS(device.MemcpyHtoDAsync(address, out.data(), out.size(), stream));
  FIRN_WORKS(device.MemcpyDtoHAsync(in.data(), address, in.size(), stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(in == out);
}

FIRN_CONTRACT(copy, within_the_device,
              Documented("cuda.h, cuMemcpyDtoDAsync")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(a, 0x71));
  FIRN_WORKS(device.FillGranule(b, 0x72));
  FIRN_WORKS(device.MemcpyDtoDAsync(b, a, device.granule_bytes(), stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(b, 0x71));
}

FIRN_CONTRACT(copy, any_bytes_at_any_address,
              Documented("cuda.h, cuMemcpyDtoDAsync: in bytes")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const std::vector<uint8_t> out = Ramp(77);
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(
      device.MemcpyHtoDAsync(address + 13, out.data(), out.size(), stream));
  FIRN_WORKS(
      device.MemcpyDtoDAsync(address + 1001, address + 13, out.size(), stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.Read(address + 1001, out.size()) == out);
  FIRN_HOLDS(device.AllBytesAre(address + 1000, 0, 1));
  FIRN_HOLDS(device.AllBytesAre(address + 1001 + out.size(), 0, 1));
}

FIRN_CONTRACT(copy, spans_mappings,
              Observed("hip-tests, hipMemMap.cc: copies over several chunks")) {
  const DevicePtr a = device.MapRow(3);
  const DevicePtr b = device.MapAnywhere(device.Create(3), 3);
  const uint64_t bytes = 3 * device.granule_bytes();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.Fill(a, 0x73, bytes));
  FIRN_WORKS(device.MemcpyDtoDAsync(b + 1, a, bytes - 1, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(b + 1, 0x73, bytes - 1));
}

FIRN_CONTRACT(copy, zero_bytes_do_nothing,
              Inferred("cuda.h, cuMemcpyDtoDAsync: 0 bytes are no error")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(b, 0x74));
  FIRN_WORKS(device.MemcpyDtoDAsync(b, a, 0, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(b, 0x74));
}

FIRN_CONTRACT(copy, keeps_the_order_of_its_stream,
              Documented("cuda.h, cuStreamWaitEvent: work of a stream runs in "
                         "order")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const uint64_t bytes = device.granule_bytes();
  for (uint8_t round = 1; round <= 50; ++round) {
    FIRN_WORKS(device.MemsetD8Async(a, round, bytes, stream));
    FIRN_WORKS(device.MemcpyDtoDAsync(b, a, bytes, stream));
  }
  FIRN_WORKS(device.MemsetD8Async(a, 0, bytes, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(a, 0));
  FIRN_HOLDS(device.GranuleIs(b, 50));
}

FIRN_CONTRACT(copy, waits_for_its_turn,
              Documented("cuda.h, cuMemcpyDtoDAsync: asynchronous, in stream "
                         "order")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const StreamHandle free_stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(a, 1));
  FIRN_WORKS(device.FillGranule(b, 2));
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.MemcpyDtoDAsync(b, a, device.granule_bytes(), stream));
  FIRN_HOLDS(device.GranuleIs(b, 2));
  // What is in `a` when the copy runs counts.
  FIRN_WORKS(device.MemsetD8Async(a, 3, device.granule_bytes(), free_stream));
  FIRN_WORKS(device.StreamSynchronize(free_stream));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(b, 3));
}

FIRN_CONTRACT(copy, to_unmapped_memory_is_refused,
              Observed("hip-tests, hipMemSetGetAccess.cc: a copy to what is "
                       "not accessible is INVALID_VALUE at once")) {
  const DevicePtr mapped = device.MapRow();
  const DevicePtr bare = device.Reserve(1);
  const StreamHandle stream = device.NewStream();
  FIRN_REFUSES(device.MemcpyDtoDAsync(bare, mapped, 64, stream));
  FIRN_REFUSES(device.MemsetD8Async(bare, 1, 64, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
}

FIRN_CONTRACT(copy, from_unmapped_memory_is_refused,
              Observed("hip-tests, hipMemSetGetAccess.cc: a copy of what is "
                       "not accessible is INVALID_VALUE at once")) {
  const DevicePtr mapped = device.MapRow();
  const DevicePtr bare = device.Reserve(1);
  const StreamHandle stream = device.NewStream();
  FIRN_REFUSES(device.MemcpyDtoDAsync(mapped, bare, 64, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
}

FIRN_CONTRACT(copy, to_read_only_memory_is_refused,
              Observed("hip-tests, hipMemSetGetAccess.cc")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.SetAccess(b, 1, AccessFlags::kRead));
  const std::vector<uint8_t> out = Ramp(64);
  FIRN_REFUSES(device.MemcpyDtoDAsync(b, a, 64, stream));
  FIRN_REFUSES(device.MemcpyHtoDAsync(b, out.data(), out.size(), stream));
  FIRN_WORKS(device.MemcpyDtoDAsync(a, b, 64, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
}

FIRN_CONTRACT(copy, past_the_end_of_the_mapping_is_refused,
              Inferred("cuda.h, cuMemcpyDtoDAsync: INVALID_VALUE")) {
  const DevicePtr a = device.MapRow(2);
  const DevicePtr b = device.Reserve(2);
  FIRN_WORKS(device.Map(b, device.Create()));
  FIRN_WORKS(device.SetAccess(b, 1));
  const StreamHandle stream = device.NewStream();
  const uint64_t bytes = device.granule_bytes() + 1;
  FIRN_REFUSES(device.MemcpyDtoDAsync(b, a, bytes, stream));
  FIRN_REFUSES(device.MemsetD8Async(b, 1, bytes, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
}

FIRN_CONTRACT(copy, over_a_hole_is_refused,
              Strict("cuda.h has no range with a hole in it")) {
  const DevicePtr a = device.Reserve(3);
  for (const uint64_t granule : {0u, 2u}) {
    FIRN_WORKS(device.Map(device.At(a, granule), device.Create()));
    FIRN_WORKS(device.SetAccess(device.At(a, granule), 1));
  }
  FIRN_REFUSES(device.Fill(a, 1, 3 * device.granule_bytes()));
}

FIRN_CONTRACT(copy, overlapping_ranges_are_refused,
              Strict("undefined in CUDA")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_GIVES(DriverResult::kInvalidValue,
             device.MemcpyDtoDAsync(address + 32, address, 64, stream));
}

FIRN_CONTRACT(copy, null_host_memory_is_refused,
              Strict("NVIDIA's driver need not notice")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_REFUSES(device.MemcpyHtoDAsync(address, nullptr, 64, stream));
  FIRN_REFUSES(device.MemcpyDtoHAsync(nullptr, address, 64, stream));
}

FIRN_CONTRACT(copy, between_devices_with_access,
              Observed("hip-tests, hipMemMap.cc: copies between devices"),
              kTwoDevices) {
  const DevicePtr mine = device.MapRow();
  const DevicePtr theirs = device.other().MapRow();
  FIRN_WORKS(device.SetAccess(theirs, 1));
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.other().FillGranule(theirs, 0x75));
  FIRN_WORKS(
      device.MemcpyDtoDAsync(mine, theirs, device.granule_bytes(), stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(mine, 0x75));
}

FIRN_CONTRACT(fill, sets_every_byte_and_no_other,
              Documented("cuda.h, cuMemsetD8Async")) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.FillGranule(address, 0x11));
  FIRN_WORKS(device.Fill(address + 101, 0xee, 1003));
  FIRN_HOLDS(device.AllBytesAre(address, 0x11, 101));
  FIRN_HOLDS(device.AllBytesAre(address + 101, 0xee, 1003));
  FIRN_HOLDS(device.AllBytesAre(address + 101 + 1003, 0x11, 500));
}

}  // namespace
}  // namespace firn::contract
