// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory in one call: what a pool stands on where there is no virtual memory
// management.

#include <limits>

#include "absl/time/clock.h"
#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

// Of CUDA's programming guide, "Device Memory Accesses".
constexpr uint64_t kLeastAlignmentBytes = 256;

void Sleep(void*) { absl::SleepFor(absl::Milliseconds(60)); }

// --- alloc ---

FIRN_CONTRACT(alloc, gives_memory_that_the_device_reads_and_writes,
              Documented("cuda.h, cuMemAlloc")) {
  for (const uint64_t bytes :
       {uint64_t{1}, uint64_t{1000}, 3 * device.granule_bytes() + 1}) {
    DevicePtr address = 0;
    FIRN_WORKS(device.MemAlloc(&address, bytes));
    FIRN_EQUALS(uint64_t{0}, address % kLeastAlignmentBytes);
    FIRN_WORKS(device.Fill(address, 0x3c, bytes));
    FIRN_HOLDS(device.AllBytesAre(address, 0x3c, bytes));
  }
}

FIRN_CONTRACT(alloc, allocations_do_not_overlap,
              Documented("cuda.h, cuMemAlloc")) {
  const uint64_t bytes = device.granule_bytes();
  DevicePtr a = 0;
  DevicePtr b = 0;
  FIRN_WORKS(device.MemAlloc(&a, bytes));
  FIRN_WORKS(device.MemAlloc(&b, bytes));
  FIRN_HOLDS(a + bytes <= b || b + bytes <= a);
}

FIRN_CONTRACT(alloc, takes_free_memory_until_it_is_freed,
              Documented("cuda.h, cuMemGetInfo"), kOwnMemoryInfo) {
  const uint64_t bytes = 8 * device.granule_bytes();
  const uint64_t before = device.FreeBytes();
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAlloc(&address, bytes));
  FIRN_HOLDS(device.FreeBytes() + bytes <= before);
  FIRN_WORKS(device.MemFree(address));
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(alloc, answers_queries_of_its_range,
              Documented("cuda.h, cuMemGetAddressRange")) {
  const uint64_t bytes = device.granule_bytes();
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAlloc(&address, bytes));
  DevicePtr base = 0;
  size_t range_bytes = 0;
  FIRN_WORKS(device.MemGetAddressRange(&base, &range_bytes, address + 5));
  FIRN_EQUALS(address, base);
  FIRN_HOLDS(range_bytes >= bytes);
}

FIRN_CONTRACT(alloc, more_than_there_is_is_out_of_memory,
              Documented("cuda.h, cuMemAlloc: OUT_OF_MEMORY")) {
  DevicePtr address = 0;
  FIRN_GIVES(DriverResult::kOutOfMemory,
             device.MemAlloc(&address, uint64_t{1} << 60));
  FIRN_GIVES(DriverResult::kOutOfMemory,
             device.MemAlloc(&address, std::numeric_limits<size_t>::max()));
}

FIRN_CONTRACT(alloc, zero_bytes_are_refused,
              Documented("cuda.h, cuMemAlloc: bytesize 0 is INVALID_VALUE")) {
  DevicePtr address = 0;
  FIRN_GIVES(DriverResult::kInvalidValue, device.MemAlloc(&address, 0));
}

FIRN_CONTRACT(alloc, null_output_is_refused,
              Inferred("cuda.h, cuMemAlloc: INVALID_VALUE")) {
  FIRN_REFUSES(device.MemAlloc(nullptr, device.granule_bytes()));
}

FIRN_CONTRACT(alloc, is_forbidden_by_a_global_capture,
              Observed("PyTorch gives its thread the relaxed mode around "
                       "cudaMalloc: CUDACachingAllocator.cpp")) {
  const StreamHandle stream = device.NewStream();
  DevicePtr address = 0;
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kGlobal));
  FIRN_GIVES(DriverResult::kStreamCaptureUnsupported,
             device.MemAlloc(&address, device.granule_bytes()));
  GraphHandle graph = nullptr;
  (void)device.StreamEndCapture(stream, &graph);
  FIRN_WORKS(device.MemAlloc(&address, device.granule_bytes()));
}

FIRN_CONTRACT(alloc, and_free_are_left_alone_by_a_relaxed_capture,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode: captures "
                         "not initiated as relaxed")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAlloc(&address, device.granule_bytes()));
  FIRN_WORKS(device.MemFree(address));
  CaptureStatus status = CaptureStatus::kNone;
  FIRN_WORKS(device.StreamIsCapturing(stream, &status));
  FIRN_HOLDS(status == CaptureStatus::kActive);
}

// --- free ---

FIRN_CONTRACT(free, refuses_what_was_not_allocated,
              Documented("cuda.h, cuMemFree: returned by cuMemAlloc")) {
  FIRN_REFUSES(device.MemFree(device.Reserve(1)));
  FIRN_REFUSES(device.MemFree(device.MapRow()));
}

FIRN_CONTRACT(free, refuses_an_address_inside,
              Documented("cuda.h, cuMemFree: returned by cuMemAlloc")) {
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAlloc(&address, 2 * device.granule_bytes()));
  FIRN_REFUSES(device.MemFree(address + 512));
  FIRN_REFUSES(device.MemFree(device.At(address, 1)));
  FIRN_WORKS(device.FillGranule(device.At(address, 1), 1));
}

FIRN_CONTRACT(free, refuses_the_second_time,
              Inferred("cuda.h, cuMemFree: returned by cuMemAlloc")) {
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAlloc(&address, device.granule_bytes()));
  FIRN_WORKS(device.MemFree(address));
  FIRN_REFUSES(device.MemFree(address));
}

FIRN_CONTRACT(free, calls_on_virtual_memory_do_not_take_it_apart,
              Inferred("cuda.h: they work on what cuMemAddressReserve and "
                       "cuMemMap made")) {
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAlloc(&address, device.granule_bytes()));
  FIRN_REFUSES(device.Unmap(address));
  FIRN_REFUSES(device.MemAddressFree(address, device.granule_bytes()));
  FIRN_REFUSES(device.SetAccess(address, 1, AccessFlags::kNone));
  PhysicalHandle handle = 0;
  FIRN_REFUSES(device.MemRetainAllocationHandle(&handle, address));
  FIRN_WORKS(device.FillGranule(address, 1));
  FIRN_WORKS(device.MemFree(address));
}

FIRN_CONTRACT(free, waits_for_work_in_flight,
              Observed("CUDA runtime API, memory management: cudaFree may "
                       "wait for the device; allocators rely on it")) {
  DevicePtr address = 0;
  FIRN_WORKS(device.MemAlloc(&address, device.granule_bytes()));
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.LaunchHostFunc(stream, &Sleep, nullptr));
  FIRN_WORKS(device.MemsetD8Async(address, 1, device.granule_bytes(), stream));
  FIRN_WORKS(device.MemFree(address));
  FIRN_WORKS(device.StreamQuery(stream));
}

}  // namespace
}  // namespace firn::contract
