// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/domain_account.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn::testing::property {
namespace {

std::string Describe(const DomainStats& stats) {
  return absl::StrCat(
      "domain ", static_cast<uint32_t>(stats.id), " \"", stats.name, "\"",
      stats.is_closed ? ", closed" : "", ", limit ", stats.limit.hard_bytes,
      " and ", stats.limit.soft_bytes, ": ", stats.live_bytes,
      " bytes live in ", stats.live_allocations, " of ", stats.allocations,
      " allocations, ", stats.failed_allocations, " failed, on ",
      stats.used_bytes, " bytes of ", stats.mapped_bytes);
}

absl::Status Wrong(absl::string_view what) {
  return absl::InternalError(absl::StrCat("GetDomainStats: ", what));
}

}  // namespace

bool DomainAccount::MayBeTaken(absl::string_view name) const {
  return name == "default" ||
         std::any_of(entries_.begin(), entries_.end(), [name](const auto& one) {
           return one.second.expected.name == name;
         });
}

bool DomainAccount::IsTaken(absl::string_view name) const {
  return name == "default" ||
         std::any_of(entries_.begin(), entries_.end(), [name](const auto& one) {
           const DomainStats& stats = one.second.expected;
           // What nothing lives in may be gone, and may not.
           return stats.name == name &&
                  !(stats.is_closed && stats.live_allocations == 0);
         });
}

absl::Status DomainAccount::Add(Domain domain, const DomainOptions& options,
                                uint64_t granule_bytes) {
  const DomainId id = domain.id();
  if (static_cast<uint32_t>(id) <= last_id_) {
    return absl::InternalError(absl::StrCat(
        "CreateDomain: gave out ", static_cast<uint32_t>(id), " again"));
  }
  last_id_ = static_cast<uint32_t>(id);
  Entry& entry = entries_[id];
  entry.expected.id = id;
  entry.expected.name = options.name;
  open_.push_back(std::move(domain));
  SetLimit(id, options.limit, granule_bytes, /*mapped_bytes=*/0);
  return absl::OkStatus();
}

void DomainAccount::Close(uint32_t number) {
  if (open_.empty()) return;
  const auto closed =
      open_.begin() + static_cast<std::ptrdiff_t>(number % open_.size());
  entries_[closed->id()].expected.is_closed = true;
  open_.erase(closed);
}

DomainId DomainAccount::Pick(uint32_t number) const {
  if (number == 0 || entries_.empty()) return DomainId::kDefault;
  return std::next(entries_.begin(),
                   static_cast<std::ptrdiff_t>(number % entries_.size()))
      ->first;
}

bool DomainAccount::IsOpen(DomainId id) const {
  return id == DomainId::kDefault ||
         std::any_of(open_.begin(), open_.end(),
                     [id](const Domain& one) { return one.id() == id; });
}

void DomainAccount::CountFailedAllocation(DomainId id) {
  const auto found = entries_.find(id);
  if (found != entries_.end()) ++found->second.expected.failed_allocations;
}

void DomainAccount::SetLimit(DomainId id, const MemoryLimit& limit,
                             uint64_t granule_bytes, uint64_t mapped_bytes) {
  Entry& entry = entries_[id];
  entry.expected.limit = limit;
  entry.mapped.Limit(HardBytes(limit, granule_bytes, ~uint64_t{0}),
                     mapped_bytes);
}

uint64_t DomainAccount::HardLimitOf(DomainId id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? ~uint64_t{0}
                                 : found->second.mapped.most_bytes();
}

absl::Status DomainAccount::CheckGranules(const std::vector<LiveBlock>& blocks,
                                          uint64_t granule_bytes,
                                          CpuDriver* driver) {
  std::map<PhysicalHandle, const LiveBlock*> first_on;
  for (const LiveBlock& block : blocks) {
    const DevicePtr begin = reinterpret_cast<uintptr_t>(block.content.ptr);
    DevicePtr at = begin / granule_bytes * granule_bytes;
    for (; at < begin + block.content.bytes; at += granule_bytes) {
      PhysicalHandle handle = 0;
      absl::Status status =
          ToStatus(driver->MemRetainAllocationHandle(&handle, at),
                   "MemRetainAllocationHandle");
      if (!status.ok()) return status;
      status = ToStatus(driver->MemRelease(handle), "MemRelease");
      if (!status.ok()) return status;
      const LiveBlock& first = *first_on.emplace(handle, &block).first->second;
      if (&first == &block) continue;
      if (first.domain == block.domain &&
          first.memory_class == block.memory_class &&
          block.memory_class != MemoryClass::kExportable) {
        continue;
      }
      return absl::InternalError(absl::StrCat(
          "blocks of domains ", static_cast<uint32_t>(first.domain), " and ",
          static_cast<uint32_t>(block.domain), ", classes ",
          static_cast<int>(first.memory_class), " and ",
          static_cast<int>(block.memory_class), ", share a granule"));
    }
  }
  return absl::OkStatus();
}

void DomainAccount::Added(const LiveBlock& block) {
  const auto found = entries_.find(block.domain);
  if (found == entries_.end()) return;
  DomainStats& stats = found->second.expected;
  ++stats.allocations;
  ++stats.live_allocations;
  stats.live_bytes += block.content.bytes;
}

void DomainAccount::Removed(const LiveBlock& block) {
  const auto found = entries_.find(block.domain);
  if (found == entries_.end()) return;
  DomainStats& stats = found->second.expected;
  --stats.live_allocations;
  stats.live_bytes -= block.content.bytes;
}

absl::Status DomainAccount::CheckOne(const DomainStats& is, Entry* entry) {
  const DomainStats& must_be = entry->expected;
  if (is.name != must_be.name || is.is_closed != must_be.is_closed ||
      is.limit.hard_bytes != must_be.limit.hard_bytes ||
      is.limit.soft_bytes != must_be.limit.soft_bytes ||
      is.live_bytes != must_be.live_bytes ||
      is.live_allocations != must_be.live_allocations ||
      is.allocations != must_be.allocations ||
      is.failed_allocations != must_be.failed_allocations) {
    return Wrong(
        absl::StrCat(Describe(is), "; instead of ", Describe(must_be)));
  }
  if (is.used_bytes > is.mapped_bytes ||
      is.live_bytes > is.used_bytes + is.host_used_bytes) {
    return Wrong(Describe(is));
  }
  if (entry->mapped.Check(is.mapped_bytes)) return absl::OkStatus();
  return Wrong(absl::StrCat("beyond its limit: ", Describe(is)));
}

absl::Status DomainAccount::CheckSums(const std::vector<DomainStats>& all,
                                      const PoolStats& stats) {
  DomainStats sum;
  for (const DomainStats& each : all) {
    sum.live_bytes += each.live_bytes;
    sum.live_allocations += each.live_allocations;
    sum.used_bytes += each.used_bytes;
    sum.mapped_bytes += each.mapped_bytes;
    sum.host_used_bytes += each.host_used_bytes;
    sum.allocations += each.allocations;
    sum.failed_allocations += each.failed_allocations;
    sum.zeroed_bytes += each.zeroed_bytes;
  }
  const uint64_t accounted_bytes = sum.mapped_bytes + stats.cached_bytes;
  const bool adds_up =
      sum.live_bytes == stats.live_bytes &&
      sum.live_allocations == stats.live_allocations &&
      sum.used_bytes == stats.used_bytes &&
      sum.host_used_bytes == stats.host_used_bytes &&
      (may_be_retiring_ ? accounted_bytes <= stats.held_bytes
                        : accounted_bytes == stats.held_bytes) &&
      sum.allocations == stats.allocations &&
      sum.failed_allocations == stats.failed_allocations &&
      (have_some_gone_ ? sum.zeroed_bytes <= stats.zeroed_bytes
                       : sum.zeroed_bytes == stats.zeroed_bytes);
  may_be_retiring_ = may_be_retiring_ && accounted_bytes < stats.held_bytes;
  if (adds_up) return absl::OkStatus();
  return Wrong(absl::StrCat("they do not add up: ", Describe(sum), ", ",
                            sum.zeroed_bytes, " bytes zeroed\n",
                            stats.ToString()));
}

absl::Status DomainAccount::AfterOperation(const Pool& pool,
                                           const PoolStats& stats,
                                           bool was_faulted) {
  may_be_retiring_ = may_be_retiring_ || was_faulted;
  const std::vector<DomainStats> all = pool.GetDomainStats();
  if (all.empty() || all.front().id != DomainId::kDefault ||
      all.front().name != "default") {
    return Wrong("what is in no domain does not come first");
  }
  size_t found = 0;
  for (const DomainStats& each : all) {
    if (each.id == DomainId::kDefault) continue;
    const auto entry = entries_.find(each.id);
    if (entry == entries_.end()) return Wrong(Describe(each));
    const absl::Status status = CheckOne(each, &entry->second);
    if (!status.ok()) return status;
    ++found;
  }
  if (found != all.size() - 1) return Wrong("a domain appears twice");
  for (auto entry = entries_.begin();
       found < entries_.size() && entry != entries_.end();) {
    const auto one = entry++;
    const DomainId id = one->first;
    if (std::any_of(all.begin(), all.end(),
                    [id](const DomainStats& each) { return each.id == id; })) {
      continue;
    }
    const DomainStats& gone = one->second.expected;
    if (!gone.is_closed || gone.live_allocations > 0) {
      return Wrong(absl::StrCat("nothing of ", Describe(gone)));
    }
    entries_.erase(one);
    have_some_gone_ = true;
  }
  return CheckSums(all, stats);
}

void DomainAccount::LetGo() {
  while (!open_.empty()) Close(0);
}

}  // namespace firn::testing::property
