// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The few things that the CPU driver asks of the host's MMU. Mapping calls are
// made as raw system calls: they work inside a signal handler, and sanitizers
// do not take a change of protection for an access to the memory.

#ifndef FIRN_VMM_CPU_HOST_MAPPING_H_
#define FIRN_VMM_CPU_HOST_MAPPING_H_

#include <cstdint>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// The size of the host's large pages on the machines of today; granules of
// this size or a multiple of it are asked to be backed by them.
inline constexpr uint64_t kHostHugePageBytes = uint64_t{2} << 20;

// Takes `bytes` of addresses, inaccessible and without memory, aligned to
// `alignment_bytes` (a power of two, at least a host page), at `hint` when that
// is aligned and free. False when there is no room.
bool ReserveAddresses(uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint,
                      DevicePtr* address);
void ReleaseAddresses(DevicePtr address, uint64_t bytes);

// The following replace what is mapped at a part of a reservation. All are
// async-signal-safe; false when the kernel refuses.

// Makes it inaccessible, as a fresh reservation is.
bool MapInaccessible(DevicePtr address, uint64_t bytes);
// Makes it a window on the file's bytes from `offset_bytes` on; `access` is
// kRead or kReadWrite.
bool MapFile(DevicePtr address, uint64_t bytes, int fd, uint64_t offset_bytes,
             AccessFlags access, bool huge_pages);
// Changes the access to a range that MapFile made.
bool ProtectFile(DevicePtr address, uint64_t bytes, AccessFlags access);
// Makes it private memory that reads as zero.
bool MapScratch(DevicePtr address, uint64_t bytes);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_HOST_MAPPING_H_
