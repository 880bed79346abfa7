// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What memory the host has to spare.

#ifndef FIRN_VMM_CPU_HOST_MEMORY_H_
#define FIRN_VMM_CPU_HOST_MEMORY_H_

#include <cstdint>

namespace firn::cpu {

// Never handed out as device memory: the host needs some to go on.
inline constexpr uint64_t kHostReserveBytes = uint64_t{256} << 20;

// Bytes that can be used without swapping, as the kernel estimates them, or
// what the process's control group still allows where that is less.
uint64_t HostAvailableBytes();

uint64_t HostPageBytes();

// Whether the host backs shared memory by huge pages where it is asked to. It
// need not be asked where it never does, nor where it does so by itself.
bool HostTakesHugePageAdvice();

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_HOST_MEMORY_H_
