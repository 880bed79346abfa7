// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn::Pool: GPU memory at addresses that never change, on physical granules
// that the pool moves beneath them. Start here.
//
//   absl::StatusOr<std::unique_ptr<firn::Pool>> pool =
//       firn::Pool::Create(firn::PoolOptions{});
//   if (!pool.ok()) return pool.status();
//   absl::StatusOr<void*> block = (*pool)->Allocate(3 << 20);
//   if (!block.ok()) return block.status();
//   // ... launch kernels on *block, on a stream ...
//   absl::Status freed = (*pool)->Free(*block, stream);
//
// Guarantees: an address returned by Allocate stays valid, and its contents
// unchanged, until it is freed, whatever the pool moves. Freed blocks stay
// mapped and are reused without a call to the driver.
//
// When memory moves: only inside Compact() and Safepoint(), whose caller
// promises that no other thread launches work on this pool's memory until they
// return; or, in Compact() alone, says that all threads launch inside
// LaunchScopes (core/launch_scope.h), or has only what is declared idle moved
// (MarkIdle, MarkReadOnly); and, with PoolOptions::move_on_failure, inside an
// allocation that would fail otherwise. The pool waits for the device by
// itself.
//
// FIRN_MOVING=off in the environment turns moving off without a rebuild, for
// every pool made from then on: move_on_failure is taken for false, and Compact
// is refused unless it is a dry run. A device on which no memory can be moved
// gets a pool that never moves any, with the same interface; see
// docs/using.md. PoolStats::moving_reason tells what is the case and why.

#ifndef FIRN_CORE_POOL_H_
#define FIRN_CORE_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/core/domain.h"
#include "firn/core/exported_block.h"
#include "firn/core/fragmentation_stats.h"
#include "firn/core/graph_pool_id.h"
#include "firn/core/history.h"
#include "firn/core/ladder.h"
#include "firn/core/memory_snapshot.h"
#include "firn/core/move_hooks.h"
#include "firn/core/pin.h"
#include "firn/core/pool_options.h"
#include "firn/core/pool_stats.h"
#include "firn/core/reclaim_callback.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

class LaunchGate;
class Reclaimers;

// Thread safety: all methods may be called from any thread. Small blocks are
// allocated and freed in a cache of the calling thread where that has some; all
// other calls are serialised by one lock. None may be called from a host
// function of a stream.
class Pool {
 public:
  // InvalidArgument names the option, or the variable of the environment, that
  // is wrong; Unavailable says why the driver asked for by FIRN_DRIVER cannot
  // be used; FailedPrecondition: peers, export_type or rdma_capable, and a
  // device that cannot have them. Nothing stays allocated after a failure.
  // Tries the device with a granule: with some drivers that waits for all work
  // of the device.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(PoolOptions options);

  // Waits for the device, then gives everything back to the driver. Blocks
  // still live become invalid.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // `bytes` of device memory, from 1 byte up to the capacity. Contents are
  // undefined. InvalidArgument: 0 bytes or a bad alignment; ResourceExhausted:
  // no room, with the figures that show it, what each rung of the ladder
  // (core/ladder.h) gave, and what would help. A failed call changes nothing,
  // but that memory which was to be zeroed, and could not be, may stay with the
  // pool: mapped, and idle.
  // Inside a LaunchScope of the calling thread it neither moves anything nor
  // waits for freed memory, whatever the options say; and FailedPrecondition if
  // it is asked for kExportable memory, which is zeroed and waited for.
  absl::StatusOr<void*> Allocate(uint64_t bytes,
                                 const AllocateOptions& options = {});

  // Takes back a block. `stream` is the stream that used it last: its memory
  // is given to nobody else before the work queued there so far is done.
  // nullptr is the legacy default stream. InvalidArgument: not an address this
  // pool handed out, an address inside a block, or a block freed before;
  // FailedPrecondition: it is pinned, and by whom; or the stream is capturing,
  // and the block belongs to no graph-private pool. The call then changes
  // nothing. Freeing nullptr does nothing.
  absl::Status Free(void* ptr, StreamHandle stream = nullptr);

  // `stream`, another one than the block was allocated for or will be freed on,
  // uses the block: call it when that work has been queued. Once the block is
  // freed its memory waits for all such work as well. From then on the pool
  // knows several streams. InvalidArgument: as Free, or no stream of the pool's
  // driver; FailedPrecondition: the stream is capturing, and the block belongs
  // to no graph-private pool (BeginPool). Nothing has changed then. After an
  // error of the driver the block is active, and nothing is noted of the work:
  // try again, or wait for it before the block is freed or declared idle.
  absl::Status RecordUse(const void* ptr, StreamHandle stream);

  // Declares the block that starts at `ptr` idle: from when the work queued on
  // `stream` so far, and what RecordUse has noted, is done, nothing reads or
  // writes it until MarkActive. Passes of CompactionLevel::kDeclaredIdle move
  // it then, together with its neighbours if they are idle too, while work on
  // all other memory goes on. It may be freed as it is. RecordUse makes it
  // active; declared idle again, the later stream counts. InvalidArgument: as
  // Free, or no stream of the pool's driver; FailedPrecondition: the stream is
  // capturing, or the block belongs to a graph-private pool. Nothing has
  // changed then.
  absl::Status MarkIdle(const void* ptr, StreamHandle stream);
  // Declares the block read-only: from then on nothing writes it until
  // MarkActive, and whatever reads it is launched inside LaunchScopes. Passes
  // of CompactionLevel::kDeclaredIdle copy it while it is read, together with
  // neighbours that are read-only or idle, and close the gate for the remap
  // alone. In a pool without LaunchScopes it stays where it is. RecordUse, of
  // one more stream that reads it, leaves it read-only; the later of MarkIdle
  // and MarkReadOnly counts. For weights, and cached prefixes that are full.
  // Errors as of MarkIdle.
  absl::Status MarkReadOnly(const void* ptr, StreamHandle stream);
  // Declares the block idle, as MarkIdle does, and lets an allocation that
  // would fail otherwise move it to host memory: to the same address, with the
  // same contents, at which the device can still read and write it, over its
  // bus. Whole granules go, those on which everything live is idle and may, as
  // few as the allocation needs; within PoolOptions::host_spill_limit_bytes,
  // with PoolOptions::move_on_failure, and where the device can; without these
  // it is MarkIdle, and no more. What is pinned stays, and what a move hook
  // wants to. RecordUse makes the block active, wherever it lies: only
  // MarkActive brings it back. Errors as of MarkIdle.
  absl::Status AllowSpill(const void* ptr, StreamHandle stream);
  // The block is in use again: when this returns it may be read and written. A
  // pass that is about to move it leaves it where it is; one that is remapping
  // is waited for, for one batch at most (CompactOptions::max_pause). Does
  // nothing to a block that is declared neither idle nor read-only, and is not
  // spilled. InvalidArgument: no live block starts there.
  // A block that was spilled is brought back first, with what shares its
  // granules of host memory. That waits for a pass that is going on, and for
  // the copy; and, unless all of that is idle, for work in flight, as an
  // allocation does that moves memory (PoolOptions::move_on_failure, max_wait).
  // It stays where it is, declared as it was and with its contents, after
  // ResourceExhausted: the device has no room; FailedPrecondition: inside a
  // LaunchScope of the calling thread or a move hook, a graph-private pool is
  // open, or a move hook wants it to stay; DeadlineExceeded, of max_wait; and
  // errors of the driver.
  absl::Status MarkActive(const void* ptr);

  // Call it before a stream is destroyed: what was freed on it can be used
  // elsewhere when its work is done. Without, memory that threads keep for it
  // stays unused until the pool has waited for the device, in a pass or before
  // an allocation fails. Errors as of Free; the memory stays unused then.
  absl::Status ReleaseStream(StreamHandle stream);

  // Holds the block that starts at `ptr` where it is: it is neither moved nor
  // freed while the Pin lives (core/pin.h). `reason` says for whom; it appears
  // in messages. Pins of one block are counted. InvalidArgument: no live block
  // starts there, or no reason is given. FailedPrecondition: it lies in host
  // memory (AllowSpill).
  absl::StatusOr<Pin> PinBlock(const void* ptr, absl::string_view reason);

  // Handles by which others can map the granules of the kExportable block that
  // starts at `ptr` (core/exported_block.h). It may be exported any number of
  // times. Once the block is freed and its work is done, its granules are
  // unmapped, and never used again by this pool, as nothing tells whether
  // somebody still has them. InvalidArgument: no live block starts there;
  // FailedPrecondition: it is of another class, or the pool has no
  // PoolOptions::export_type. After an error of the driver no descriptor is
  // left, but granules may count as exported.
  absl::StatusOr<ExportedBlock> Export(const void* ptr);

  // Has `hook` called before and after blocks move, until the registration is
  // given up (core/move_hooks.h). InvalidArgument: it has nothing to call.
  absl::StatusOr<MoveHookRegistration> AddMoveHook(MoveHook hook);

  // Has `callback` asked to free memory before an allocation fails, until the
  // registration is given up (core/reclaim_callback.h). InvalidArgument: it is
  // empty.
  absl::StatusOr<ReclaimRegistration> AddReclaimCallback(
      ReclaimCallback callback);

  // Moves live memory together so that whole granules become free; see
  // CompactionLevel for what must be known of work in flight. On failure every
  // block is intact at its address, and what was already merged stays merged.
  // InvalidArgument names the field of the options. FailedPrecondition: moving
  // is off (FIRN_MOVING) or cannot be done on this device, and it is no dry
  // run; a graph-private pool is open; inside a LaunchScope of the calling
  // thread, or inside a move hook; or a capture is open, or work is on a stream
  // that cannot be tracked (kLaunchScopes, and kDeclaredIdle before it remaps
  // what is read-only). DeadlineExceeded: max_wait has passed; it says what was
  // awaited.
  absl::StatusOr<CompactionReport> Compact(CompactOptions options = {});

  // For a place that a program comes by again and again while nobody launches,
  // such as the end of a training step: a pass by kCallerPromises, with what
  // that means, if more is wasted than `options` tolerate, until that is so no
  // more. Otherwise, where moving is off, and where such a pass recovered
  // nothing and the waste has not grown by an eighth since, it makes no driver
  // call, waits for nothing and reports no move. InvalidArgument names the
  // field; other errors as of Compact.
  absl::StatusOr<CompactionReport> Safepoint(SafepointOptions options = {});

  // Gives unused granules back to the driver until at most `keep_bytes` are
  // held in all, those in use included. Returns the bytes released. Never moves
  // anything.
  absl::StatusOr<uint64_t> Trim(uint64_t keep_bytes = 0);

  // Opens the graph-private pool `id`, which is made where there is none: until
  // EndPool, what is allocated for one of `streams` (AllocateOptions::stream)
  // belongs to it or, where none are named, what the calling thread allocates.
  // A stream's pool comes before its thread's. A graph that is captured
  // meanwhile, or later, may use that memory whenever it is launched:
  //
  //   what is freed of it (also on a stream that is capturing, which is refused
  //     for other blocks) keeps its place until the pool is released, and is
  //     used again within the pool alone: by an allocation for the stream that
  //     it was freed on, of the same extent. If RecordUse has named another
  //     stream, not even there. On a capturing stream RecordUse writes nothing;
  //   graphs that share a pool must not run at the same time, and the first one
  //     must come behind earlier work on the pool's memory.
  //
  // The same id may be begun again; each time counts one more use, to be given
  // up by ReleasePool. While any pool is open, a capture may be: no call waits
  // for the device or moves memory, Compact is refused, and an allocation that
  // needs more than the memory that is free now fails with ResourceExhausted.
  // The first call ever waits for the device if memory was freed before; so
  // call it before the capture begins, and outside of LaunchScopes.
  // InvalidArgument: one of `streams` is no stream. FailedPrecondition: the
  // pool is open, a stream or the thread has another one open, memory would
  // have to be waited for where that cannot be, or the thread is inside a move
  // hook. Nothing has changed then.
  absl::Status BeginPool(GraphPoolId id,
                         absl::Span<const StreamHandle> streams = {});

  // Closes it, from any thread: after the end of the capture. Its blocks stay
  // its own. FailedPrecondition: it is not open.
  absl::Status EndPool(GraphPoolId id);

  // Gives up one use: when a graph that was captured with it is destroyed. With
  // the last one the pool is gone. What was freed in it becomes free for
  // everybody once the pool has waited for all work of the device: in a pass,
  // in Trim, or before an allocation fails. What is live becomes ordinary.
  // InvalidArgument: there is no such pool; FailedPrecondition: it is open, and
  // this is its last use.
  absl::Status ReleasePool(GraphPoolId id);

  // A domain of its own (core/domain.h). InvalidArgument names what is wrong
  // with the options; ResourceExhausted: there are 64; FailedPrecondition: the
  // pool has no granules to keep apart, as on devices without virtual memory
  // management.
  absl::StatusOr<Domain> CreateDomain(DomainOptions options);

  // How much memory the pool may hold, from now on, up to its capacity. What is
  // idle beyond the soft limit goes back to the driver, after waiting for what
  // uses it, unless inside a LaunchScope of the calling thread. What is in use
  // beyond the hard limit stays, and nothing is added to it. InvalidArgument
  // names the field, and nothing has changed; after an error of the driver the
  // limit holds, but idle memory may be left.
  absl::Status SetLimit(MemoryLimit limit);
  // The same for the granules that are mapped for a domain; what is in use or
  // idle beyond it stays until it is wanted elsewhere. InvalidArgument also if
  // there is no such domain.
  absl::Status SetDomainLimit(DomainId domain, MemoryLimit limit);

  // Of each domain, what is in none first.
  std::vector<DomainStats> GetDomainStats() const;

  // A tag of this name for AllocateOptions::tag; the same one for the same
  // name. InvalidArgument: no name, or "untagged"; ResourceExhausted: 255 tags
  // are registered.
  absl::StatusOr<Tag> RegisterTag(absl::string_view name);

  PoolStats GetStats() const;

  // What is allocated with each tag, that without a tag first. While other
  // threads allocate and free, what passes meanwhile may be counted in part.
  std::vector<TagStats> GetTagStats() const;

  // What the rungs of the ladder (core/ladder.h) have been worth. A request
  // that fails again at once, as nothing has happened since it failed before,
  // climbs none. A pool that never moves anything counts callbacks alone.
  LadderStats GetLadderStats() const;

  // The figures of GetStats that may be asked for after every call.
  PoolUsage GetUsage() const;

  // The latest events, as many as PoolOptions::history_entries keeps; without
  // it there are none. Those that other threads are just recording are waited
  // for, no lock is taken.
  History GetHistory() const;

  // What lies where, and the history. While other threads go on it is no single
  // moment: the lock is taken for a slice at a time, so that none of them waits
  // for long, and each slice is as it was then.
  MemorySnapshot TakeMemorySnapshot() const;
  // What is lost to fragmentation now, and what passes could recover at most.
  // For monitoring, not for hot paths: it looks at every granule, block and
  // free piece once, mostly with the pool's lock held: some 40 ms with 70,000
  // granules and half a million blocks (docs/statistics.md). Makes no driver
  // call and moves nothing; empties the caches of threads as GetStats does.
  // While other threads allocate and free in their caches, each block counts as
  // it is when it is come by. Where there are no granules, what is said of them
  // is 0 or empty.
  FragmentationStats GetFragmentation() const;

  // A number that grows whenever physical memory beneath the block has
  // changed: caches of derived state compare it; constant where nothing moves.
  // InvalidArgument unless `ptr` is the address of a live block.
  absl::StatusOr<uint64_t> Generation(const void* ptr) const;

  // Checks the invariants I1 to I13 of docs/invariants.md that apply, the
  // mapping table against the driver's own view among them. Slow: for tests
  // and debugging. Internal, quoting the invariant's number, if one is broken.
  absl::Status CheckInvariants() const;

  // What LaunchScopes of this pool enter. For LaunchScope, and for a caller
  // that wants to close it around work of its own: within a Closure no call of
  // this pool may move memory but by kCallerPromises.
  LaunchGate* launch_gate();

 private:
  class AnyImpl;
  class Impl;
  class FixedImpl;
  class DebugImpl;
  Pool(std::unique_ptr<AnyImpl> impl, bool moving, std::string moving_reason);

  absl::StatusOr<void*> AskCallbacks(uint64_t bytes,
                                     const AllocateOptions& options);

  // Shared with the registrations.
  const std::shared_ptr<Reclaimers> reclaimers_;
  const std::unique_ptr<AnyImpl> impl_;
  const bool moving_;
  const std::string moving_reason_;
  // What was wasted when a safepoint's pass last recovered nothing.
  std::atomic<uint64_t> unrecoverable_bytes_{0};
};

}  // namespace firn

#endif  // FIRN_CORE_POOL_H_
