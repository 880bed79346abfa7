// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands in front of a pool's AnyImpl with DebugOptions::enabled: it finds
// writes before, behind and after blocks, and says who allocated and freed
// them. docs/debugging.md tells what it finds and what not.

#ifndef FIRN_CORE_DEBUG_IMPL_H_
#define FIRN_CORE_DEBUG_IMPL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "firn/core/any_impl.h"
#include "firn/core/debug_books.h"
#include "firn/core/debug_options.h"
#include "firn/core/debug_report.h"
#include "firn/core/guard_bands.h"
#include "firn/core/pinned_blocks.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"

namespace firn {

// The pool beneath hands out each block with guard bands around it, and is
// given it back when nothing can use it any more and it has been looked at. To
// it, a block in quarantine is live: it moves like others.
//
// The life of a block: live; freed, until the events behind its last uses are
// done; its guards are compared and it is filled: in quarantine; filling and
// guards are compared; freed beneath. What was done is carried on by whichever
// call comes next.
//
// Patterns are written and read with mutex_ held, and waited for, so that there
// is no such work in flight while it is free; a pass counts itself under it
// first, and while one goes on there is none. That is why nothing that may make
// a pass, call a hook or wait for the user's work is called with it held.
class Pool::DebugImpl final : public Pool::AnyImpl {
 public:
  // `options` are valid and enabled; `beneath` allocates from `driver`, and may
  // move live memory in an allocation if `move_on_failure`.
  static absl::StatusOr<std::unique_ptr<DebugImpl>> Create(
      std::unique_ptr<AnyImpl> beneath, std::shared_ptr<Driver> driver,
      DebugOptions options, bool move_on_failure);
  // Looks at all blocks once more.
  ~DebugImpl() override;

  absl::StatusOr<void*> Allocate(uint64_t bytes,
                                 const AllocateOptions& options) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Free(void* ptr, StreamHandle stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RecordUse(const void* ptr, StreamHandle stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Declare(const void* ptr, StreamHandle stream,
                       Declaration what) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status MarkActive(const void* ptr) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ReleaseStream(StreamHandle stream) override;
  absl::StatusOr<CompactionReport> Compact(
      const CompactOptions& options) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint64_t> Trim(uint64_t keep_bytes) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status BeginPool(GraphPoolId id,
                         absl::Span<const StreamHandle> streams) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status EndPool(GraphPoolId id) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ReleasePool(GraphPoolId id) override;
  absl::StatusOr<Pin> PinBlock(const void* ptr,
                               absl::string_view reason) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ExportedBlock> Export(const void* ptr) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<MoveHookRegistration> AddMoveHook(MoveHook hook) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Domain> CreateDomain(const DomainOptions& options) override;
  absl::Status SetLimit(MemoryLimit limit) override;
  absl::Status SetDomainLimit(DomainId domain, MemoryLimit limit) override;
  std::vector<DomainStats> GetDomainStats() const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Tag> RegisterTag(absl::string_view name) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<TagStats> GetTagStats() const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  PoolStats GetStats() override ABSL_LOCKS_EXCLUDED(mutex_);
  PoolUsage GetUsage() override ABSL_LOCKS_EXCLUDED(mutex_);
  FragmentationStats GetFragmentation() override;
  absl::StatusOr<uint64_t> Generation(const void* ptr) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckInvariants() override ABSL_LOCKS_EXCLUDED(mutex_);
  LadderStats GetLadderStats() const override;
  // Both with the addresses beneath: guards are parts of blocks there.
  History GetHistory() const override;
  MemorySnapshot TakeMemorySnapshot() override;
  bool MayCallBack(StreamHandle stream) const override;
  LaunchGate* launch_gate() override { return beneath_->launch_gate(); }

 private:
  using Reports = std::vector<std::string>;

  DebugImpl(std::unique_ptr<AnyImpl> beneath, std::shared_ptr<Driver> driver,
            std::unique_ptr<GuardBands> bands, DebugOptions options,
            bool move_on_failure);

  // --- Allocation ---
  // Once more, without a quarantine, if it fails for want of memory.
  absl::StatusOr<void*> AllocateOrEmpty(uint64_t bytes,
                                        const AllocateOptions& options,
                                        bool may_wait)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<void*> AllocateBeneath(uint64_t bytes,
                                        const AllocateOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // With guards where that can be; what was allocated beneath is given back
  // after an error.
  absl::StatusOr<void*> HandOut(DebugBlock block, bool may_wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives back beneath what was to be handed out, behind the work of `stream`.
  void Undo(DebugBlock block, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FillNew(const DebugBlock& block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Looking up ---
  // The live block at `ptr`, or null: none that is known here, so that it is
  // the business of the pool beneath. InvalidArgument: it lies inside a block
  // or its guards, or was freed.
  absl::StatusOr<DebugBlock*> FindLive(const void* ptr) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the pool beneath calls it.
  absl::StatusOr<void*> AddressBeneath(const void* ptr) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::string_view NameOf(Tag tag) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Free ---
  absl::Status FreeLocked(void* ptr, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its pins that have not been given up; empty: none.
  std::string ReasonsOfPins(DebugBlock* block) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records an event on the stream. False: that cannot be done.
  bool NoteUse(DebugBlock* block, StreamHandle stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether all of them are done, and the events gone.
  bool AreUsesDone(DebugBlock* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DestroyEvents(DebugBlock* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Checks (core/debug_checks.cc) ---
  // Whether patterns may be written and read now. With `may_wait`, once the
  // allocations of others that could move memory are over.
  bool MayTouch(bool may_wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsCapturing(StreamHandle stream) const;
  absl::Status WaitForDevice() const;
  // For what was queued there so far.
  absl::Status WaitForStream(StreamHandle stream) const;
  // Carries on what can be, without waiting for the user's work.
  void Settle(Reports* reports) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a freed block whose uses are done: into quarantine. It stays freed after
  // an error.
  absl::Status Quarantine(DebugBlock* block, Reports* reports)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the oldest beneath until at most so many bytes are in quarantine;
  // where nothing may be touched, without a look at them. True: some were.
  bool ShrinkQuarantine(uint64_t keep_bytes, bool may_touch, Reports* reports)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All that is freed and whose uses are done. True: some was freed beneath.
  bool EmptyQuarantine(bool may_wait, Reports* reports)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Compares the guards, and repairs what is reported.
  absl::Status CheckGuards(const DebugBlock& block, Reports* reports)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPart(const DebugBlock& block, DamagedPart part,
                         Reports* reports)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAll(Reports* reports) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With no lock held.
  void Deliver(const Reports& reports) const ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Hooks (core/debug_figures.cc) ---
  struct Announced;
  std::vector<MovingBlock> BeginHook(absl::Span<const MovingBlock> blocks)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EndHook() ABSL_LOCKS_EXCLUDED(mutex_);

  // Constant after construction. The stream of the bands must be there as long
  // as the pool beneath, which frees blocks on it.
  const DebugOptions options_;
  const bool move_on_failure_;
  const std::shared_ptr<Driver> driver_;

  // Comes before all locks of the pool beneath.
  mutable Mutex mutex_;
  const std::unique_ptr<GuardBands> bands_ ABSL_PT_GUARDED_BY(mutex_);
  const StreamHandle stream_;               // theirs
  const std::unique_ptr<AnyImpl> beneath_;  // with locks of its own
  // A pass, a graph-private pool, or a hook has begun or ended.
  CondVar changed_;
  DebugBooks books_ ABSL_GUARDED_BY(mutex_);
  // Passes that go on; allocations that could make one; hooks being called.
  uint64_t passes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t moving_allocations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t hooks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t open_graph_pools_ ABSL_GUARDED_BY(mutex_) = 0;
  // Memory was freed beneath that the order of its stream alone protects: what
  // is allocated for that stream may still be in use.
  bool has_ordered_frees_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared with the pins of the pool beneath; null until one is made.
  std::shared_ptr<PinnedBlocks> pins_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Tag, std::string> tag_names_ ABSL_GUARDED_BY(mutex_);
  // What the pool beneath has counted for reasons of our own: allocations tried
  // again, those given back at once; and frees refused here.
  uint64_t retries_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t undone_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_frees_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_DEBUG_IMPL_H_
