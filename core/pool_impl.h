// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands behind Pool: the layers in the order in which they are built,
// one lock, and the ladder that an allocation climbs before it fails.

#ifndef FIRN_CORE_POOL_IMPL_H_
#define FIRN_CORE_POOL_IMPL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/compaction/relocator.h"
#include "firn/core/compactor.h"
#include "firn/core/free_queue.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/granule_books.h"
#include "firn/core/placement/large_allocator.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/core/pool.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/store_keeper.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

class Pool::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Create(PoolOptions options);
  ~Impl();

  absl::StatusOr<void*> Allocate(uint64_t bytes, const AllocateOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Free(void* ptr, StreamHandle stream) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CompactionReport> Compact(const CompactOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint64_t> Trim(uint64_t keep_bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  PoolStats GetStats() const ABSL_LOCKS_EXCLUDED(mutex_);
  PoolUsage GetUsage() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint64_t> Generation(const void* ptr) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckInvariants() const ABSL_LOCKS_EXCLUDED(mutex_);
  LaunchGate* launch_gate() { return &gate_; }

 private:
  // A request in the pool's units.
  struct Request {
    uint64_t bytes = 0;
    uint64_t quanta = 0;
    uint64_t alignment_quanta = 1;
  };
  // How far an allocation may go.
  enum class Reach {
    kNoWaiting,    // inside a scope of its own thread
    kFreeMemory,   // live memory stays where it is
    kUntilMoving,  // likewise, and gives up where that would be moved
    kLiveMemory,   // with the gate closed
  };
  // What a pool is made of, in the order in which it is made.
  struct Parts {
    std::string driver_reason;
    std::vector<Driver*> devices;
    std::unique_ptr<AddressSpace> address_space;
    GranuleStoreOptions store;
    MappingTableOptions mappings;
    std::unique_ptr<StreamTracker> tracker;
  };

  Impl(PoolOptions options, Parts parts);
  absl::Status CreateRelocator();
  absl::Status StartKeeper();

  absl::StatusOr<BlockStart> AllocateLocked(const Request& request, Reach reach)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes the gate, and climbs the whole ladder.
  absl::StatusOr<BlockStart> AllocateGated(const Request& request,
                                           absl::Status failure)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // One attempt, without moving anything live.
  absl::StatusOr<BlockStart> TryPlace(const Request& request, Effort effort)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rungs after a failed attempt, cheapest first.
  absl::StatusOr<BlockStart> ClimbLadder(const Request& request, Reach reach,
                                         absl::Status failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Empties whole granules.
  absl::Status MakeRoom(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it goes into a window.
  bool IsSmall(const Request& request) const {
    return request.quanta < quanta_per_granule_ &&
           request.alignment_quanta <= quanta_per_granule_;
  }
  // Whether passes might recover anything for it: something was freed since
  // they last did not.
  bool MayMovingHelp(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HoleWasInVain(const WindowAllocator::Shape& shape)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WindowAllocator::Shape ShapeOf(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return windows_.ShapeOf(static_cast<uint32_t>(request.quanta),
                            static_cast<uint32_t>(request.alignment_quanta));
  }
  // Opens a hole within a granule.
  absl::Status MakeHole(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OutOfMemory(const Request& request,
                           const absl::Status& last_failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits for all devices.
  absl::Status WaitForDevices() const;
  // No work uses what is about to move, and what was freed is released: waits
  // for the devices, unless launches are drained.
  absl::Status WaitUntilIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CompactLocked(const CompactOptions& options,
                             CompactionReport* report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountPass(const absl::Status& status, const CompactionReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The live block that starts at `ptr`; InvalidArgument says what is wrong
  // with the address.
  absl::StatusOr<BlockStart> FindBlock(const void* ptr) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t RequestedBytes(BlockStart start) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(BlockStart start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until no work uses what was freed.
  absl::Status WaitForFreed();
  // Gives back what its streams are done with; all of it with `wait`.
  absl::Status ReleasePending(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotePeaks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void* AddressOf(BlockStart start) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t GranulesToBytes(uint64_t granules) const {
    return granules * granule_bytes_;
  }

  // Constant after construction.
  const PoolOptions options_;
  const std::string driver_reason_;
  const DriverIdentity identity_;
  const std::vector<Driver*> devices_;  // the own one first; options_ has them
  Driver* const driver_;                // the own one
  const uint64_t granule_bytes_;
  const uint32_t quanta_per_granule_;

  // With locks of their own. The gate is closed before mutex_ is taken, never
  // while it is held: an open scope may be waiting for it.
  const std::unique_ptr<StreamTracker> tracker_;
  LaunchGate gate_;
  GranuleStore store_;

  // Guards everything below. No callback runs while it is held. The locks of
  // the store, of the tracker and of the driver come after it.
  mutable Mutex mutex_;
  std::unique_ptr<AddressSpace> address_space_ ABSL_GUARDED_BY(mutex_);
  MappingTable mappings_ ABSL_GUARDED_BY(mutex_);
  GranuleBooks books_ ABSL_GUARDED_BY(mutex_);
  Backing backing_ ABSL_GUARDED_BY(mutex_);
  WindowAllocator windows_ ABSL_GUARDED_BY(mutex_);
  LargeAllocator large_ ABSL_GUARDED_BY(mutex_);
  FreeQueue free_queue_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Relocator> relocator_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Compactor> compactor_ ABSL_GUARDED_BY(mutex_);
  // The counters of PoolStats; its gauges are computed when asked for, but for
  // the live ones.
  PoolStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<BlockStart> done_ ABSL_GUARDED_BY(mutex_);  // scratch
  // Frees seen when a pass last recovered nothing: another one is pointless
  // until something has been freed.
  uint64_t frees_at_empty_pass_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};
  // Likewise for a hole of this shape, or a larger or stricter one.
  uint64_t frees_at_failed_hole_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};
  WindowAllocator::Shape failed_hole_ ABSL_GUARDED_BY(mutex_);
  // Memory was released that only its stream's order protects: work in flight
  // may still touch it.
  bool has_unconfirmed_frees_ ABSL_GUARDED_BY(mutex_) = false;
  // False during a call inside a scope of its own thread.
  bool may_wait_ ABSL_GUARDED_BY(mutex_) = true;
  // All launches on the pool's memory are in scopes, the gate is closed, and
  // what was launched is done.
  bool launches_are_drained_ ABSL_GUARDED_BY(mutex_) = false;

  // Last: it is the first to go.
  std::unique_ptr<StoreKeeper> keeper_;
};

}  // namespace firn

#endif  // FIRN_CORE_POOL_IMPL_H_
