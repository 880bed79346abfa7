// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The few things that the CPU driver asks of the host's MMU. Mapping calls are
// made as raw system calls: they work inside a signal handler, and sanitizers
// do not take a change of protection for an access to the memory.

#ifndef FIRN_VMM_CPU_HOST_MAPPING_H_
#define FIRN_VMM_CPU_HOST_MAPPING_H_

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// The size of the host's large pages on the machines of today; granules of
// this size or a multiple of it are asked to be backed by them.
inline constexpr uint64_t kHostHugePageBytes = uint64_t{2} << 20;

// Of what is reserved and inaccessible.
inline constexpr int kReservationFlags =
    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Takes `bytes` of addresses, inaccessible and without memory, aligned to
// `alignment_bytes` (a power of two, at least a host page), at `hint` when that
// is aligned and free. False when there is no room.
bool ReserveAddresses(uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint,
                      DevicePtr* address);
// Gives them back, mapped or not.
void ReleaseAddresses(DevicePtr address, uint64_t bytes);
// After a mapping call failed on a part of a reservation: kernels differ in
// whether they have removed what was there by then. If so, makes that part
// inaccessible, and returns true.
bool CloseHole(DevicePtr address, uint64_t bytes);

inline void* HostPointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// Returns the address, or 0.
inline DevicePtr RawMmap(DevicePtr address, uint64_t bytes, int protection,
                         int flags, int fd, uint64_t offset_bytes) {
  const long result = syscall(SYS_mmap, HostPointer(address), bytes, protection,
                              flags, fd, offset_bytes);
  return result == -1 ? 0 : static_cast<DevicePtr>(result);
}

inline int HostProtection(AccessFlags access) {
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

// The following replace what is mapped at a part of a reservation. All are
// async-signal-safe; false when the kernel refuses. Inline, since a return that
// follows a system call is a slow one.

// Makes it inaccessible, as a fresh reservation is.
inline bool MapInaccessible(DevicePtr address, uint64_t bytes) {
  return RawMmap(address, bytes, PROT_NONE, kReservationFlags | MAP_FIXED,
                 /*fd=*/-1, /*offset_bytes=*/0) != 0;
}
// Makes it a window on the file's bytes from `offset_bytes` on; `access` is
// kRead or kReadWrite.
inline bool MapFile(DevicePtr address, uint64_t bytes, int fd,
                    uint64_t offset_bytes, AccessFlags access,
                    bool huge_pages) {
  if (RawMmap(address, bytes, HostProtection(access), MAP_SHARED | MAP_FIXED,
              fd, offset_bytes) == 0) {
    return false;
  }
  // Only a matter of speed, so a refusal does not matter.
  if (huge_pages) {
    syscall(SYS_madvise, HostPointer(address), bytes, MADV_HUGEPAGE);
  }
  return true;
}
// Changes the access to a range that MapFile made.
inline bool ProtectFile(DevicePtr address, uint64_t bytes, AccessFlags access) {
  return syscall(SYS_mprotect, HostPointer(address), bytes,
                 HostProtection(access)) == 0;
}
// Makes it private memory that reads as zero.
inline bool MapScratch(DevicePtr address, uint64_t bytes) {
  return RawMmap(address, bytes, PROT_READ | PROT_WRITE,
                 kReservationFlags | MAP_FIXED, /*fd=*/-1,
                 /*offset_bytes=*/0) != 0;
}
// Makes it private memory that reads as the file's bytes from `offset_bytes` on
// until it is written to.
inline bool MapScratchOfFile(DevicePtr address, uint64_t bytes, int fd,
                             uint64_t offset_bytes) {
  return RawMmap(address, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, fd,
                 offset_bytes) != 0;
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_HOST_MAPPING_H_
