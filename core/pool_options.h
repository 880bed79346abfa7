// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a Pool is made with. `PoolOptions{}` alone gives a working pool.

#ifndef FIRN_CORE_POOL_OPTIONS_H_
#define FIRN_CORE_POOL_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_types.h"

namespace firn {

class Driver;

struct PoolOptions {
  // The driver to allocate from; nullptr chooses: CUDA device 0 where it is
  // usable, else the CPU driver with real storage. The environment variable
  // FIRN_DRIVER=cuda|cpu decides by hand (only when `driver` is nullptr); any
  // other value is refused. The choice and its reason are in PoolStats.
  std::shared_ptr<Driver> driver;

  // CUDA device of the driver chosen when `driver` is nullptr.
  int device_ordinal = 0;

  // Most physical memory the pool holds, in bytes; rounded down to a whole
  // number of granules. 0 means nine tenths of what the device has free now
  // (CPU driver: half of the host's free memory, at most 8 GiB). Memory is
  // taken lazily. A value of less than one granule is refused.
  uint64_t capacity_bytes = 0;

  // Bytes of one granule: what one physical handle holds and what is moved.
  // 0 means the device's minimum granularity; else a power of two from 64 KiB
  // to 64 MiB that is a multiple of it. Refused otherwise.
  uint64_t granule_bytes = 0;

  // Address space reserved, as a multiple of the capacity: room for windows
  // and for large blocks whose holes are refilled elsewhere. At least 2, at
  // most 1024.
  uint32_t address_space_factor = 16;

  // Whether an allocation that would fail may move live memory (level 0 of the
  // contract): only set it where every allocating thread can promise that no
  // other thread launches work on this pool's memory meanwhile. The pool waits
  // for the device by itself. Off: a failing allocation touches free memory
  // only.
  bool move_on_failure = false;

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right. Makes no driver call; what depends on the device is checked by
  // Pool::Create.
  absl::Status Validate() const;
};

struct AllocateOptions {
  // Least alignment of the address in bytes: a power of two up to 1 GiB. Every
  // address is aligned to 512 at least.
  uint64_t alignment_bytes = 512;

  // The stream that uses the memory first. Memory freed on a stream is
  // reusable there at once, elsewhere when that stream's work is done.
  StreamHandle stream = nullptr;
};

struct CompactOptions {
  // Budgets of the pass; 0 means no limit. The pass stops before the first
  // move that would exceed one. `max_duration` is checked between batches.
  uint64_t max_bytes = 0;
  uint64_t max_moves = 0;
  absl::Duration max_duration = absl::InfiniteDuration();

  // Stop planning once this many granules would be recovered; 0 means as many
  // as possible.
  uint64_t wanted_granules = 0;

  // Plan and report only: nothing is moved.
  bool dry_run = false;
};

}  // namespace firn

#endif  // FIRN_CORE_POOL_OPTIONS_H_
