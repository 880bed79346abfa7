// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/spare_kernel_mappings.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/base/attributes.h"
#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/host_memory.h"

namespace firn::cpu {
namespace {

constexpr uint64_t kComplete = 1;

uint64_t RangeBytes() { return SpareKernelMappings::kCount * HostPageBytes(); }

void Unmap(uint64_t range) {
  if (range == 0) return;
  syscall(SYS_munmap, HostPointer(range & ~kComplete), RangeBytes());
}

ABSL_CONST_INIT SpareKernelMappings of_process;

}  // namespace

SpareKernelMappings& SpareKernelMappings::OfProcess() { return of_process; }

void SpareKernelMappings::Refill() {
  if ((range_.load() & kComplete) != 0) return;
  // Of a shared object of its own, which the kernel never joins to a neighbour:
  // giving it up never takes the splitting of anything.
  const uint64_t range =
      RawMmap(/*address=*/0, RangeBytes(), PROT_NONE,
              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1,
              /*offset_bytes=*/0);
  if (range == 0) return;
  // Every other host page differs from its neighbours: a mapping each.
  bool complete = true;
  for (uint64_t i = 1; i < kCount && complete; i += 2) {
    complete = ProtectFile(range + i * HostPageBytes(), HostPageBytes(),
                           AccessFlags::kRead);
  }
  Unmap(range_.exchange(range | (complete ? kComplete : 0)));
}

void SpareKernelMappings::GiveUp() { Unmap(range_.exchange(0)); }

}  // namespace firn::cpu
