// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands behind a Pool: one that moves live memory (core/pool_impl.h), or
// one for devices on which none can be moved (core/fixed_impl.h).

#ifndef FIRN_CORE_ANY_IMPL_H_
#define FIRN_CORE_ANY_IMPL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/core/declared_blocks.h"
#include "firn/core/domain.h"
#include "firn/core/event_recorder.h"
#include "firn/core/exported_block.h"
#include "firn/core/fragmentation_stats.h"
#include "firn/core/graph_pool_id.h"
#include "firn/core/history.h"
#include "firn/core/ladder.h"
#include "firn/core/memory_snapshot.h"
#include "firn/core/move_hooks.h"
#include "firn/core/pin.h"
#include "firn/core/pool.h"
#include "firn/core/tags.h"

namespace firn {

class GraphPools;
class MoveHookList;
class SeenStreams;
class StreamTracker;

// Each method does what the one of Pool promises that has its name, but for
// what is the same everywhere and done by Pool itself: refusing passes where
// nothing may move, and the fields of PoolStats that tell so.
// Thread safety: all methods may be called from any thread.
class Pool::AnyImpl {
 public:
  // The recorder is null where no events are recorded.
  explicit AnyImpl(std::unique_ptr<EventRecorder> recorder);
  virtual ~AnyImpl();

  virtual absl::StatusOr<void*> Allocate(uint64_t bytes,
                                         const AllocateOptions& options) = 0;
  virtual absl::Status Free(void* ptr, StreamHandle stream) = 0;
  virtual absl::Status RecordUse(const void* ptr, StreamHandle stream) = 0;
  virtual absl::Status Declare(const void* ptr, StreamHandle stream,
                               Declaration what) = 0;
  virtual absl::Status MarkActive(const void* ptr) = 0;
  virtual absl::Status ReleaseStream(StreamHandle stream) = 0;
  // Where nothing may move, asked for dry runs only.
  virtual absl::StatusOr<CompactionReport> Compact(
      const CompactOptions& options) = 0;
  virtual absl::StatusOr<uint64_t> Trim(uint64_t keep_bytes) = 0;
  virtual absl::Status BeginPool(GraphPoolId id,
                                 absl::Span<const StreamHandle> streams) = 0;
  virtual absl::Status EndPool(GraphPoolId id) = 0;
  virtual absl::Status ReleasePool(GraphPoolId id) = 0;
  virtual absl::StatusOr<Pin> PinBlock(const void* ptr,
                                       absl::string_view reason) = 0;
  virtual absl::StatusOr<ExportedBlock> Export(const void* ptr) = 0;
  virtual absl::StatusOr<MoveHookRegistration> AddMoveHook(MoveHook hook) = 0;
  virtual absl::StatusOr<Domain> CreateDomain(const DomainOptions& options) = 0;
  virtual absl::Status SetLimit(MemoryLimit limit) = 0;
  virtual absl::Status SetDomainLimit(DomainId domain, MemoryLimit limit) = 0;
  virtual std::vector<DomainStats> GetDomainStats() const = 0;
  virtual absl::StatusOr<Tag> RegisterTag(absl::string_view name) = 0;
  virtual std::vector<TagStats> GetTagStats() const = 0;
  // May tidy up first.
  virtual PoolStats GetStats() = 0;
  virtual PoolUsage GetUsage() = 0;
  // May tidy up as well.
  virtual FragmentationStats GetFragmentation() = 0;
  virtual absl::StatusOr<uint64_t> Generation(const void* ptr) const = 0;
  virtual absl::Status CheckInvariants() = 0;
  // But for kCallbacks.
  virtual LadderStats GetLadderStats() const = 0;
  // Whether callbacks of the user may be called for an allocation for `stream`
  // that fails on this thread.
  virtual bool MayCallBack(StreamHandle stream) const = 0;
  virtual LaunchGate* launch_gate() = 0;
  virtual History GetHistory() const;
  // But for its history.
  virtual MemorySnapshot TakeMemorySnapshot() = 0;

 protected:
  // Tell the recorder; nothing happens where there is none.
  void RecordAllocation(DevicePtr address, uint64_t bytes, StreamHandle stream,
                        Tag tag) const {
    if (recorder_ == nullptr) return;
    RecordTagged(HistoryKind::kAllocate, address, bytes, stream, tag);
  }
  void RecordFailure(uint64_t bytes, StreamHandle stream, Tag tag) const {
    if (recorder_ == nullptr) return;
    RecordTagged(HistoryKind::kAllocateFailure, /*address=*/0, bytes, stream,
                 tag);
  }
  void Record(HistoryKind kind, DevicePtr address, uint64_t bytes,
              StreamHandle stream = nullptr) const {
    if (recorder_ == nullptr) return;
    RecordTagged(kind, address, bytes, stream, Tag::kUntagged);
  }
  // Has done what recording has put off. Without a lock.
  void SettleRecords() const {
    if (recorder_ != nullptr) recorder_->Settle();
  }
  EventRecorder* recorder() const { return recorder_.get(); }

  // What the gate of the pool's scopes has counted.
  static void AddGateStats(const LaunchGate& gate, PoolStats* stats);
  static absl::StatusOr<MoveHookRegistration> Register(
      MoveHook hook, const std::shared_ptr<MoveHookList>& hooks);
  // Why a block that is pinned for these reasons is not freed.
  static absl::Status PinnedError(const void* ptr, const std::string& reasons);
  // Why a block of a graph-private pool is never idle.
  static absl::Status OwnedByGraphPool();
  // A pin needs a reason.
  static absl::Status CheckReason(absl::string_view reason);

  // Streams that a graph-private pool is opened for.
  struct GraphStreams {
    std::vector<uint64_t> ids;
    bool is_capturing = false;  // one of them at least
  };
  // InvalidArgument: one is no stream.
  static absl::StatusOr<GraphStreams> IdentifyAll(
      absl::Span<const StreamHandle> streams, const SeenStreams& seen,
      StreamTracker* tracker);
  // Opens the pool, and has `seen` wait for what was freed without a token, as
  // far as its owner may wait. Nothing has changed after an error.
  static absl::Status OpenGraphPool(GraphPoolId id,
                                    absl::Span<const uint64_t> stream_ids,
                                    SeenStreams* seen, GraphPools* pools);

 private:
  void RecordTagged(HistoryKind kind, DevicePtr address, uint64_t bytes,
                    StreamHandle stream, Tag tag) const;

  // Null: nothing is recorded. The last to go.
  const std::unique_ptr<EventRecorder> recorder_;
};

}  // namespace firn

#endif  // FIRN_CORE_ANY_IMPL_H_
