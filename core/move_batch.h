// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One batch of a pass: announce it to whoever wants to know, look whether it is
// still right, relocate, publish.

#ifndef FIRN_CORE_MOVE_BATCH_H_
#define FIRN_CORE_MOVE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/relocator.h"
#include "firn/compaction/snapshot.h"
#include "firn/core/pinned_blocks.h"
#include "firn/core/placement/backing.h"
#include "firn/core/placement/placement_allocator.h"
#include "firn/core/placement/window_allocator.h"

namespace firn {

// Virtual granules that leave one granule.
struct MovingSource {
  std::vector<VgIndex> vgs;
  bool stays = false;  // a hook wants it so
};

// Who is told of moves. Announce, Copy and Conclude may let go of the lock that
// guards all books while they are at work: whatever was known of them before is
// out of date then.
class MoveObserver {
 public:
  virtual ~MoveObserver() = default;
  virtual bool has_hooks() const = 0;
  // Whether all that is live on this virtual granule is declared idle or, where
  // nobody can be launching a read of it, read-only, and the work launched
  // before that was done.
  virtual bool IsQuiet(VgIndex vg) = 0;
  // The sources, which are quiet, are about to move: lets go of the lock to
  // announce them and to call `copy`, with what stays known by then. On success
  // nobody reads what is read-only either, until Conclude; that is waited for
  // for `max_wait` at most, and after an error nothing may be moved.
  virtual absl::Status Copy(
      std::vector<MovingSource>* sources, absl::Duration max_wait,
      absl::FunctionRef<absl::Status(const std::vector<MovingSource>&)>
          copy) = 0;
  // The sources are about to move. On success no work uses the pool's memory,
  // as before; after an error nothing may be moved.
  virtual absl::Status Announce(std::vector<MovingSource>* sources) = 0;
  // Whether a block may have come to this virtual granule that was not
  // announced, or may come while the lock is held.
  virtual bool HasNews(VgIndex vg) = 0;
  // What was announced has moved, or not. Follows each Announce and each Copy.
  // For how long nobody could launch because of the latter.
  virtual absl::Duration Conclude() = 0;
};

// Thread safety: none; guarded by its owner.
class MoveBatch {
 public:
  // Owns none of its arguments, which must outlive it.
  // `placed` may be null.
  MoveBatch(Backing* backing, WindowAllocator* windows,
            PlacementAllocator* placed, Relocator* relocator,
            const PinnedBlocks* pins, MoveObserver* observer);

  struct Kind {
    bool empties_sources = true;  // else it makes room in them
    bool is_announced = false;    // and so checked again
    // What moves is declared idle or read-only, and work on all the rest goes
    // on: others go on meanwhile, but for the remap, and whatever they change
    // that matters leaves a source where it is. For so long it may wait until
    // nobody reads any more.
    bool is_declared = false;
    absl::Duration max_wait = absl::InfiniteDuration();
    // Others went on between the plan and the batch: it is checked first.
    bool is_planned_ahead = false;
  };
  struct Result {
    uint64_t sources = 0;
    uint64_t moves = 0;
    uint64_t quanta = 0;
    uint64_t vetoed_sources = 0;
    uint64_t changed_sources = 0;  // left, as the plan was right no more
    // kind.is_declared: from when the lock was had back until all was
    // published; and for how long nobody could launch.
    absl::Duration remap_duration;
    absl::Duration pause;
  };
  // Makes these moves of a plan for `snapshot`, whole sources. After an error
  // nothing was moved.
  absl::Status Run(const Snapshot& snapshot,
                   absl::Span<const PlannedMove> moves, Kind kind,
                   Result* result);

  // Appends what is live on a virtual granule, sorted and merged.
  void AppendLiveExtents(VgIndex vg,
                         std::vector<OffsetInterval>* extents) const;

 private:
  // Part of `relocations_`.
  struct Source {
    GranuleId from;
    size_t begin = 0;
    size_t end = 0;
  };

  void Fill(const Snapshot& snapshot, absl::Span<const PlannedMove> moves);
  std::vector<MovingSource> ListSources() const;
  absl::Status AnnounceAndCheck(Kind kind, Result* result);
  // Run for what is declared.
  absl::Status RunDeclared(Kind kind, Result* result);
  absl::Status CopyUnlocked(Kind kind, std::vector<MovingSource>* sources);
  // Held, the granules concerned keep their mappings, and nothing new comes.
  void SetHeld(bool held);
  // Keeps what may still be done of the moves.
  void CheckAll(const std::vector<MovingSource>& announced, Kind kind,
                Result* result);
  // Appends what is left to do of a source to `checked_`; false, and it
  // appended nothing, if the source must stay.
  bool Check(const Source& source, Kind kind);
  bool CheckMove(const Relocation& planned, GranuleId from, Kind kind,
                 std::vector<OffsetInterval>* extents) const;
  // Whether the move was announced, or declared, for what is there now.
  bool HasNews(VgIndex vg, Kind kind) const;
  bool CanTakeIn(GranuleId host,
                 absl::Span<const OffsetInterval> extents) const;
  // Has copies written through what is mapped to the hosts.
  void WriteThroughHosts();
  void Publish(Result* result);

  Backing* const backing_;
  GranuleBooks* const books_;
  WindowAllocator* const windows_;
  PlacementAllocator* const placed_;
  Relocator* const relocator_;
  const PinnedBlocks* const pins_;
  MoveObserver* const observer_;
  std::vector<Source> sources_;
  std::vector<Relocation> relocations_;
  std::vector<GranuleId> held_;
  std::vector<VgIndex> pinned_;
  // What has been found right so far, and the extents of it.
  std::vector<Source> checked_sources_;
  std::vector<Relocation> checked_;
  std::vector<std::vector<OffsetInterval>> extents_;
  std::vector<std::vector<OffsetInterval>> planned_extents_;
};

}  // namespace firn

#endif  // FIRN_CORE_MOVE_BATCH_H_
