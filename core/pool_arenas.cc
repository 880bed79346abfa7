// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What concerns all arenas of a pool, and what they do for each other.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "firn/core/placement/make_placement.h"
#include "firn/core/pool_impl.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// Mappings of one granule at most: each is an entry of the device's
// translation caches.
constexpr uint32_t kMaxMappingsPerGranule = 48;

void Add(const CompactionReport& part, CompactionReport* report) {
  report->lower_bound_granules += part.lower_bound_granules;
  report->granules_recovered += part.granules_recovered;
  report->moves += part.moves;
  report->bytes_copied += part.bytes_copied;
  report->rejected_sources += part.rejected_sources;
  report->vetoed_sources += part.vetoed_sources;
  report->pinned_granules += part.pinned_granules;
  report->busy_granules += part.busy_granules;
  report->budget_exhausted |= part.budget_exhausted;
  report->planned_us += part.planned_us;
  report->pause += part.pause;
}

// What a budget has left of `most`, where 0 is no limit; false if nothing.
bool Spend(uint64_t most, uint64_t spent, uint64_t* left) {
  if (most == 0) return true;
  *left = most > spent ? most - spent : 0;
  return *left > 0;
}

}  // namespace

std::unique_ptr<Arena> Pool::Impl::MakeArena(ArenaIndex index, ArenaKey key) {
  ArenaParts parts;
  parts.quanta_per_granule = quanta_per_granule_;
  parts.max_mappings_per_granule = kMaxMappingsPerGranule;
  parts.table = &table_;
  parts.address_space = address_space_.get();
  parts.store = &store_;
  parts.mappings = &mappings_;
  parts.size_classes = &size_classes_;
  parts.slots = &slots_;
  parts.relocator = relocator_.get();
  parts.pins = pins_.get();
  parts.observer = hook_caller_.get();
  parts.wait_for_freed = [this] { return WaitForFreed(); };
  parts.zero = [this](absl::Span<const VgIndex> vgs) {
    mutex_.AssertHeld();
    return ZeroGranules(vgs);
  };
  // An importer sees all of a granule: blocks of others have no place there.
  if (key.memory_class != MemoryClass::kExportable) {
    parts.structure =
        MakePlacement(options_.placement, options_.tiers, granule_bytes_);
  }
  auto arena = absl::make_unique<Arena>(std::move(parts), index, key);
  if (domains_->are_used()) arena->backing.KeepDomainsApart();
  return arena;
}

absl::Status Pool::Impl::ChooseArena(Request* request) {
  const ArenaKey& key = request->kind;
  const absl::Status open = domains_->CheckOpen(key.domain);
  if (!open.ok()) return open;
  for (const auto& arena : arenas_) {
    if (arena->is_vacant || !(arena->key == key)) continue;
    request->arena = arena->index();
    return absl::OkStatus();
  }
  for (auto& arena : arenas_) {
    if (!arena->is_vacant) continue;
    // What failed in the old one says nothing of the new one.
    ForgetFailures();
    stats_.zeroed_bytes += GranulesToBytes(arena->backing.zeroed_granules());
    request->arena = arena->index();
    arena = MakeArena(request->arena, key);
    return absl::OkStatus();
  }
  if (arenas_.size() > std::numeric_limits<ArenaIndex>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there are ", arenas_.size(),
        " combinations of domain, memory_class and lifetime in use"));
  }
  request->arena = static_cast<ArenaIndex>(arenas_.size());
  arenas_.push_back(MakeArena(request->arena, key));
  return absl::OkStatus();
}

uint32_t Pool::Impl::UsedGranules() const {
  uint32_t used = 0;
  for (const auto& arena : arenas_) used += arena->books.used_granules();
  return used;
}

uint32_t Pool::Impl::MappedGranules() const {
  uint32_t mapped = 0;
  for (const auto& arena : arenas_) mapped += arena->books.mapped_granules();
  return mapped;
}

LiveBound Pool::Impl::ComputeBound() const {
  LiveBound bound;
  for (const auto& arena : arenas_) {
    if (!arena->may_move()) {
      bound.granules += arena->books.used_granules();
      bound.granules_unpinned += arena->books.used_granules();
      continue;
    }
    const LiveFigures figures = arena->compactor.ComputeFigures();
    LowerBounds unpinned = figures.bounds;
    unpinned.by_pins = 0;
    bound.granules += figures.bounds.max();
    bound.granules_unpinned += unpinned.max();
    bound.largest_hole_quanta =
        std::max(bound.largest_hole_quanta, figures.largest_hole_quanta);
  }
  return bound;
}

absl::Status Pool::Impl::PlanAhead(const CompactOptions& options) {
  MutexLock pass(&pass_mutex_);
  std::vector<Arena*> planned;
  {
    MutexLock lock(&mutex_);
    const absl::Status released = ReleasePending(/*wait=*/false);
    if (!released.ok()) return released;
    ReleaseParked(/*is_idle=*/false);
    for (const auto& arena : arenas_) {
      if (!arena->may_move()) continue;
      arena->compactor.TakeSnapshotAhead();
      // It stays although its domain may go.
      arena->is_in_pass = true;
      planned.push_back(arena.get());
    }
  }
  for (Arena* const arena : planned) arena->compactor.PlanAhead(options);
  MutexLock lock(&mutex_);
  for (Arena* const arena : planned) arena->is_in_pass = false;
  return absl::OkStatus();
}

absl::Status Pool::Impl::RunCompactors(const CompactOptions& options,
                                       const Request* wanted,
                                       CompactionReport* report) {
  const ArenaIndex first = wanted == nullptr ? ArenaIndex{0} : wanted->arena;
  // Where it is the domain's limit that is met, nothing else will help.
  const bool is_limited = wanted != nullptr && IsLimitedByDomain(*wanted);
  const absl::Time start = absl::Now();
  report->granules_before = UsedGranules();
  absl::Status status;
  bool goes_on = true;
  // New arenas may come while hooks are called: their turn is the next pass.
  const size_t count = arenas_.size();
  for (size_t i = 0; i < count && status.ok(); ++i) {
    // The first one, and then the others in order.
    Arena& arena = *arenas_[i == 0 ? first : i <= first ? i - 1 : i];
    CompactOptions left = options;
    goes_on = goes_on &&
              Spend(options.max_bytes, report->bytes_copied, &left.max_bytes) &&
              Spend(options.max_moves, report->moves, &left.max_moves) &&
              Spend(options.wanted_granules, report->granules_recovered,
                    &left.wanted_granules);
    if (!goes_on || !arena.may_move() ||
        (is_limited && arena.key.domain != wanted->kind.domain)) {
      report->lower_bound_granules += arena.books.used_granules();
      if (!arena.may_move()) {
        report->pinned_granules += arena.books.used_granules();
      }
      continue;
    }
    left.max_duration = options.max_duration - (absl::Now() - start);
    if (options.level != CompactionLevel::kDeclaredIdle) {
      left.max_pause = options.max_pause - (absl::Now() - start);
    }
    // While another one let go of the lock, large blocks may have been freed:
    // of these nothing is live.
    DissolveParked(&arena);
    CompactionReport part;
    arena.is_in_pass = true;
    status = arena.compactor.Run(left, &part);
    arena.is_in_pass = false;
    Add(part, report);
  }
  report->granules_after = report->granules_before - report->granules_recovered;
  report->duration = absl::Now() - start;
  return status;
}

absl::StatusOr<uint32_t> Pool::Impl::UnmapEmpty(uint32_t most_granules) {
  uint32_t unmapped = 0;
  for (const auto& arena : arenas_) {
    const uint32_t before = arena->books.mapped_granules();
    const absl::StatusOr<uint32_t> vgs =
        arena->backing.UnmapEmpty(most_granules - unmapped);
    if (!vgs.ok()) return vgs.status();
    unmapped += before - arena->books.mapped_granules();
    if (unmapped >= most_granules) break;
  }
  return unmapped;
}

bool Pool::Impl::IsLimitedByDomain(const Request& request) const {
  return arenas_[request.arena]->backing.quota_left() == 0;
}

absl::StatusOr<bool> Pool::Impl::ReclaimFromOthers(const Request& request) {
  if (arenas_.size() == 1) return false;
  const Arena& own = *arenas_[request.arena];
  // What is held beyond a lowered budget has to go as well.
  const uint32_t held = store_.held_granules();
  const uint32_t budget = store_.budget_granules();
  const uint32_t wanted =
      GranulesFor(request) + (held > budget ? held - budget : 0);
  // Likewise what is mapped for the domain beyond its lowered limit.
  uint32_t beyond_domain = 0;
  const auto domain = domain_records_.find(own.key.domain);
  if (domain != domain_records_.end()) {
    const GranuleLimit& limit = domain->second.limit;
    uint32_t mapped = 0;
    for (const auto& arena : arenas_) {
      if (arena->key.domain == own.key.domain) {
        mapped += arena->books.mapped_granules();
      }
    }
    const uint32_t most = may_exceed_soft_limits_ ? limit.hard : limit.soft;
    beyond_domain = mapped > most ? mapped - most : 0;
  }
  uint32_t unmapped = 0;
  bool has_other_kinds = false;
  // Those of its own domain first: they leave something of the domain's limit,
  // where nothing else would help.
  for (const bool in_domain : {true, false}) {
    const uint32_t most =
        in_domain ? std::max(wanted, GranulesFor(request) + beyond_domain)
                  : wanted;
    if (!in_domain && unmapped == 0 && IsLimitedByDomain(request)) break;
    for (const auto& arena : arenas_) {
      if (arena.get() == &own || unmapped >= most ||
          (arena->key.domain == own.key.domain) != in_domain) {
        continue;
      }
      has_other_kinds |= arena->backing.kind() != own.backing.kind();
      const uint32_t before = arena->books.mapped_granules();
      const absl::StatusOr<uint32_t> vgs =
          arena->backing.UnmapEmpty(most - unmapped);
      // Where it would have to wait, and may not, nothing has changed.
      if (!vgs.ok() && may_wait_) return vgs.status();
      unmapped += before - arena->books.mapped_granules();
    }
  }
  if (!has_other_kinds) return unmapped > 0;
  // Memory of another kind only makes room in the budget.
  const uint32_t needed = GranulesFor(request);
  const absl::StatusOr<uint32_t> released =
      store_.ReleaseCached(budget > needed ? budget - needed : 0);
  if (!released.ok()) return released.status();
  return unmapped > 0 || *released > 0;
}

absl::StatusOr<uint32_t> Pool::Impl::TrimTo(uint32_t keep_granules) {
  const uint32_t held = store_.held_granules();
  if (held <= keep_granules) return 0;
  const uint32_t wanted = held - keep_granules;
  // Once: a keeper may be at work on the cache.
  const uint32_t cached = store_.cached_granules() +
                          store_.cached_granules(GranuleKind::kExportable) +
                          store_.retiring_granules();
  if (wanted > cached) {
    const absl::StatusOr<uint32_t> unmapped = UnmapEmpty(wanted - cached);
    if (!unmapped.ok()) return unmapped.status();
  }
  return store_.ReleaseCached(keep_granules);
}

absl::Status Pool::Impl::ZeroGranules(absl::Span<const VgIndex> vgs) {
  if (!may_wait_) {
    return absl::ResourceExhaustedError(
        "memory of another domain would have to be zeroed and waited for, "
        "inside a LaunchScope");
  }
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  const absl::Status zeroed = relocator_->Zero(vgs);
  if (!zeroed.ok()) zeroing_failed_ = true;
  return zeroed;
}

absl::StatusOr<BlockStart> Pool::Impl::TryOtherLifetimes(
    const Request& request) {
  const ArenaKey own = arenas_[request.arena]->key;
  for (const auto& arena : arenas_) {
    if (arena->index() == request.arena || arena->key.domain != own.domain ||
        arena->key.memory_class != own.memory_class) {
      continue;
    }
    Request elsewhere = request;
    elsewhere.kind = arena->key;
    elsewhere.arena = arena->index();
    const absl::StatusOr<BlockStart> start =
        TryPlace(elsewhere, Effort::kScattered);
    if (!absl::IsResourceExhausted(start.status())) return start;
  }
  return absl::ResourceExhaustedError("");
}

}  // namespace firn
