// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a Pool is made with, and what its calls are given. `PoolOptions{}` alone
// gives a working pool.

#ifndef FIRN_CORE_POOL_OPTIONS_H_
#define FIRN_CORE_POOL_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/core/debug_options.h"
#include "firn/core/domain.h"
#include "firn/core/memory_limit.h"
#include "firn/core/placement_kind.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

class Driver;
class SharedBudget;

// On a device on which no memory can be moved, what is about granules is
// ignored, and peers, export_type and rdma_capable are refused: docs/using.md
// lists these.
struct PoolOptions {
  // The driver to allocate from; nullptr chooses: the CUDA device where it is
  // usable, else the CPU driver with real storage. The environment variable
  // FIRN_DRIVER=cuda|cpu decides by hand (only when `driver` is nullptr); any
  // other value is refused. The choice and its reason are in PoolStats.
  std::shared_ptr<Driver> driver;

  // CUDA device of the driver chosen when `driver` is nullptr.
  int device_ordinal = 0;

  // Other devices that shall have access to the pool's memory: by ordinal where
  // the pool chooses its driver (CUDA only), else as drivers of theirs. Each
  // must be a peer of the pool's device, and none may be named twice. Every
  // mapping gives all of them access, and passes wait for their work as well.
  std::vector<int> peer_ordinals;
  std::vector<std::shared_ptr<Driver>> peers;

  // Most physical memory the pool holds, in bytes; rounded down to a whole
  // number of granules. 0 means nine tenths of what the device has free now
  // (CPU driver: half of the host's free memory, at most 8 GiB). Memory is
  // taken lazily. A value of less than one granule is refused.
  uint64_t capacity_bytes = 0;

  // What the pool starts with; Pool::SetLimit changes it. Of the capacity,
  // which is the most that it may be set to.
  MemoryLimit limit;

  // Memory that this pool and others of its device may hold together; null: no
  // such limit. A pool that is short of it is given what the others hold for
  // nothing. Refused where the pool has no granules.
  std::shared_ptr<SharedBudget> shared_budget;

  // Bytes of one granule: what one physical handle holds and what is moved.
  // 0 means the device's minimum granularity; else a power of two from 64 KiB
  // to 64 MiB that is a multiple of it. Refused otherwise.
  uint64_t granule_bytes = 0;

  // Address space reserved, as a multiple of the capacity: room for windows
  // and for large blocks whose holes are refilled elsewhere. At least 2, at
  // most 1024.
  uint32_t address_space_factor = 32;

  // What decides which free bytes a block gets. Anything but kFirn is a
  // classical structure, for comparison, or for a program that is made for one
  // (docs/structures.md): its granules can be merged as well, but take in
  // nothing new afterwards until they are empty; calls always take the pool's
  // lock. Exportable memory is placed by kFirn in any case. Where the pool has
  // no granules, it does not count.
  PlacementKind placement = PlacementKind::kFirn;
  // For PlacementKind::kTiered.
  TierBounds tiers;

  // Whether an allocation that would fail may move live memory (level 0 of the
  // contract): only set it where every allocating thread can promise that no
  // other thread launches work on this pool's memory meanwhile. The pool waits
  // for the device by itself. Off: a failing allocation touches free memory
  // only. FIRN_MOVING=off in the environment (core/pool.h) turns it off.
  bool move_on_failure = false;

  // Most host memory that blocks may be spilled to (Pool::AllowSpill) by such
  // an allocation, in bytes, what is kept for the next spill included: rounded
  // down to whole granules, of which it must be one at least. It is pinned, and
  // taken when it is needed. 0: nothing is ever spilled. Without effect where
  // nothing may move, or the device cannot use host memory in this way: the
  // report of a failed allocation says why.
  uint64_t host_spill_limit_bytes = 0;

  // Such an allocation closes the gate of the pool's LaunchScopes before it
  // moves anything, and waits for open ones and for what was launched in them,
  // at most so long; nothing is moved otherwise. 0 or more.
  absl::Duration max_wait = absl::Seconds(1);

  // Report work in flight that no scope has named whenever the gate is closed,
  // to stderr, and wait for it as well. For debugging: costs a wait for the
  // whole device, and invalidates captures that were begun outside of scopes.
  bool report_unscoped_work = false;

  // Physical memory that is created ahead of need by a thread of the pool, so
  // that an allocation finds it ready: at most the capacity. 0: none, and no
  // thread.
  uint64_t prepared_bytes = 0;

  // Unmapped memory that the same thread leaves in the cache: what is beyond
  // `max_cached_bytes` (at least prepared_bytes; 0 means no limit), or has been
  // there for longer than `max_cached_time` (more than 0), goes back to the
  // driver, but for the prepared bytes.
  uint64_t max_cached_bytes = 0;
  absl::Duration max_cached_time = absl::InfiniteDuration();

  // Most virtual granules mapped at a time; 0 means no limit but the driver's
  // own. At least the capacity in granules; an allocation that would need more
  // fails with ResourceExhausted.
  uint32_t max_mapped_vgs = 0;

  // What makes MemoryClass::kExportable available. How its memory can be given
  // to other processes: kPosixFileDescriptor, or not at all (kNone).
  ShareableHandleType export_type = ShareableHandleType::kNone;
  // And whether network cards may be given access to it (GPUDirect RDMA): all
  // of it counts as registered from its allocation on, as nobody tells.
  bool rdma_capable = false;

  // How many of the latest events are kept for Pool::GetHistory (at most 2^24;
  // 0: none): of 64 bytes of host memory each, rounded up to a power of two, 64
  // at least. Costs each call some ten nanoseconds.
  uint32_t history_entries = 0;
  // Keep with each where in the program it came from, up to 32 frames: 256
  // bytes more each, and a walk of the stack for each call. Needs
  // history_entries.
  bool history_stacks = false;
  // Path of a file that gets a line for each allocation, free and failed
  // allocation, as the RAPIDS Memory Manager logs them (core/rmm_log.h); it is
  // replaced, and whole once the pool is gone. Empty: no log. InvalidArgument
  // by Pool::Create if it cannot be written.
  std::string rmm_log;

  // Finds what programs do wrong with their blocks; off unless asked for.
  DebugOptions debug;

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right. Makes no driver call; what depends on the device is checked by
  // Pool::Create.
  absl::Status Validate() const;
};

// What may be done with the physical memory beneath a block.
enum class MemoryClass : uint8_t {
  kMovable,  // passes move it
  // It stays where it is as long as it lives, apart from what moves, so that it
  // keeps no granule of that from being emptied.
  kPinned,
  // Likewise, on granules that the block has to itself and that can be given to
  // other processes (Pool::Export) and, with PoolOptions::rdma_capable, to
  // network cards: whole granules, filled with zeros, and released to the
  // driver after the free if anybody could hold on to them. For pools with
  // export_type or rdma_capable.
  kExportable,
};

// How long a block is expected to live. Those of different expectation are kept
// on different granules as long as there is room, so that what lives long does
// not keep granules from becoming free that the rest has left.
enum class Lifetime : uint8_t { kUnknown, kShort, kLong };

struct AllocateOptions {
  // Least alignment of the address in bytes: a power of two up to 1 GiB. Every
  // address is aligned to 512 at least.
  uint64_t alignment_bytes = 512;

  // The stream that uses the memory first. Memory freed on a stream is
  // reusable there at once, elsewhere when that stream's work is done.
  StreamHandle stream = nullptr;

  // Small blocks with any of the following take the pool's lock, where others
  // mostly do without.

  // It shares no granule with what is in other domains.
  DomainId domain = DomainId::kDefault;
  // What the memory is for, as Pool::RegisterTag gave it out: for statistics.
  Tag tag = Tag::kUntagged;

  // Where no memory can be moved, kPinned is nothing special, kExportable
  // refused, and lifetime ignored.
  MemoryClass memory_class = MemoryClass::kMovable;
  Lifetime lifetime = Lifetime::kUnknown;

  // Whether it asks for none of these.
  bool is_ordinary() const {
    return (static_cast<uint32_t>(domain) | static_cast<uint32_t>(tag) |
            static_cast<uint32_t>(memory_class) |
            static_cast<uint32_t>(lifetime)) == 0;
  }
  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right.
  absl::Status Validate() const;
};

// What is known of work in flight when a pass begins.
enum class CompactionLevel {
  // 0: the caller promises that no other thread launches work on the pool's
  // memory until the pass is over; the pool waits for its devices.
  kCallerPromises = 0,
  // 1: every thread launches inside LaunchScopes. The pass closes the gate,
  // waits for open scopes and for the work launched in them, and nothing else.
  kLaunchScopes = 1,
  // 2: only memory that is declared idle or read-only moves (Pool::MarkIdle,
  // MarkReadOnly), and work on the rest goes on; so do reads, but for the
  // remap,
  // for which the gate is closed as at level 1. The first such pass of a pool
  // waits for its devices once,
  // as from then on what is freed gets tokens. Where the driver waits for
  // running kernels when it unmaps, so does MarkActive, and so do all calls
  // that need the pool's lock: not for such drivers.
  kDeclaredIdle = 2,
};

struct CompactOptions {
  CompactionLevel level = CompactionLevel::kCallerPromises;
  // kLaunchScopes: bounds the waits before anything moves, from when no other
  // pass is going on. Past it the pass is cancelled with DeadlineExceeded, and
  // nothing has changed. kDeclaredIdle: likewise of each batch with anything
  // that is read-only; what was merged before stays merged.
  absl::Duration max_wait = absl::Seconds(1);

  // How long the pass may be in the way of others, as far as can be foreseen
  // from what moves have taken before; at least one granule is emptied.
  // kLaunchScopes: the time for which the gate stays closed once nothing is in
  // flight: the pass ends before a batch that would exceed it. With a finite
  // one the plan is made before the gate closes, while others go on; what they
  // change leaves granules where they are (rejected_sources), and what they
  // free is for the next pass. kDeclaredIdle: the time
  // of one remap, for which MarkActive and the pool's lock may be waited for:
  // batches are as small. kCallerPromises: no limit.
  absl::Duration max_pause = absl::InfiniteDuration();

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

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right.
  absl::Status Validate() const;
};

struct SafepointOptions {
  // Waste, which is used bytes less live bytes, that is left alone: the larger
  // of the two; the share is of the live bytes.
  uint64_t tolerated_waste_bytes = 100'000'000;
  double tolerated_waste_percent = 10;
  // Budgets of the pass, as in CompactOptions.
  absl::Duration max_duration = absl::InfiniteDuration();
  uint64_t max_bytes = 0;

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right.
  absl::Status Validate() const;
};

}  // namespace firn

#endif  // FIRN_CORE_POOL_OPTIONS_H_
