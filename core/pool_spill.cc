// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rung that spills: granules of which all that is live may lie in host
// memory meanwhile (Pool::AllowSpill) go there whole, at the same offsets and
// beneath the same addresses.
//
// A granule of host memory is closed: nothing new comes to it, no pass touches
// it. It is left again by MarkActive (core/pool_spill_return.cc) or, when the
// last block on it is freed, by being unmapped. What shares one was spilled
// together, and comes back together.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/core/block_visits.h"
#include "firn/core/granule_transfer.h"
#include "firn/core/pool_spiller.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// Granules of one batch: for so many a failure is undone. Each takes an address
// and a mapping more while it moves.
constexpr size_t kGranulesPerBatch = 64;

RungOutcome Unchanged(absl::string_view why) {
  RungOutcome outcome;
  outcome.why = why;
  return outcome;
}

}  // namespace

Arena& Pool::Impl::Spiller::ArenaOf(GranuleId granule) const {
  impl_->mutex_.AssertHeld();
  return *impl_->arenas_[RecordOf(granule).arena];
}

const GranuleRecord& Pool::Impl::Spiller::RecordOf(GranuleId granule) const {
  impl_->mutex_.AssertHeld();
  return impl_->table_.granules[granule.value()];
}

// --- Whether it may be tried ---

absl::string_view Pool::Impl::Spiller::WhyNot(Reach reach) const {
  impl_->mutex_.AssertHeld();
  if (!impl_->spill_.why_off().empty()) return impl_->spill_.why_off();
  if (impl_->declared_.count(Declaration::kSpillable) == 0) {
    return "nothing may be spilled (AllowSpill)";
  }
  return impl_->WhyNotMoved(reach);
}

SpillBooks::Attempt Pool::Impl::Spiller::AttemptFor(const Impl& impl,
                                                    const Request& request) {
  impl.mutex_.AssertHeld();
  SpillBooks::Attempt attempt;
  attempt.events = {impl.Frees(), impl.declared_.declarations(),
                    impl.stats_.granules_returned};
  attempt.arena = request.arena;
  attempt.granules = impl.GranulesFor(request);
  return attempt;
}

bool Pool::Impl::Spiller::MayHelp(const Impl& impl, const Request& request) {
  impl.mutex_.AssertHeld();
  return impl.spill_.limit_granules() > 0 && impl.options_.move_on_failure &&
         impl.declared_.count(Declaration::kSpillable) > 0 &&
         !impl.spill_.IsInVain(AttemptFor(impl, request));
}

SpillNeed Pool::Impl::Spiller::NeedOf(const Request& request) const {
  impl_->mutex_.AssertHeld();
  if (!impl_->domain_records_.empty()) {
    impl_->SetQuota(impl_->arenas_[request.arena].get());
  }
  const uint32_t free = impl_->FreeGranulesFor(request);
  const uint32_t wanted = impl_->GranulesFor(request);
  // The rest may find a hole.
  const uint64_t whole = request.quanta / impl_->quanta_per_granule_;
  SpillNeed need;
  need.missing_granules = wanted - std::min(wanted, free);
  need.least_granules = static_cast<uint32_t>(
      std::max<uint64_t>(1, whole - std::min<uint64_t>(whole, free)));
  const GranuleStore& store = impl_->store_;
  const uint32_t held =
      store.held_host_granules() - store.cached_granules(GranuleKind::kHost);
  const uint32_t limit = impl_->spill_.limit_granules();
  need.host_granules = limit - std::min(limit, held);
  return need;
}

// --- What may go ---

std::vector<VgIndex> Pool::Impl::Spiller::LiveVgsOn(GranuleId granule) const {
  impl_->mutex_.AssertHeld();
  std::vector<VgIndex> vgs;
  for (VgIndex at = RecordOf(granule).first; !at.is_none();
       at = impl_->VgAt(at).next) {
    if (impl_->VgAt(at).role != VgRole::kSpare) vgs.push_back(at);
  }
  return vgs;
}

bool Pool::Impl::Spiller::MaySpill(GranuleId granule) {
  impl_->mutex_.AssertHeld();
  const GranuleRecord& record = RecordOf(granule);
  const Arena& arena = ArenaOf(granule);
  if (record.is_closed() || record.live_quanta == 0 || !arena.may_move() ||
      arena.is_vacant) {
    return false;
  }
  for (const VgIndex vg : LiveVgsOn(granule)) {
    if (!impl_->VgKeepsTo(Declaration::kSpillable, vg,
                          impl_->declared_.declarations())) {
      return false;
    }
    if (impl_->pins_->empty()) continue;
    bool is_pinned = false;
    impl_->ForEachBlockOn(
        vg, [&](BlockStart start, const SlotContents& /*contents*/)
                ABSL_NO_THREAD_SAFETY_ANALYSIS {
                  is_pinned |= !impl_->pins_->ReasonsOf(UseKey(start)).empty();
                });
    if (is_pinned) return false;
  }
  return true;
}

std::vector<SpillCandidate> Pool::Impl::Spiller::ListCandidates(
    const Request& request, const GranuleSet& left_out, bool* is_pending) {
  impl_->mutex_.AssertHeld();
  std::vector<uint64_t> keys;
  impl_->declared_.ForEachSpillable(
      [&keys](uint64_t key) { keys.push_back(key); });
  std::vector<GranuleId> granules;
  for (const uint64_t key : keys) {
    *is_pending = *is_pending ||
                  !impl_->declared_.KeepsTo(Declaration::kSpillable, key,
                                            impl_->declared_.declarations());
    const VgRange range = impl_->RangeOf(StartOfUseKey(key));
    for (uint32_t i = 0; i < range.count; ++i) {
      granules.push_back(impl_->VgAt(range.first + i).granule);
    }
  }
  std::sort(granules.begin(), granules.end());
  granules.erase(std::unique(granules.begin(), granules.end()), granules.end());
  // Where it is the domain's limit that is met, nothing else will help.
  const bool is_limited = impl_->IsLimitedByDomain(request);
  std::vector<SpillCandidate> candidates;
  for (const GranuleId granule : granules) {
    if (left_out.contains(granule) || !MaySpill(granule) ||
        (is_limited && ArenaOf(granule).key.domain != request.kind.domain)) {
      continue;
    }
    SpillCandidate candidate;
    candidate.granule = granule;
    candidate.live_quanta = RecordOf(granule).live_quanta;
    candidates.push_back(candidate);
  }
  return candidates;
}

// --- The rung ---

absl::StatusOr<RungOutcome> Pool::Impl::Spiller::Try(const Request& request,
                                                     Reach reach) {
  impl_->mutex_.AssertHeld();
  const absl::string_view why_not = WhyNot(reach);
  if (!why_not.empty()) return Unchanged(why_not);
  if (impl_->spill_.IsInVain(AttemptFor(*impl_, request))) {
    return Unchanged("nothing has changed since it was in vain");
  }
  const ScopedRelaxedCapture relaxed(impl_->driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  RungOutcome outcome;
  const uint32_t free_before = impl_->FreeGranulesFor(request);
  const absl::Status idle = impl_->WaitUntilIdle();
  if (!idle.ok()) return idle;
  outcome.why = "enough granules are free";
  ReleaseLeft();
  bool has_spilled = false;
  GranuleSet left_out;
  for (SpillNeed need = NeedOf(request); need.missing_granules > 0;
       need = NeedOf(request)) {
    bool is_pending = false;
    SpillPlan plan =
        PlanSpill(ListCandidates(request, left_out, &is_pending), need);
    if (plan.granules.empty()) {
      // What a hook wanted to stay it may let go next time.
      if (!has_spilled && !is_pending && left_out.empty()) {
        impl_->spill_.NoteInVain(AttemptFor(*impl_, request));
      }
      outcome.why =
          left_out.empty() ? plan.why : "move hooks want what is left to stay";
      break;
    }
    if (plan.granules.size() > kGranulesPerBatch) {
      plan.granules.resize(kGranulesPerBatch);
    }
    const uint64_t spilled_before = impl_->stats_.granules_spilled;
    const absl::Status spilled = Spill(std::move(plan.granules), &left_out);
    has_spilled |= impl_->stats_.granules_spilled > spilled_before;
    if (absl::IsDataLoss(spilled)) return spilled;
    if (!spilled.ok()) {
      outcome.why = impl_->spill_.KeepRefusal(
          absl::StrCat("not possible now: ", spilled.message()));
      break;
    }
    // What became empty may be others'.
    const absl::StatusOr<bool> more = impl_->ReclaimFromOthers(request);
    if (!more.ok()) return more.status();
  }
  // Waiting and hooks may have set something free as well.
  outcome.changed =
      has_spilled || impl_->FreeGranulesFor(request) > free_before;
  return outcome;
}

absl::Status Pool::Impl::Spiller::Spill(std::vector<GranuleId> granules,
                                        GranuleSet* left_out) {
  impl_->mutex_.AssertHeld();
  Acquisition host;
  absl::Status status = impl_->store_.AcquireAtMost(
      static_cast<uint32_t>(granules.size()), &host, GranuleKind::kHost);
  if (status.ok() && host.granules.size() < granules.size()) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("the host gives memory for ", host.granules.size(), " of ",
                     granules.size(), " granules"));
  }
  const bool is_announced = status.ok() && impl_->hook_caller_->has_hooks();
  if (is_announced) {
    std::vector<MovingSource> sources = ListSources(granules);
    SetInPass(granules, true);
    status = impl_->hook_caller_->Announce(&sources);
    SetInPass(granules, false);
    NoteVetoes(sources);
    std::vector<GranuleId> let_go;
    for (size_t i = 0; i < granules.size(); ++i) {
      const GranuleId granule = granules[i];
      if (sources[i].stays || HasNews(granule) || !MaySpill(granule)) {
        left_out->insert(granule);
      } else {
        let_go.push_back(granule);
      }
    }
    granules = std::move(let_go);
  }
  std::vector<GranuleTransfer> transfers;
  for (size_t i = 0; i < granules.size(); ++i) {
    GranuleTransfer transfer;
    transfer.arena = &ArenaOf(granules[i]);
    transfer.from = granules[i];
    if (status.ok()) transfer.to = host.granules[i];
    transfers.push_back(transfer);
  }
  uint64_t quanta = 0;
  if (status.ok() && !transfers.empty()) {
    status = TransferGranules(transfers, impl_->relocator_.get(), &quanta);
    if (status.ok()) {
      impl_->stats_.granules_spilled += transfers.size();
      impl_->stats_.bytes_spilled += QuantaToBytes(quanta);
    } else {
      impl_->IsolateLost();
    }
  }
  // What was not needed, those that were created for it first.
  if (status.ok()) {
    host.granules.erase(
        host.granules.begin(),
        host.granules.begin() + static_cast<std::ptrdiff_t>(transfers.size()));
    host.created =
        std::min(host.created, static_cast<uint32_t>(host.granules.size()));
  }
  impl_->store_.GiveBack(host);
  if (is_announced) impl_->hook_caller_->Conclude();
  return status;
}

// --- Hooks ---

std::vector<MovingSource> Pool::Impl::Spiller::ListSources(
    const std::vector<GranuleId>& granules) const {
  impl_->mutex_.AssertHeld();
  std::vector<MovingSource> sources(granules.size());
  for (size_t i = 0; i < granules.size(); ++i) {
    sources[i].vgs = LiveVgsOn(granules[i]);
  }
  return sources;
}

void Pool::Impl::Spiller::NoteVetoes(const std::vector<MovingSource>& sources) {
  impl_->mutex_.AssertHeld();
  for (const MovingSource& source : sources) {
    if (source.stays) ++impl_->stats_.vetoed_sources;
  }
}

bool Pool::Impl::Spiller::HasNews(GranuleId granule) const {
  impl_->mutex_.AssertHeld();
  for (const VgIndex vg : LiveVgsOn(granule)) {
    if (impl_->hook_caller_->HasNews(vg)) return true;
  }
  return false;
}

void Pool::Impl::Spiller::SetInPass(const std::vector<GranuleId>& granules,
                                    bool is_in_pass) {
  impl_->mutex_.AssertHeld();
  for (const GranuleId granule : granules) {
    ArenaOf(granule).is_in_pass = is_in_pass;
  }
}

// --- Granules of host memory that were left ---

void Pool::Impl::Spiller::NoteLeft(BlockStart start) {
  impl_->mutex_.AssertHeld();
  if (MappedGranules() == 0) return;
  const std::vector<GranuleId> granules = HostGranulesOf(start);
  std::vector<GranuleId>& left = impl_->spill_.left_granules();
  left.insert(left.end(), granules.begin(), granules.end());
}

void Pool::Impl::Spiller::UnmapLeft() {
  impl_->mutex_.AssertHeld();
  std::vector<GranuleId>& left = impl_->spill_.left_granules();
  // Unmapping may wait for the device, and a capture would be broken by it.
  if (left.empty() || !impl_->may_wait_ || impl_->graph_pools_.any_open()) {
    return;
  }
  const ScopedRelaxedCapture relaxed(impl_->driver_);
  if (!relaxed.status().ok()) return;
  std::vector<GranuleId> still_left;
  for (const GranuleId granule : std::exchange(left, {})) {
    const GranuleRecord& record = RecordOf(granule);
    if (!record.is_host) continue;
    Arena& arena = ArenaOf(granule);
    // Beside what is live still, such a mapping serves nobody any more.
    std::vector<MappingChange> changes;
    for (VgIndex at = record.first; !at.is_none(); at = impl_->VgAt(at).next) {
      if (impl_->VgAt(at).role != VgRole::kSpare) continue;
      MappingChange change;
      change.vg = at;
      changes.push_back(change);
    }
    if (changes.empty()) continue;
    // Whatever used it is known to be done: blocks that are not idle are freed
    // with a token.
    if (!impl_->mappings_.Apply(changes).ok()) {
      impl_->IsolateLost();
      if (RecordOf(granule).spares > 0) still_left.push_back(granule);
      continue;
    }
    for (const MappingChange& change : changes) {
      arena.books.Detach(change.vg);
      VgRange range;
      range.first = change.vg;
      range.count = 1;
      impl_->address_space_->Give(range);
    }
    if (RecordOf(granule).mappings > 0) continue;
    arena.backing.CacheIfUnmapped(granule);
    arena.books.SetHost(granule, false);
  }
  left = std::move(still_left);
}

absl::Status Pool::Impl::Spiller::ReleaseUnused() {
  impl_->mutex_.AssertHeld();
  ReleaseLeft();
  if (impl_->spill_.limit_granules() == 0) return absl::OkStatus();
  return impl_->store_.ReleaseCachedHost().status();
}

// --- Figures ---

uint32_t Pool::Impl::Spiller::UsedGranules() const {
  impl_->mutex_.AssertHeld();
  uint32_t used = 0;
  for (const auto& arena : impl_->arenas_) {
    used += arena->books.used_host_granules();
  }
  return used;
}

uint32_t Pool::Impl::Spiller::MappedGranules() const {
  impl_->mutex_.AssertHeld();
  uint32_t mapped = 0;
  if (impl_->spill_.limit_granules() == 0) return mapped;
  for (const auto& arena : impl_->arenas_) {
    mapped += arena->books.mapped_host_granules();
  }
  return mapped;
}

uint64_t Pool::Impl::Spiller::LiveBytes() const {
  impl_->mutex_.AssertHeld();
  uint64_t quanta = 0;
  for (const auto& arena : impl_->arenas_) {
    quanta += arena->books.live_host_quanta();
  }
  return QuantaToBytes(quanta);
}

void Pool::Impl::Spiller::AddStats(PoolStats* stats) const {
  impl_->mutex_.AssertHeld();
  stats->spillable_blocks = impl_->declared_.count(Declaration::kSpillable);
  stats->spillable_bytes = impl_->declared_.bytes(Declaration::kSpillable);
  stats->idle_blocks += stats->spillable_blocks;
  stats->idle_bytes += stats->spillable_bytes;
  stats->spilled_bytes = LiveBytes();
  stats->host_used_bytes = impl_->GranulesToBytes(UsedGranules());
  stats->host_held_bytes =
      impl_->GranulesToBytes(impl_->store_.held_host_granules());
  stats->host_limit_bytes =
      impl_->GranulesToBytes(impl_->spill_.limit_granules());
}

}  // namespace firn
