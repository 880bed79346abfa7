// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What an allocation tries before it fails (core/ladder.h), and what it says
// when it does.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/core/ladder_climb.h"
#include "firn/core/pool_impl.h"
#include "firn/core/pool_spiller.h"
#include "firn/vmm/relaxed_capture.h"
#include "firn/vmm/trace_range.h"

namespace firn {
namespace {

// A pass forced by a failing allocation recovers at least so many granules if
// it can: the next failure is then some way off.
constexpr uint64_t kLeastGranulesPerForcedPass = 8;

struct Step {
  Rung rung;
  Effort effort;               // of the attempt that follows
  bool after_merging = false;  // only if something was merged
};
constexpr Step kSteps[] = {
    {Rung::kParkedBlocks, Effort::kOrdinary},
    {Rung::kPendingFrees, Effort::kOrdinary},
    {Rung::kOtherArenas, Effort::kOrdinary},
    {Rung::kUnmapping, Effort::kOrdinary},
    {Rung::kMerging, Effort::kOrdinary},
    // The granules that were recovered may want addresses or mappings.
    {Rung::kUnmapping, Effort::kOrdinary, /*after_merging=*/true},
    {Rung::kScatteredHoles, Effort::kScattered},
    {Rung::kOpenedHole, Effort::kScattered},
    {Rung::kSpill, Effort::kScattered},
};

RungOutcome Outcome(bool changed, absl::string_view why) {
  RungOutcome outcome;
  outcome.changed = changed;
  outcome.why = why;
  return outcome;
}

absl::StatusOr<RungOutcome> Outcome(const absl::StatusOr<bool>& changed,
                                    absl::string_view why) {
  if (!changed.ok()) return changed.status();
  return Outcome(*changed, why);
}

}  // namespace

absl::StatusOr<BlockStart> Pool::Impl::ClimbLadder(const Request& request,
                                                   Reach reach,
                                                   absl::Status failure) {
  LadderClimb climb(&ladder_);
  if (!LimitBelow(request).empty()) return OutOfMemory(request, failure, climb);
  IsolateLost();
  bool has_merged = false;
  for (const Step& step : kSteps) {
    if (step.rung == Rung::kMerging && reach == Reach::kUntilMoving) {
      return failure;
    }
    if (step.after_merging && !has_merged) continue;
    const TraceRange range(RungName(step.rung).data());
    const uint32_t free_before = FreeGranulesFor(request);
    const absl::StatusOr<RungOutcome> outcome =
        TryRung(step.rung, request, reach);
    if (!outcome.ok()) return outcome.status();
    has_merged |= step.rung == Rung::kMerging && outcome->changed;
    const uint32_t free_after = FreeGranulesFor(request);
    climb.Note(step.rung, *outcome,
               GranulesToBytes(free_after - std::min(free_before, free_after)));
    if (!outcome->changed) continue;
    absl::StatusOr<BlockStart> start = TryPlace(request, step.effort);
    if (start.ok()) climb.NoteRescue();
    if (!absl::IsResourceExhausted(start.status())) return start;
    failure = start.status();
    IsolateLost();
  }
  absl::StatusOr<BlockStart> start = TryOtherLifetimes(request);
  climb.Note(Rung::kOtherLifetimes,
             Outcome(start.ok(), "they have no room, or there are none"), 0);
  if (start.ok()) climb.NoteRescue();
  if (!absl::IsResourceExhausted(start.status())) return start;
  return OutOfMemory(request, failure, climb);
}

uint32_t Pool::Impl::GranulesFor(const Request& request) const {
  const Arena& arena = *arenas_[request.arena];
  return arena.placed != nullptr ? arena.placed->GranulesFor(
                                       request.quanta, request.alignment_quanta)
                                 : arena.large.GranulesFor(request.quanta);
}

bool Pool::Impl::IsSmall(const Request& request) const {
  return options_.placement == PlacementKind::kFirn &&
         request.quanta < quanta_per_granule_ &&
         request.alignment_quanta <= quanta_per_granule_;
}

WindowAllocator::Shape Pool::Impl::ShapeOf(const Request& request) {
  return arenas_[0]->windows.ShapeOf(
      static_cast<uint32_t>(request.quanta),
      static_cast<uint32_t>(request.alignment_quanta));
}

uint32_t Pool::Impl::FreeGranulesFor(const Request& request) const {
  return arenas_[request.arena]->backing.available_granules();
}

absl::StatusOr<RungOutcome> Pool::Impl::TryRung(Rung rung,
                                                const Request& request,
                                                Reach reach) {
  switch (rung) {
    case Rung::kParkedBlocks:
      return Outcome(ReleaseParked(launches_are_drained_),
                     "none that may be taken without waiting");
    case Rung::kPendingFrees:
      return TryPendingFrees(reach);
    case Rung::kOtherArenas:
      return Outcome(ReclaimFromOthers(request),
                     "there are none, or they hold nothing for nothing");
    case Rung::kUnmapping:
      return Outcome(UnmapUnused(request),
                     "too few granules are free, or none of them is mapped");
    case Rung::kMerging:
      return TryMerging(request, reach);
    case Rung::kScatteredHoles:
      return Outcome(options_.placement == PlacementKind::kFirn,
                     "only where placement is firn");
    case Rung::kOpenedHole:
      return TryHole(request, reach);
    case Rung::kSpill:
      return Spiller(this).Try(request, reach);
    default:
      return Outcome(false, "");
  }
}

absl::StatusOr<RungOutcome> Pool::Impl::TryPendingFrees(Reach reach) {
  if (free_queue_.empty() && !has_parked_blocks()) {
    return Outcome(false, "there are none");
  }
  if (reach == Reach::kNoWaiting) {
    return Outcome(false,
                   "not waited for inside a LaunchScope, or in a capture");
  }
  const absl::Status released = ReleaseFreed();
  if (!released.ok()) return released;
  return Outcome(true, "");
}

absl::string_view Pool::Impl::WhyNotMoved(Reach reach) const {
  if (!never_moves_.empty()) return never_moves_;
  if (!options_.move_on_failure) return "move_on_failure is off";
  if (reach == Reach::kNoWaiting) {
    return "not inside a LaunchScope, or in a capture";
  }
  return reach == Reach::kLiveMemory
             ? ""
             : "nothing was freed since a pass recovered nothing, or it is "
               "inside a move hook";
}

absl::StatusOr<RungOutcome> Pool::Impl::TryMerging(const Request& request,
                                                   Reach reach) {
  if (reach != Reach::kLiveMemory) return Outcome(false, WhyNotMoved(reach));
  if (FreesAtEmptyPass(request) == Frees()) {
    return Outcome(false, "nothing was freed since a pass recovered nothing");
  }
  const absl::Status merged = MakeRoom(request);
  if (!merged.ok()) return merged;
  // What became empty may be others'.
  const absl::StatusOr<bool> more = ReclaimFromOthers(request);
  if (!more.ok()) return more.status();
  return Outcome(true, "");
}

absl::StatusOr<RungOutcome> Pool::Impl::TryHole(const Request& request,
                                                Reach reach) {
  if (!IsSmall(request)) {
    return Outcome(false,
                   "only for less than a granule, where placement is firn");
  }
  if (reach != Reach::kLiveMemory) return Outcome(false, WhyNotMoved(reach));
  const absl::Status made = MakeHole(request);
  if (!made.ok()) return made;
  return Outcome(true, "");
}

absl::StatusOr<bool> Pool::Impl::UnmapUnused(const Request& request) {
  const Arena& own = *arenas_[request.arena];
  if (own.backing.available_granules() < GranulesFor(request)) return false;
  uint32_t unmapped = 0;
  for (const auto& arena : arenas_) {
    // Where unmapping would have to wait, and may not, nothing has changed.
    const absl::StatusOr<uint32_t> spares = arena->backing.UnmapSpares(0);
    if (!spares.ok() && may_wait_) return spares.status();
    unmapped += spares.value_or(0);
  }
  const absl::StatusOr<uint32_t> empty =
      UnmapEmpty(std::numeric_limits<uint32_t>::max());
  if (!empty.ok()) return empty.status();
  return unmapped + *empty > 0;
}

absl::Status Pool::Impl::MakeRoom(const Request& request) {
  CompactOptions options;
  options.wanted_granules =
      std::max<uint64_t>(GranulesFor(request) + 1, kLeastGranulesPerForcedPass);
  CompactionReport report;
  const bool is_limited = IsLimitedByDomain(request);
  const absl::Status status = CompactLocked(options, &request, &report);
  if (!status.ok()) return status;
  // A hook may have given up the domain, and with it what is on record of it.
  if (is_limited && !domain_records_.contains(request.kind.domain)) {
    return absl::OkStatus();
  }
  // What a hook wanted to stay it may let go next time.
  if (report.granules_recovered == 0 && report.vetoed_sources == 0) {
    FreesAtEmptyPass(request) = Frees();
  }
  return absl::OkStatus();
}

uint64_t& Pool::Impl::FreesAtEmptyPass(const Request& request) {
  const auto found = domain_records_.find(request.kind.domain);
  return found != domain_records_.end() && IsLimitedByDomain(request)
             ? found->second.frees_at_empty_pass
             : frees_at_empty_pass_;
}

bool Pool::Impl::HoleWasInVain(const Request& request) {
  const WindowAllocator::Shape shape = ShapeOf(request);
  return frees_at_failed_hole_ == Frees() &&
         failed_hole_arena_ == request.arena &&
         shape.quanta >= failed_hole_.quanta &&
         shape.alignment_quanta >= failed_hole_.alignment_quanta;
}

bool Pool::Impl::MayMovingHelp(const Request& request) {
  if (!LimitBelow(request).empty()) return false;
  if (!domain_records_.empty()) SetQuota(arenas_[request.arena].get());
  return FreesAtEmptyPass(request) != Frees() ||
         (IsSmall(request) && !HoleWasInVain(request)) ||
         Spiller::MayHelp(*this, request);
}

absl::Status Pool::Impl::MakeHole(const Request& request) {
  const WindowAllocator::Shape shape = ShapeOf(request);
  Arena& arena = *arenas_[request.arena];
  if (HoleWasInVain(request) || !arena.may_move()) return absl::OkStatus();
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  absl::Status status = WaitUntilIdle();
  if (!status.ok()) return status;
  CompactionReport report;
  arena.is_in_pass = true;
  Record(HistoryKind::kPassBegin, /*address=*/0, /*bytes=*/0);
  status =
      arena.compactor.OpenHole(shape.quanta, shape.alignment_quanta, &report);
  arena.is_in_pass = false;
  CountPass(status, report);
  if (status.ok() && report.moves == 0 && report.vetoed_sources == 0) {
    frees_at_failed_hole_ = Frees();
    failed_hole_ = shape;
    failed_hole_arena_ = request.arena;
  }
  return status;
}

// --- Failures ---

void Pool::Impl::RefreshBound() {
  // Once in as many calls as there are granules to look at, more or less.
  constexpr uint64_t kGranulesPerCall = 16;
  const uint64_t calls = stats_.allocations + Frees() + pins_->additions();
  const uint64_t calls_since = calls - bound_.calls;
  if (bound_.calls == ~uint64_t{0} ||
      calls_since > UsedGranules() / kGranulesPerCall) {
    bound_ = ComputeBound();
    bound_.calls = calls;
  }
  bound_.calls_since = calls - bound_.calls;
}

std::string Pool::Impl::WhatWouldHelp(const Request& request) const {
  const uint64_t wanted = GranulesFor(request);
  const uint64_t free = FreeGranulesFor(request);
  const uint64_t missing = wanted > free ? wanted - free : 0;
  const uint64_t used = UsedGranules();
  const uint64_t mergeable = used - std::min<uint64_t>(used, bound_.granules);
  const uint64_t pinned =
      bound_.granules - std::min(bound_.granules, bound_.granules_unpinned);
  std::string text = absl::StrCat(" Compaction could free at most ",
                                  GranulesToBytes(mergeable), " bytes more");
  if (pinned > 0) {
    absl::StrAppend(&text, ", with nothing pinned ",
                    GranulesToBytes(mergeable + pinned));
  }
  if (missing == 0) return absl::StrCat(text, ".");
  absl::StrAppend(&text, "; wanted are ", GranulesToBytes(missing), ". ");
  if (mergeable >= missing && !options_.move_on_failure &&
      never_moves_.empty()) {
    absl::StrAppend(&text,
                    "It might fit with move_on_failure, or after "
                    "Compact(). ");
  } else if (mergeable < missing && mergeable + pinned >= missing) {
    absl::StrAppend(&text, "It might fit with nothing pinned. ");
  }
  return absl::StrCat(text, "It would fit with ", GranulesToBytes(missing),
                      " bytes more of what limits it: ",
                      IsLimitedByDomain(request) ? "the domain's limit"
                      : limit_.hard < store_.most_budget_granules()
                          ? "the pool's limit"
                          : "its capacity, or the device's memory",
                      ".");
}

absl::Status Pool::Impl::OutOfMemory(const Request& request,
                                     const absl::Status& last_failure,
                                     const LadderClimb& climb) {
  RefreshBound();
  const uint64_t used = GranulesToBytes(UsedGranules());
  const uint64_t spilled = Spiller(this).LiveBytes();
  const uint64_t live_here = LiveBytes() - std::min(LiveBytes(), spilled);
  const uint64_t bound = std::min(GranulesToBytes(bound_.granules), used);
  const absl::string_view unmoved = WhyNotMoved(Reach::kLiveMemory);
  const std::string rungs = climb.ToString();
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot allocate ", request.bytes, " bytes: ", last_failure.message(),
      ". capacity ", GranulesToBytes(store_.most_budget_granules()),
      DescribeLimits(request), ", held ",
      GranulesToBytes(store_.held_granules()), ", cached ",
      GranulesToBytes(store_.cached_granules()), ", live ", LiveBytes(),
      spilled == 0 ? "" : absl::StrCat(", of it in host memory ", spilled),
      ", used ", used, " (", used - std::min(used, live_here),
      " of it holes and rounding), free ",
      GranulesToBytes(FreeGranulesFor(request)), ", pending frees ",
      free_queue_.pending_bytes(), ", largest hole ",
      QuantaToBytes(bound_.largest_hole_quanta), ", least for what is live ",
      bound,
      bound_.calls_since == 0
          ? ""
          : absl::StrCat(" (", bound_.calls_since, " calls ago)"),
      pins_->empty() ? ""
                     : absl::StrCat(", pinned ", PinnedGranules(),
                                    " granules (", pins_->Describe(), ")"),
      ". Live memory was ",
      unmoved.empty() ? std::string("allowed to move")
                      : absl::StrCat("not allowed to move (", unmoved, ")"),
      ".", rungs.empty() ? "" : " Ladder: ", rungs, rungs.empty() ? "" : ".",
      WhatWouldHelp(request)));
}

const absl::Status* Pool::Impl::SameFailure(const Request& request,
                                            Reach reach) const {
  if (!free_queue_.empty() || !unreleased_.empty() ||
      graph_pools_.has_retired() || Spiller::MayHelp(*this, request)) {
    return nullptr;
  }
  return failures_.Find(
      AsFailed(request, reach), [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return FailureMemory::Events{Frees(), stats_.compaction_passes};
      });
}

void Pool::Impl::RememberFailure(const Request& request, Reach reach,
                                 const absl::Status& failure) {
  // Where it is not a limit of ours that is met, the driver may have more to
  // give next time; and where nothing could be waited for, others may do so.
  const bool is_limited = (options_.shared_budget == nullptr &&
                           store_.held_granules() >= limit_.hard) ||
                          arenas_[request.arena]->backing.quota_left() == 0;
  if (!absl::IsResourceExhausted(failure) || reach == Reach::kNoWaiting ||
      !is_limited || zeroing_failed_) {
    return;
  }
  failures_.Add(AsFailed(request, reach), {Frees(), stats_.compaction_passes},
                failure);
}

}  // namespace firn
