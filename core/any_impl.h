// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands behind a Pool: one that moves live memory (core/pool_impl.h), or
// one for devices on which none can be moved (core/fixed_impl.h).

#ifndef FIRN_CORE_ANY_IMPL_H_
#define FIRN_CORE_ANY_IMPL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/pool.h"

namespace firn {

// Each method does what the one of Pool promises that has its name, but for
// what is the same everywhere and done by Pool itself: refusing passes where
// nothing may move, and the fields of PoolStats that tell so.
// Thread safety: all methods may be called from any thread.
class Pool::AnyImpl {
 public:
  virtual ~AnyImpl() = default;

  virtual absl::StatusOr<void*> Allocate(uint64_t bytes,
                                         const AllocateOptions& options) = 0;
  virtual absl::Status Free(void* ptr, StreamHandle stream) = 0;
  virtual absl::Status RecordUse(const void* ptr, StreamHandle stream) = 0;
  virtual absl::Status ReleaseStream(StreamHandle stream) = 0;
  // Where nothing may move, asked for dry runs only.
  virtual absl::StatusOr<CompactionReport> Compact(
      const CompactOptions& options) = 0;
  virtual absl::StatusOr<uint64_t> Trim(uint64_t keep_bytes) = 0;
  // May tidy up first.
  virtual PoolStats GetStats() = 0;
  virtual PoolUsage GetUsage() const = 0;
  virtual absl::StatusOr<uint64_t> Generation(const void* ptr) const = 0;
  virtual absl::Status CheckInvariants() = 0;
  virtual LaunchGate* launch_gate() = 0;

 protected:
  // What the gate of the pool's scopes has counted.
  static void AddGateStats(const LaunchGate& gate, PoolStats* stats);
};

}  // namespace firn

#endif  // FIRN_CORE_ANY_IMPL_H_
