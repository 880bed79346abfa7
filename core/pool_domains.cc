// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Isolation domains and limits.

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/core/pool_impl.h"
#include "firn/core/pool_spiller.h"

namespace firn {

absl::StatusOr<GranuleLimit> Pool::Impl::ToGranules(MemoryLimit limit) const {
  const absl::Status valid = limit.Validate(options_.capacity_bytes);
  if (!valid.ok()) return valid;
  GranuleLimit granules;
  for (const auto& [name, bytes, result] :
       {std::make_tuple("hard_bytes", limit.hard_bytes, &granules.hard),
        std::make_tuple("soft_bytes", limit.soft_bytes, &granules.soft)}) {
    if (bytes == 0) continue;
    if (bytes < granule_bytes_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limit.", name, ": ", bytes, "; must be 0 or at least a granule of ",
          granule_bytes_, " bytes"));
    }
    *result = static_cast<uint32_t>(bytes / granule_bytes_);
  }
  granules.hard = std::min(granules.hard, store_.most_budget_granules());
  granules.soft = std::min(granules.soft, granules.hard);
  return granules;
}

// --- Limits ---

absl::Status Pool::Impl::SetLimit(MemoryLimit limit) {
  const absl::StatusOr<GranuleLimit> granules = ToGranules(limit);
  if (!granules.ok()) return granules.status();
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  limit_ = *granules;
  ForgetFailures();
  SetGrowth(/*may_exceed_soft_limits=*/false);
  std::optional<ScopedRelaxedCapture> relaxed;  // in a capture
  const absl::Status entered = EnterCall(nullptr, is_inside, &relaxed);
  if (!entered.ok()) return entered;
  if (store_.held_granules() <= limit_.soft || !may_wait_) {
    return absl::OkStatus();
  }
  // What is idle beyond the limit goes at once.
  absl::Status status = ReleaseFreed();
  if (status.ok()) status = TrimTo(limit_.soft).status();
  if (!status.ok()) IsolateLost();
  return status;
}

void Pool::Impl::SetGrowth(bool may_exceed_soft_limits) {
  may_exceed_soft_limits_ = may_exceed_soft_limits;
  store_.SetBudget(may_exceed_soft_limits ? limit_.hard : limit_.soft)
      .IgnoreError();
}

absl::Status Pool::Impl::SetDomainLimit(DomainId domain, MemoryLimit limit) {
  const absl::StatusOr<GranuleLimit> granules = ToGranules(limit);
  if (!granules.ok()) return granules.status();
  MutexLock lock(&mutex_);
  const auto found = domain_records_.find(domain);
  if (found == domain_records_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("domain: ", static_cast<uint32_t>(domain),
                     " is none that was created in this pool"));
  }
  found->second.limit = *granules;
  found->second.stats.limit = limit;
  ForgetFailures();
  return absl::OkStatus();
}

void Pool::Impl::ForgetFailures() {
  failures_.Clear();
  frees_at_empty_pass_ = ~uint64_t{0};
  for (auto& [id, record] : domain_records_) {
    record.frees_at_empty_pass = ~uint64_t{0};
  }
  frees_at_failed_hole_ = ~uint64_t{0};
}

void Pool::Impl::SetQuota(Arena* arena) {
  const auto found = domain_records_.find(arena->key.domain);
  if (found == domain_records_.end()) return;
  const GranuleLimit& limit = found->second.limit;
  uint32_t quota = may_exceed_soft_limits_ ? limit.hard : limit.soft;
  for (const auto& other : arenas_) {
    if (other.get() == arena || other->key.domain != arena->key.domain) {
      continue;
    }
    quota -= std::min(quota, other->books.mapped_granules());
  }
  arena->backing.set_quota_granules(quota);
}

absl::string_view Pool::Impl::FindLimitBelow(const Request& request) const {
  if (request.bytes > GranulesToBytes(limit_.hard)) {
    return limit_.hard == store_.most_budget_granules()
               ? "more than the capacity"
               : "more than the limit";
  }
  if (request.arena == 0) return "";
  const auto found = domain_records_.find(arenas_[request.arena]->key.domain);
  return found != domain_records_.end() &&
                 request.bytes > GranulesToBytes(found->second.limit.hard)
             ? "more than the limit of its domain"
             : "";
}

bool Pool::Impl::HasSoftLimit(const Request& request) const {
  if (limit_.soft < limit_.hard) return true;
  const auto found = domain_records_.find(arenas_[request.arena]->key.domain);
  return found != domain_records_.end() &&
         found->second.limit.soft < found->second.limit.hard;
}

void Pool::Impl::ShrinkToSoftLimit() {
  if (!may_wait_ || graph_pools_.any_open()) return;
  const uint32_t held = store_.held_granules();
  // Unmapping would wait for the device: that is left to calls that do so.
  if (!has_unconfirmed_frees_) {
    DissolveParked();
    if (!UnmapEmpty(held - limit_.soft).ok()) IsolateLost();
  }
  store_.ReleaseCached(limit_.soft).IgnoreError();
}

// --- Domains ---

absl::StatusOr<Domain> Pool::Impl::CreateDomain(const DomainOptions& options) {
  const absl::StatusOr<GranuleLimit> limit = ToGranules(options.limit);
  if (!limit.ok()) return limit.status();
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  std::optional<ScopedRelaxedCapture> relaxed;  // in a capture
  const absl::Status entered = EnterCall(nullptr, is_inside, &relaxed);
  if (!entered.ok()) return entered;
  CollectClosedDomains();
  const absl::StatusOr<DomainId> id = domains_->Open(options.name);
  if (!id.ok()) return id.status();
  for (const auto& arena : arenas_) arena->backing.KeepDomainsApart();
  DomainRecord& record = domain_records_[*id];
  record.limit = *limit;
  record.stats.id = *id;
  record.stats.name = options.name;
  record.stats.limit = options.limit;
  return Domain(domains_, *id);
}

void Pool::Impl::CollectClosedDomains() {
  Spiller(this).ReleaseLeft();
  for (const DomainId id : domains_->Closed()) {
    bool is_empty = true;
    for (const auto& arena : arenas_) {
      if (arena->key.domain != id) continue;
      DissolveParked(arena.get());
      // It stays for another time where it cannot be unmapped now.
      if (!arena->backing.UnmapEmpty().ok()) IsolateLost();
      if (arena->books.mapped_granules() > 0 ||
          arena->books.mapped_host_granules() > 0 || arena->is_in_pass) {
        is_empty = false;
      }
    }
    if (!is_empty) continue;
    for (const auto& arena : arenas_) {
      if (arena->key.domain == id) arena->is_vacant = true;
    }
    domain_records_.erase(id);
    domains_->Forget(id);
  }
}

void Pool::Impl::CountDomainBlock(const Arena& arena, uint64_t bytes) {
  const auto found = domain_records_.find(arena.key.domain);
  if (found == domain_records_.end()) return;
  DomainStats& stats = found->second.stats;
  stats.live_bytes += bytes;
  ++stats.live_allocations;
  ++stats.allocations;
}

void Pool::Impl::UncountDomainBlock(const Arena& arena, uint64_t bytes) {
  const auto found = domain_records_.find(arena.key.domain);
  if (found == domain_records_.end()) return;
  found->second.stats.live_bytes -= bytes;
  --found->second.stats.live_allocations;
}

void Pool::Impl::CountFailure(const Request& request) {
  RecordFailure(request.bytes, request.stream, request.tag);
  ++stats_.failed_allocations;
  const DomainId domain = request.kind.domain;
  if (domain == DomainId::kDefault) return;
  const auto found = domain_records_.find(domain);
  if (found != domain_records_.end()) {
    ++found->second.stats.failed_allocations;
  }
}

std::string Pool::Impl::DescribeLimits(const Request& request) const {
  std::string text;
  if (limit_.hard < store_.most_budget_granules()) {
    absl::StrAppend(&text, ", limit ", GranulesToBytes(limit_.hard));
  }
  const Arena& arena = *arenas_[request.arena];
  const auto found = domain_records_.find(arena.key.domain);
  if (found == domain_records_.end()) return text;
  uint64_t mapped_granules = 0;
  for (const auto& other : arenas_) {
    if (other->key.domain == arena.key.domain) {
      mapped_granules += other->books.mapped_granules();
    }
  }
  absl::StrAppend(&text, ", domain \"", found->second.stats.name, "\" has ",
                  GranulesToBytes(mapped_granules));
  if (found->second.limit.hard < store_.most_budget_granules()) {
    absl::StrAppend(&text, " of its limit of ",
                    GranulesToBytes(found->second.limit.hard));
  }
  return text;
}

std::vector<DomainStats> Pool::Impl::GetDomainStats() const {
  MutexLock lock(&mutex_);
  const CacheTotals cached = caches_.totals();
  std::vector<DomainStats> all(1);
  DomainStats& in_none = all.front();
  in_none.name = domains_->NameOf(DomainId::kDefault);
  in_none.live_bytes = LiveBytes();
  in_none.live_allocations =
      stats_.live_allocations + cached.allocations - cached.frees;
  in_none.allocations = stats_.allocations + cached.allocations;
  in_none.failed_allocations = stats_.failed_allocations;
  for (const auto& [id, record] : domain_records_) all.push_back(record.stats);
  std::sort(
      all.begin(), all.end(),
      [](const DomainStats& a, const DomainStats& b) { return a.id < b.id; });
  for (DomainStats& stats : all) {
    for (const auto& arena : arenas_) {
      if (arena->key.domain != stats.id) continue;
      stats.used_bytes += GranulesToBytes(arena->books.used_granules());
      stats.mapped_bytes += GranulesToBytes(arena->books.mapped_granules());
      stats.host_used_bytes +=
          GranulesToBytes(arena->books.used_host_granules());
      stats.zeroed_bytes += GranulesToBytes(arena->backing.zeroed_granules());
    }
    if (stats.id == DomainId::kDefault) continue;
    stats.is_closed = !domains_->CheckOpen(stats.id).ok();
    // What is in none is what is left.
    DomainStats& rest = all.front();
    rest.live_bytes -= std::min(rest.live_bytes, stats.live_bytes);
    rest.live_allocations -= stats.live_allocations;
    rest.allocations -= stats.allocations;
    rest.failed_allocations -= stats.failed_allocations;
  }
  return all;
}

}  // namespace firn
