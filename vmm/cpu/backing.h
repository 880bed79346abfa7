// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory behind the granules of a device with contents: ranges of one
// sparse memory file, which lets any granule be mapped at any address.

#ifndef FIRN_VMM_CPU_BACKING_H_
#define FIRN_VMM_CPU_BACKING_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "firn/vmm/cpu/offset_allocator.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Thread safety: none.
class Backing {
 public:
  // Memory is filled with kCpuPoisonWord when allocated if `poison`, else it
  // reads as zero.
  static absl::StatusOr<std::unique_ptr<Backing>> Create(
      uint64_t granularity_bytes, bool poison);
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // Takes a range of granules; false beyond what the host can spare.
  bool Allocate(uint64_t granules, uint64_t* first);
  // Gives a range that Allocate gave back to the host.
  void Free(uint64_t first, uint64_t granules);

  // Makes `granules` from `first` on appear at `address`.
  bool MapAt(DevicePtr address, uint64_t first, uint64_t granules,
             AccessFlags access) const;

 private:
  Backing(uint64_t granularity_bytes, bool poison, int fd, DevicePtr window,
          uint64_t window_bytes);

  // Whether the host can spare `bytes` more; if so, they are taken.
  bool TakeFromHost(uint64_t bytes);
  bool GrowFile(uint64_t file_bytes);
  bool Poison(uint64_t first, uint64_t granules);

  const uint64_t granularity_bytes_;
  const bool poison_;
  const bool huge_pages_;
  const int fd_;
  // Addresses through which fresh memory is filled.
  const DevicePtr window_;
  const uint64_t window_bytes_;
  OffsetAllocator offsets_;
  uint64_t file_bytes_ = 0;
  uint64_t allocated_bytes_ = 0;
  // Bytes that may be allocated before asking the host again.
  uint64_t headroom_bytes_ = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_BACKING_H_
