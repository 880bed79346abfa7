// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/host_mapping.h"

#include <cstdlib>
#include <limits>

#include "firn/vmm/cpu/spare_kernel_mappings.h"

namespace firn::cpu {
namespace {

bool ReserveAt(DevicePtr hint, uint64_t bytes) {
  const DevicePtr got =
      RawMmap(hint, bytes, PROT_NONE, kReservationFlags | MAP_FIXED_NOREPLACE,
              /*fd=*/-1, /*offset_bytes=*/0);
  // A kernel that does not know the flag takes the address for a hint.
  if (got != 0 && got != hint) ReleaseAddresses(got, bytes);
  return got == hint;
}

}  // namespace

bool ReserveAddresses(uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint,
                      DevicePtr* address) {
  if (hint != 0 && hint % alignment_bytes == 0 && ReserveAt(hint, bytes)) {
    *address = hint;
    return true;
  }
  if (bytes > std::numeric_limits<uint64_t>::max() - alignment_bytes) {
    return false;
  }
  // Takes enough to hold an aligned range, and gives back head and tail.
  const uint64_t taken_bytes = bytes + alignment_bytes;
  const DevicePtr taken = RawMmap(0, taken_bytes, PROT_NONE, kReservationFlags,
                                  /*fd=*/-1, /*offset_bytes=*/0);
  if (taken == 0) return false;
  const DevicePtr start =
      (taken + alignment_bytes - 1) & ~(alignment_bytes - 1);
  if (start > taken) ReleaseAddresses(taken, start - taken);
  ReleaseAddresses(start + bytes, taken + taken_bytes - (start + bytes));
  *address = start;
  return true;
}

void ReleaseAddresses(DevicePtr address, uint64_t bytes) {
  // The library's call on purpose: it lets sanitizers forget the range. It may
  // have to part what the kernel joined.
  WithSpareMappings([&] { return munmap(HostPointer(address), bytes) == 0; });
}

bool CloseHole(DevicePtr address, uint64_t bytes) {
  // This call changes nothing, but fails where nothing is mapped.
  if (syscall(SYS_msync, HostPointer(address), bytes, MS_ASYNC) == 0) {
    return false;
  }
  const bool closed =
      WithSpareMappings([&] { return MapInaccessible(address, bytes); });
  // Device work could reach whatever the host put there next.
  if (!closed) abort();
  return true;
}

}  // namespace firn::cpu
