// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pool for devices on which no memory can be moved: the same interface over
// segments of plain device memory, in which blocks stay where they are.

#ifndef FIRN_CORE_FIXED_IMPL_H_
#define FIRN_CORE_FIXED_IMPL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "firn/core/any_impl.h"
#include "firn/core/free_queue.h"
#include "firn/core/graph_pools.h"
#include "firn/core/move_hook_list.h"
#include "firn/core/pinned_blocks.h"
#include "firn/core/placement/segment_heap.h"
#include "firn/core/pool.h"
#include "firn/core/seen_streams.h"
#include "firn/core/tag_books.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

// Streams protect freed memory as in the pool that moves. What it ignores of
// PoolOptions is what has a meaning for granules alone: see docs/using.md.
class Pool::FixedImpl final : public Pool::AnyImpl {
 public:
  // `options` are valid, name the driver and a capacity, and neither peers nor
  // exportable memory;
  // `driver_reason` says why this driver, `never_moves` why nothing moves.
  static absl::StatusOr<std::unique_ptr<FixedImpl>> Create(
      PoolOptions options, std::string driver_reason, std::string never_moves);
  ~FixedImpl() override;

  absl::StatusOr<void*> Allocate(uint64_t bytes,
                                 const AllocateOptions& options) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Free(void* ptr, StreamHandle stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RecordUse(const void* ptr, StreamHandle stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status BeginPool(GraphPoolId id,
                         absl::Span<const StreamHandle> streams) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status EndPool(GraphPoolId id) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ReleasePool(GraphPoolId id) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing moves, whatever is declared.
  absl::Status Declare(const void* ptr, StreamHandle stream,
                       Declaration what) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status MarkActive(const void* ptr) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing is kept for a stream.
  absl::Status ReleaseStream(StreamHandle stream) override;
  // Nothing moves, but a pinned block cannot be freed either.
  absl::StatusOr<Pin> PinBlock(const void* ptr,
                               absl::string_view reason) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  // FailedPrecondition: segments cannot be exported.
  absl::StatusOr<ExportedBlock> Export(const void* ptr) override;
  // Never called.
  absl::StatusOr<MoveHookRegistration> AddMoveHook(MoveHook hook) override;
  // FailedPrecondition: segments are not told apart by domain.
  absl::StatusOr<Domain> CreateDomain(const DomainOptions& options) override;
  absl::Status SetLimit(MemoryLimit limit) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SetDomainLimit(DomainId domain, MemoryLimit limit) override;
  std::vector<DomainStats> GetDomainStats() const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Tag> RegisterTag(absl::string_view name) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<TagStats> GetTagStats() const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CompactionReport> Compact(
      const CompactOptions& options) override;
  absl::StatusOr<uint64_t> Trim(uint64_t keep_bytes) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  PoolStats GetStats() override ABSL_LOCKS_EXCLUDED(mutex_);
  PoolUsage GetUsage() override ABSL_LOCKS_EXCLUDED(mutex_);
  FragmentationStats GetFragmentation() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint64_t> Generation(const void* ptr) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckInvariants() override ABSL_LOCKS_EXCLUDED(mutex_);
  // It has no rungs but pending frees, which it does not count.
  LadderStats GetLadderStats() const override { return LadderStats(); }
  bool MayCallBack(StreamHandle stream) const override;
  LaunchGate* launch_gate() override { return &gate_; }
  MemorySnapshot TakeMemorySnapshot() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using BlockNumber = SegmentHeap::BlockNumber;
  struct Request {
    uint64_t bytes = 0;
    uint64_t alignment_quanta = 1;
    std::optional<GraphOwner> graph_owner;
  };
  struct ByteLimit {
    uint64_t hard = 0;
    uint64_t soft = 0;  // at most hard
  };

  FixedImpl(PoolOptions options, std::string driver_reason,
            std::string never_moves, std::unique_ptr<StreamTracker> tracker,
            std::unique_ptr<EventRecorder> recorder);

  absl::StatusOr<BlockNumber> AllocateLocked(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rungs of an allocation, cheapest first, with segments of at most so
  // many bytes in all.
  absl::StatusOr<BlockNumber> AllocateWithin(uint64_t limit_bytes,
                                             const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Places it in a new segment. ResourceExhausted: neither the capacity nor the
  // driver has room for one.
  absl::StatusOr<BlockNumber> AllocateInNewSegment(uint64_t limit_bytes,
                                                   const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds one of at least `least_bytes`; returns its address.
  absl::StatusOr<DevicePtr> AddSegment(uint64_t limit_bytes,
                                       uint64_t least_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives an empty one back to the driver; it stays if that fails.
  absl::Status ReleaseSegment(DevicePtr address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives empty ones back until at most `keep_bytes` are in such, and adds up
  // what went.
  absl::Status ReleaseEmpty(uint64_t keep_bytes, uint64_t* released_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OutOfMemory(const Request& request,
                           const absl::Status& last_failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The live block that starts at `ptr`; InvalidArgument says what is wrong
  // with the address.
  absl::StatusOr<BlockNumber> FindBlock(const void* ptr) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FreeLocked(BlockNumber block, uint64_t bytes,
                          StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // --- Captures and graph-private pools: as in core/pool_impl.h ---
  absl::StatusOr<bool> IsInCapture(StreamHandle stream) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayNoteWait(StreamHandle stream) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ExplainCapture(const absl::Status& failure) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SetGraphOwner(StreamHandle stream, Request* request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<BlockNumber> TakeKept(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddGraphBlock(const Request& request, BlockNumber block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FreeInGraphPool(BlockNumber block, uint64_t bytes,
                               StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecordGraphUse(BlockNumber block, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the device, if pools that are gone have left anything, and frees
  // that.
  absl::Status ReleaseRetired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckGraphPools() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until no work uses what was freed without a token.
  absl::Status WaitForFreed();
  // Gives back what its streams are done with; all of it with `wait`.
  absl::Status ReleasePending(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The blocks of `done_`.
  void ReleaseDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotePeaks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Constant after construction.
  const PoolOptions options_;
  const std::string driver_reason_;
  const std::string never_moves_;
  const DriverIdentity identity_;
  Driver* const driver_;
  const uint64_t capacity_bytes_;

  // With locks of their own.
  const std::unique_ptr<StreamTracker> tracker_;
  LaunchGate gate_;
  SeenStreams streams_;
  // Shared with pins and registrations, which may outlive the pool.
  const std::shared_ptr<PinnedBlocks> pins_;
  const std::shared_ptr<MoveHookList> hooks_;

  // Guards everything below. The locks of the tracker and of the driver come
  // after it.
  mutable Mutex mutex_;
  SegmentHeap heap_ ABSL_GUARDED_BY(mutex_);
  // A block is named by its number there, as if that were a virtual granule.
  FreeQueue free_queue_ ABSL_GUARDED_BY(mutex_);
  TagBooks tags_ ABSL_GUARDED_BY(mutex_);
  ByteLimit limit_ ABSL_GUARDED_BY(mutex_);
  // What was held when the limit was set, as far as it still is: I9.
  uint64_t ceiling_bytes_ ABSL_GUARDED_BY(mutex_);
  GraphPools graph_pools_ ABSL_GUARDED_BY(mutex_);
  // Freed, and not free for everybody yet: in the queue, or kept by
  // graph-private pools.
  absl::flat_hash_set<BlockNumber> pending_ ABSL_GUARDED_BY(mutex_);
  // What RecordUse has noted of live blocks.
  absl::flat_hash_map<BlockNumber, std::vector<StreamToken>> uses_
      ABSL_GUARDED_BY(mutex_);
  // The counters of PoolStats; its gauges are computed when asked for, but for
  // the live ones.
  PoolStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<BlockStart> done_ ABSL_GUARDED_BY(mutex_);  // scratch
  // Memory was released that only its stream's order protects: work in flight
  // may still touch it.
  bool has_unconfirmed_frees_ ABSL_GUARDED_BY(mutex_) = false;
  // False during a call inside a scope of its own thread, or in a capture.
  bool may_wait_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace firn

#endif  // FIRN_CORE_FIXED_IMPL_H_
