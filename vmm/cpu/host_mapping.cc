// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/host_mapping.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>

namespace firn::cpu {
namespace {

constexpr int kReservationFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* ToPointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// Returns the address, or 0.
DevicePtr RawMmap(DevicePtr address, uint64_t bytes, int protection, int flags,
                  int fd, uint64_t offset_bytes) {
  const long result = syscall(SYS_mmap, ToPointer(address), bytes, protection,
                              flags, fd, offset_bytes);
  return result == -1 ? 0 : static_cast<DevicePtr>(result);
}

int Protection(AccessFlags access) {
  switch (access) {
    case AccessFlags::kNone:
      return PROT_NONE;
    case AccessFlags::kRead:
      return PROT_READ;
    case AccessFlags::kReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

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
  // The library's call on purpose: it lets sanitizers forget the range.
  munmap(ToPointer(address), bytes);
}

bool MapInaccessible(DevicePtr address, uint64_t bytes) {
  return RawMmap(address, bytes, PROT_NONE, kReservationFlags | MAP_FIXED,
                 /*fd=*/-1, /*offset_bytes=*/0) != 0;
}

bool MapFile(DevicePtr address, uint64_t bytes, int fd, uint64_t offset_bytes,
             AccessFlags access, bool huge_pages) {
  if (RawMmap(address, bytes, Protection(access), MAP_SHARED | MAP_FIXED, fd,
              offset_bytes) == 0) {
    return false;
  }
  // Only a matter of speed, so a refusal does not matter.
  if (huge_pages) {
    syscall(SYS_madvise, ToPointer(address), bytes, MADV_HUGEPAGE);
  }
  return true;
}

bool ProtectFile(DevicePtr address, uint64_t bytes, AccessFlags access) {
  return syscall(SYS_mprotect, ToPointer(address), bytes, Protection(access)) ==
         0;
}

bool MapScratch(DevicePtr address, uint64_t bytes) {
  return RawMmap(address, bytes, PROT_READ | PROT_WRITE,
                 kReservationFlags | MAP_FIXED, /*fd=*/-1,
                 /*offset_bytes=*/0) != 0;
}

}  // namespace firn::cpu
