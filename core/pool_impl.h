// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands behind Pool: caches of freed blocks, one lock, behind it the
// layers in the order in which they are built, and the ladder that an
// allocation climbs before it fails.

#ifndef FIRN_CORE_POOL_IMPL_H_
#define FIRN_CORE_POOL_IMPL_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "firn/compaction/relocator.h"
#include "firn/core/any_impl.h"
#include "firn/core/arena.h"
#include "firn/core/block_caches.h"
#include "firn/core/declared_blocks.h"
#include "firn/core/domain_books.h"
#include "firn/core/domain_record.h"
#include "firn/core/failure_memory.h"
#include "firn/core/free_queue.h"
#include "firn/core/graph_pools.h"
#include "firn/core/ladder_climb.h"
#include "firn/core/move_batch.h"
#include "firn/core/move_hook_list.h"
#include "firn/core/pinned_blocks.h"
#include "firn/core/placement/granule_table.h"
#include "firn/core/placement/slot_directory.h"
#include "firn/core/placement/window_allocator.h"
#include "firn/core/pool.h"
#include "firn/core/pool_request.h"
#include "firn/core/seen_streams.h"
#include "firn/core/spill_books.h"
#include "firn/core/tag_books.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/relaxed_capture.h"
#include "firn/vmm/store_keeper.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

class Pool::Impl final : public Pool::AnyImpl {
 public:
  // `options` are valid and name all drivers; `driver_reason` says why these.
  // `never_moves` says why live memory never moves; empty where it may.
  static absl::StatusOr<std::unique_ptr<Impl>> Create(PoolOptions options,
                                                      std::string driver_reason,
                                                      std::string never_moves);
  ~Impl() override;

  absl::StatusOr<void*> Allocate(uint64_t bytes,
                                 const AllocateOptions& options) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Free(void* ptr, StreamHandle stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CompactionReport> Compact(const CompactOptions& options)
      override ABSL_LOCKS_EXCLUDED(turn_mutex_, pass_mutex_, mutex_);
  absl::StatusOr<uint64_t> Trim(uint64_t keep_bytes) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RecordUse(const void* ptr, StreamHandle stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Declare(const void* ptr, StreamHandle stream,
                       Declaration what) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status MarkActive(const void* ptr) override
      ABSL_LOCKS_EXCLUDED(turn_mutex_, pass_mutex_, mutex_);
  absl::Status ReleaseStream(StreamHandle stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status BeginPool(GraphPoolId id,
                         absl::Span<const StreamHandle> streams) override
      ABSL_LOCKS_EXCLUDED(pass_mutex_, mutex_);
  absl::Status EndPool(GraphPoolId id) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ReleasePool(GraphPoolId id) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Pin> PinBlock(const void* ptr,
                               absl::string_view reason) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExportedBlock> Export(const void* ptr) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<MoveHookRegistration> AddMoveHook(MoveHook hook) override;
  absl::StatusOr<Domain> CreateDomain(const DomainOptions& options) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SetLimit(MemoryLimit limit) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SetDomainLimit(DomainId domain, MemoryLimit limit) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<DomainStats> GetDomainStats() const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Tag> RegisterTag(absl::string_view name) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<TagStats> GetTagStats() const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  PoolStats GetStats() override ABSL_LOCKS_EXCLUDED(mutex_);
  PoolUsage GetUsage() override ABSL_LOCKS_EXCLUDED(mutex_);
  FragmentationStats GetFragmentation() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint64_t> Generation(const void* ptr) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckInvariants() override ABSL_LOCKS_EXCLUDED(mutex_);
  LadderStats GetLadderStats() const override ABSL_LOCKS_EXCLUDED(mutex_);
  bool MayCallBack(StreamHandle stream) const override;
  LaunchGate* launch_gate() override { return &gate_; }
  MemorySnapshot TakeMemorySnapshot() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Request = PoolRequest;
  // Tells hooks of moves, for compactor_.
  class HookCaller;
  // Moves to host memory and back (core/pool_spiller.h).
  class Spiller;
  // Copies the books, for TakeMemorySnapshot.
  class SnapshotSlice;
  // A block that hooks were told of.
  struct AnnouncedBlock {
    BlockStart start;
    MovingBlock block;
  };
  // What a pool is made of, in the order in which it is made.
  struct Parts;

  Impl(PoolOptions options, Parts parts);
  absl::Status CreateRelocator();
  std::unique_ptr<Arena> MakeArena(ArenaIndex index, ArenaKey key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<MoveObserver> MakeHookCaller();
  absl::Status StartKeeper();
  // For other pools of a shared budget: unmaps up to so many granules that hold
  // nothing, into the cache, unless the pool is busy; how many went.
  uint32_t ReleaseIdle(uint32_t wanted_granules) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Without the lock ---
  // Nowhere unless a request of so many bytes gets a slot of a size class, and
  // memory that was freed on its stream may be used there again as it is.
  CacheKey KeyOf(uint64_t bytes, const AllocateOptions& options) const;
  // The id of such a stream, else 0.
  inline uint64_t ReadyStreamId(StreamHandle stream) const;
  bool MayBeBlock(DevicePtr address) const;
  BlockStart StartOf(DevicePtr address) const;
  DevicePtr AddressOf(BlockStart start) const {
    return base_address_ + start.vg.value() * granule_bytes_ +
           QuantaToBytes(start.offset_quanta);
  }
  CachedBlock CachedBlockAt(BlockStart start) const;
  // Whether the block was parked: no if anything is out of the ordinary.
  bool FreeToCache(DevicePtr address, StreamHandle stream);

  // --- Arenas (core/pool_arenas.cc) ---
  Arena& main_arena() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return *arenas_.front();
  }
  const VgRecord& VgAt(VgIndex vg) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return table_.vgs[vg.value()];
  }
  Arena& ArenaOf(VgIndex vg) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return *arenas_[VgAt(vg).arena];
  }
  // The arena of a request for blocks of this kind, made if there is none.
  // InvalidArgument: no such domain; ResourceExhausted: there are too many.
  absl::Status ChooseArena(Request* request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t UsedGranules() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t MappedGranules() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LiveBound ComputeBound() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A pass over all arenas, or those of the request's domain, that of the
  // request first.
  absl::Status RunCompactors(const CompactOptions& options,
                             const Request* wanted, CompactionReport* report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether its domain's limit leaves nothing.
  bool IsLimitedByDomain(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What other arenas hold for nothing becomes free for the request, as far as
  // it needs it. Whether anything did.
  absl::StatusOr<bool> ReclaimFromOthers(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unmaps what holds nothing live, up to so many granules; where that would
  // have to wait, and may not, fewer.
  absl::StatusOr<uint32_t> UnmapEmpty(uint32_t most_granules)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fills mapped virtual granules with zeros and waits for it.
  absl::Status ZeroGranules(absl::Span<const VgIndex> vgs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The last resort: among blocks of the same domain and class, but of another
  // lifetime.
  absl::StatusOr<BlockStart> TryOtherLifetimes(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Domains (core/pool_domains.cc) ---
  absl::StatusOr<GranuleLimit> ToGranules(MemoryLimit limit) const;
  // Another limit may let pass what failed before.
  void ForgetFailures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasSoftLimit(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives back what is idle beyond it, as far as that needs no waiting.
  void ShrinkToSoftLimit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For reports of failures: begins with a comma, or is empty.
  std::string DescribeLimits(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing for what is in no domain.
  void CountDomainBlock(const Arena& arena, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UncountDomainBlock(const Arena& arena, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountFailure(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Which limit even an empty pool could not keep; empty if it could.
  absl::string_view LimitBelow(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return request.arena == 0 && request.bytes <= GranulesToBytes(limit_.hard)
               ? absl::string_view()
               : FindLimitBelow(request);
  }
  absl::string_view FindLimitBelow(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From now on.
  void SetGrowth(bool may_exceed_soft_limits)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings the quota of an arena in line with the limit of its domain.
  void SetQuota(Arena* arena) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is left of domains that were given up, and of which nothing lives,
  // becomes free, arenas included.
  void CollectClosedDomains() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Exportable memory (core/pool_exports.cc) ---
  // Whether the pool has memory of the class, and it can be had here.
  absl::Status CheckMemoryClass(const AllocateOptions& options,
                                bool is_inside_scope) const;
  // Release, for a block of an exportable arena.
  void ReleaseExportable(Arena* arena, BlockStart start)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unmaps blocks that others may hold on to and whose work is done, and
  // releases their handles; what cannot go now stays for the next call.
  void RetireExported() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // I13.
  absl::Status CheckShared() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Blocks ---
  absl::StatusOr<void*> AllocateSlowly(uint64_t bytes,
                                       const AllocateOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FreeSlowly(const void* ptr, StreamHandle stream)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // After a miss: puts free slots of windows that there are into the calling
  // thread's cache.
  void RefillCache(const CacheKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FreeLocked(const void* ptr, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases `block`, which is live, and with it what the calling thread's
  // cache has parked longest of its class: when `stream` is done with them, or
  // at once. Nothing has changed after an error.
  absl::Status ReleaseWithOlder(const FreedBlock& block, bool with_token,
                                StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Claims a live block, so that nobody else frees it: its requested bytes, 0
  // if it is not live.
  uint64_t SetPending(BlockStart start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetLive(const FreedBlock& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the free of a block.
  void NoteFreed(const FreedBlock& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is parked becomes free for everybody. The blocks of caches only where
  // their streams need not be waited for: `is_idle` says that no work uses what
  // was freed. Returns whether there was anything.
  bool ReleaseParked(bool is_idle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In two steps, so that a wait between them covers all that is released: from
  // the caches, and to everybody. ReleaseCollected as ReleaseParked.
  void CollectParked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReleaseCollected(bool is_idle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DissolveParked(Arena* arena) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DissolveParked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void IsolateLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t LiveBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees so far, and pins given up, to tell whether anything has changed.
  uint64_t Frees() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<BlockStart> AllocateLocked(const Request& request, Reach reach)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes the gate, and climbs the whole ladder.
  absl::StatusOr<BlockStart> AllocateGated(const Request& request,
                                           absl::Status failure)
      ABSL_LOCKS_EXCLUDED(turn_mutex_, pass_mutex_, mutex_);

  // One attempt, without moving anything live.
  absl::StatusOr<BlockStart> TryPlace(const Request& request, Effort effort)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An attempt and, after it has failed, the ladder.
  absl::StatusOr<BlockStart> Place(const Request& request, Reach reach)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rungs after a failed attempt, cheapest first (core/pool_ladder.cc).
  absl::StatusOr<BlockStart> ClimbLadder(const Request& request, Reach reach,
                                         absl::Status failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RungOutcome> TryRung(Rung rung, const Request& request,
                                      Reach reach)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RungOutcome> TryPendingFrees(Reach reach)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RungOutcome> TryMerging(const Request& request, Reach reach)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RungOutcome> TryHole(const Request& request, Reach reach)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Empty: live memory may be moved for an allocation of this reach.
  absl::string_view WhyNotMoved(Reach reach) const;
  uint32_t FreeGranulesFor(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unmaps what holds nothing live, where there are granules enough for the
  // request, for their addresses and mappings. Whether anything went.
  absl::StatusOr<bool> UnmapUnused(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Empties whole granules.
  absl::Status MakeRoom(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases unused granules until at most so many are held; how many went.
  absl::StatusOr<uint32_t> TrimTo(uint32_t keep_granules)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many granules it takes at most.
  uint32_t GranulesFor(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it goes into a window.
  bool IsSmall(const Request& request) const;
  // When a pass for such a request last recovered nothing: one over its domain
  // alone, where that is at its limit.
  uint64_t& FreesAtEmptyPass(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether passes might recover anything for it: something was freed since
  // they last did not.
  bool MayMovingHelp(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HoleWasInVain(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WindowAllocator::Shape ShapeOf(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeHole(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OutOfMemory(const Request& request,
                           const absl::Status& last_failure,
                           const LadderClimb& climb)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefreshBound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For reports of failures: begins with a space.
  std::string WhatWouldHelp(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why the same request failed before, if nothing has happened since that
  // could let it succeed.
  const absl::Status* SameFailure(const Request& request, Reach reach) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RememberFailure(const Request& request, Reach reach,
                       const absl::Status& failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status WaitForDevices() const;
  // No work uses what is about to move, and what was freed is released: waits
  // for the devices, unless launches are drained.
  absl::Status WaitUntilIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Plans a pass that is not to hold up others for long.
  absl::Status PlanAhead(const CompactOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_mutex_)
          ABSL_LOCKS_EXCLUDED(pass_mutex_, mutex_);
  // For the request, if there is one, as in RunCompactors.
  absl::Status CompactLocked(const CompactOptions& options,
                             const Request* wanted, CompactionReport* report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountPass(const absl::Status& status, const CompactionReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The live block that starts at `ptr`; InvalidArgument says what is wrong
  // with the address.
  absl::StatusOr<BlockStart> FindBlock(const void* ptr) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status NoBlockAt(DevicePtr address);
  PinnedBlock PinnedBlockAt(BlockStart start) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t PinnedGranules() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has it freed behind the lock: false if it has been freed meanwhile.
  bool MarkBlock(BlockStart start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Virtual granules of a block that has no window.
  VgRange RangeOf(BlockStart start) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t GenerationOf(BlockStart start) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Move hooks ---
  // Calls `visit` with the start and the contents of each slot of a window
  // that is not free, or with the large block that a remainder belongs to, if
  // that is live.
  template <typename Visit>
  void ForEachBlockOn(VgIndex vg, Visit visit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Marks the live blocks on `vg`, so that what becomes of them is known, and
  // appends them.
  void AnnounceBlocksOn(VgIndex vg, std::vector<AnnouncedBlock>* blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether all that is live on `vg` does, as in DeclaredBlocks.
  bool VgKeepsTo(Declaration what, VgIndex vg, uint64_t declarations)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls `call` without the lock: everything may have changed then, but for
  // what the pass has to itself.
  template <typename Call>
  void WithoutLock(Call call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // --- Captures and graph-private pools ---
  // A call that names `stream` begins: sets may_wait_ and, in a capture that is
  // known, `relaxed`.
  absl::Status EnterCall(StreamHandle stream, bool is_inside,
                         std::optional<ScopedRelaxedCapture>* relaxed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether streams_.Note may wait for devices, but for scopes.
  bool MayNoteWait(StreamHandle stream) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds to a failure for want of memory why nothing was done about it.
  absl::Status ExplainCapture(const absl::Status& failure) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // FailedPrecondition if one is open.
  absl::Status RefuseOpenGraphPools() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To whom an allocation for `stream` belongs.
  absl::Status SetGraphOwner(StreamHandle stream, Request* request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A block that was freed in the request's graph-private pool.
  std::optional<BlockStart> TakeKept(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The block was allocated for such a request.
  void AddGraphBlock(const Request& request, BlockStart start)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FreeInGraphPool(BlockStart start, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecordGraphUse(BlockStart start, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All work is done: what graph-private pools have left becomes free. Whether
  // there was anything.
  bool ReleaseRetired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether nobody else can have the place of a freed block.
  bool HoldsPlace(const FreedBlock& block) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckGraphPools() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  uint64_t RequestedBytes(BlockStart start) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a block takes up: what a request must take up to have it again.
  uint64_t ExtentQuanta(BlockStart start, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A block that was freed on the request's stream, whose work may go on.
  std::optional<BlockStart> TakeAgain(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static uint64_t UseKey(BlockStart start) {
    return uint64_t{start.vg.value()} << 32 | start.offset_quanta;
  }
  static BlockStart StartOfUseKey(uint64_t key) {
    BlockStart start;
    start.vg = VgIndex(key >> 32);
    start.offset_quanta = static_cast<uint32_t>(key);
    return start;
  }
  void Release(BlockStart start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until no work uses what was freed.
  absl::Status WaitForFreed();
  // All that was freed, parked or pending, after waiting for what uses it.
  absl::Status ReleaseFreed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives back what its streams are done with; all of it with `wait`.
  absl::Status ReleasePending(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The blocks of `done_`.
  void ReleaseDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotePeaks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool has_parked_blocks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !unreleased_.empty() || graph_pools_.has_retired() ||
           caches_.parked_blocks() > 0;
  }
  static void* ToPointer(DevicePtr address) {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  }
  static DevicePtr ToAddress(const void* ptr) {
    return reinterpret_cast<uintptr_t>(ptr);
  }
  uint64_t GranulesToBytes(uint64_t granules) const {
    return granules * granule_bytes_;
  }

  // Constant after construction.
  const PoolOptions options_;
  const std::string driver_reason_;
  const std::string never_moves_;  // why; empty where live memory may move
  const DriverIdentity identity_;
  const std::vector<Driver*> devices_;  // the own one first; options_ has them
  Driver* const driver_;                // the own one
  const uint64_t granule_bytes_;
  const uint32_t quanta_per_granule_;
  const int granule_shift_;
  const DevicePtr base_address_;
  const uint64_t address_bytes_;
  const SizeClasses size_classes_;
  // Requests of so many quanta and more never come from the caches: all of
  // them, unless placement is firn.
  const uint32_t cached_limit_quanta_;

  // With locks of their own. The gate is closed before mutex_ is taken, never
  // while it is held: an open scope may be waiting for it.
  const std::unique_ptr<StreamTracker> tracker_;
  LaunchGate gate_;
  GranuleStore store_;
  // Blocks are parked and taken without mutex_; its locks come after that.
  BlockCaches caches_;
  SeenStreams streams_;
  // Changed by the windows of all arenas, under mutex_; read without.
  SlotDirectory slots_;
  // Whether a graph-private pool is; written under mutex_.
  std::atomic<bool> has_open_graph_pool_{false};
  // Shared with the pins, which may outlive the pool. A block is added under
  // mutex_ alone, and may go without.
  const std::shared_ptr<PinnedBlocks> pins_ = std::make_shared<PinnedBlocks>();
  const std::shared_ptr<MoveHookList> hooks_ = std::make_shared<MoveHookList>();
  // Shared with the Domains.
  const std::shared_ptr<DomainBooks> domains_ = std::make_shared<DomainBooks>();

  // One pass at a time. Taken before the gate is closed, so that a pass that
  // waits for its turn holds up nobody; never inside a scope.
  Mutex turn_mutex_ ABSL_ACQUIRED_BEFORE(pass_mutex_);
  // Held during a pass, which lets go of mutex_ to call hooks and to copy: no
  // graph-private pool opens meanwhile. Threads inside scopes wait for it: it
  // is taken after the gate is closed, and not held while that is awaited.
  Mutex pass_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  // Guards everything below. No callback runs while it is held. The locks of
  // the store, of the tracker and of the driver come after it.
  mutable Mutex mutex_;
  std::unique_ptr<AddressSpace> address_space_ ABSL_GUARDED_BY(mutex_);
  MappingTable mappings_ ABSL_GUARDED_BY(mutex_);
  GranuleTable table_ ABSL_GUARDED_BY(mutex_);
  FreeQueue free_queue_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Relocator> relocator_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<MoveObserver> hook_caller_ ABSL_GUARDED_BY(mutex_);
  // By index. The first one, for what asks for nothing special, is always
  // there, and the only one whose blocks caches hold.
  std::vector<std::unique_ptr<Arena>> arenas_ ABSL_GUARDED_BY(mutex_);
  // The counters of PoolStats; its gauges are computed when asked for, but for
  // the live ones.
  PoolStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<BlockStart> done_ ABSL_GUARDED_BY(mutex_);     // scratch
  std::vector<GranuleId> shared_ ABSL_GUARDED_BY(mutex_);    // scratch
  std::vector<CachedBlock> parked_ ABSL_GUARDED_BY(mutex_);  // scratch
  // Parked, on the way from the caches to everybody.
  std::vector<CachedBlock> unreleased_ ABSL_GUARDED_BY(mutex_);
  std::vector<FreedBlock> freed_ ABSL_GUARDED_BY(mutex_);  // scratch
  // Exported or registered, freed, and no work uses them: for RetireExported.
  std::vector<BlockStart> retiring_blocks_ ABSL_GUARDED_BY(mutex_);
  // Granules of such blocks released so far.
  uint64_t retired_granules_ ABSL_GUARDED_BY(mutex_) = 0;
  // Frees seen when a pass last recovered nothing: another one is pointless
  // until something has been freed.
  uint64_t frees_at_empty_pass_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};
  // Likewise for a hole of this shape, or a larger or stricter one.
  uint64_t frees_at_failed_hole_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};
  WindowAllocator::Shape failed_hole_ ABSL_GUARDED_BY(mutex_);
  ArenaIndex failed_hole_arena_ ABSL_GUARDED_BY(mutex_) = 0;
  // What RecordUse has noted of live blocks, by UseKey.
  absl::flat_hash_map<uint64_t, std::vector<StreamToken>> uses_
      ABSL_GUARDED_BY(mutex_);
  DeclaredBlocks declared_ ABSL_GUARDED_BY(mutex_);
  SpillBooks spill_ ABSL_GUARDED_BY(mutex_);
  TagBooks tags_ ABSL_GUARDED_BY(mutex_);
  // Of those that were created, until nothing of them is left.
  absl::flat_hash_map<DomainId, DomainRecord> domain_records_
      ABSL_GUARDED_BY(mutex_);
  GranuleLimit limit_ ABSL_GUARDED_BY(mutex_);
  // The driver has refused to zero memory during this call.
  bool zeroing_failed_ ABSL_GUARDED_BY(mutex_) = false;
  // All that could be recovered has been.
  bool may_exceed_soft_limits_ ABSL_GUARDED_BY(mutex_) = false;
  GraphPools graph_pools_ ABSL_GUARDED_BY(mutex_);
  // Of the batch that is under way; those that are freed meanwhile leave.
  absl::flat_hash_set<uint64_t> announced_ ABSL_GUARDED_BY(mutex_);
  FailureMemory failures_ ABSL_GUARDED_BY(mutex_);
  LiveBound bound_ ABSL_GUARDED_BY(mutex_);
  LadderStats ladder_ ABSL_GUARDED_BY(mutex_);
  // Memory was released that only its stream's order protects: work in flight
  // may still touch it.
  bool has_unconfirmed_frees_ ABSL_GUARDED_BY(mutex_) = false;
  // False during a call inside a scope of its own thread, or in a capture.
  bool may_wait_ ABSL_GUARDED_BY(mutex_) = true;
  // All launches on the pool's memory are in scopes, the gate is closed, and
  // what was launched is done.
  bool launches_are_drained_ ABSL_GUARDED_BY(mutex_) = false;

  // Last: it is the first to go.
  std::unique_ptr<StoreKeeper> keeper_;
};

}  // namespace firn

#endif  // FIRN_CORE_POOL_IMPL_H_
