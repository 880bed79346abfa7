// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pool::Impl::Spiller: what a pool does with host memory.

#ifndef FIRN_CORE_POOL_SPILLER_H_
#define FIRN_CORE_POOL_SPILLER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/pool_impl.h"
#include "firn/core/spill_planner.h"

namespace firn {

// Made for a call. But for BringBack, its owner holds mutex_ whenever it is
// called.
class Pool::Impl::Spiller {
 public:
  explicit Spiller(Impl* impl) : impl_(impl) {}

  // --- The rung ---
  // Whether it might save the request, as far as can be told without waiting.
  static bool MayHelp(const Impl& impl, const Request& request);
  absl::StatusOr<RungOutcome> Try(const Request& request, Reach reach);

  // --- Blocks in host memory ---
  // Whether any of the block lies there.
  bool IsSpilled(BlockStart start) const { return IsOn() && LiesThere(start); }
  // MarkActive of such a block: brings it back, and what shares its granules of
  // host memory. Without a lock.
  absl::Status BringBack(const void* ptr);
  // A block is about to be released: what becomes of its granules of host
  // memory is for ReleaseLeft.
  void NoteReleased(BlockStart start) {
    if (IsOn()) NoteLeft(start);
  }
  // Unmaps what has nothing live of granules of host memory, and gives back
  // those that have no mapping then, as far as that may be done now.
  void ReleaseLeft() {
    if (IsOn()) UnmapLeft();
  }
  // The same for Trim, and what is cached of host memory as well.
  absl::Status ReleaseUnused();

  // --- Figures ---
  void AddStats(PoolStats* stats) const;
  uint32_t UsedGranules() const;
  uint64_t LiveBytes() const;
  uint32_t MappedGranules() const;

 private:
  using GranuleSet = absl::flat_hash_set<GranuleId>;

  // Whether there is any host memory: asked at each free, before all else.
  bool IsOn() const {
    impl_->mutex_.AssertHeld();
    return impl_->spill_.limit_granules() > 0;
  }
  bool LiesThere(BlockStart start) const;
  void NoteLeft(BlockStart start);
  void UnmapLeft();
  absl::string_view WhyNot(Reach reach) const;
  static SpillBooks::Attempt AttemptFor(const Impl& impl,
                                        const Request& request);
  SpillNeed NeedOf(const Request& request) const;
  // `*is_pending`: some blocks are not idle yet that will be.
  std::vector<SpillCandidate> ListCandidates(const Request& request,
                                             const GranuleSet& left_out,
                                             bool* is_pending);
  // Whether all that is live on the granule may be spilled now.
  bool MaySpill(GranuleId granule);
  // Spills these, or those of them that hooks let go and that are still to be
  // spilled after the hooks; adds the others to `left_out`.
  absl::Status Spill(std::vector<GranuleId> granules, GranuleSet* left_out);

  // What is live on each.
  std::vector<MovingSource> ListSources(
      const std::vector<GranuleId>& granules) const;
  std::vector<VgIndex> LiveVgsOn(GranuleId granule) const;
  void NoteVetoes(const std::vector<MovingSource>& sources);
  // Whether a block came there that no hook was told of.
  bool HasNews(GranuleId granule) const;
  void SetInPass(const std::vector<GranuleId>& granules, bool is_in_pass);

  // Granules of host memory beneath a block, each once.
  std::vector<GranuleId> HostGranulesOf(BlockStart start) const;
  bool AreIdle(const std::vector<GranuleId>& granules);
  // `is_drained`: no work is in flight. False: it has to be, first.
  absl::StatusOr<bool> BringBackLocked(const void* ptr, bool is_drained);
  absl::Status Return(const std::vector<GranuleId>& hosts,
                      const Acquisition& device);
  // Granules of the device, as an allocation for the arena would get them.
  absl::Status AcquireFor(Arena* arena, uint32_t count,
                          Acquisition* acquisition);
  absl::Status TryAcquire(Arena* arena, uint32_t count,
                          Acquisition* acquisition);

  Arena& ArenaOf(GranuleId granule) const;
  const GranuleRecord& RecordOf(GranuleId granule) const;

  Impl* const impl_;
};

}  // namespace firn

#endif  // FIRN_CORE_POOL_SPILLER_H_
