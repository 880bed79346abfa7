// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/shared_budget.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

absl::Status CheckLimit(uint64_t limit_bytes) {
  if (limit_bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "limit_bytes of a shared budget is 0: it must be above 0");
}

}  // namespace

SharedBudget::SharedBudget(uint64_t limit_bytes)
    : ceiling_bytes_(limit_bytes), limit_bytes_(limit_bytes) {}

absl::StatusOr<std::shared_ptr<SharedBudget>> SharedBudget::Create(
    uint64_t limit_bytes) {
  if (absl::Status status = CheckLimit(limit_bytes); !status.ok()) {
    return status;
  }
  return std::shared_ptr<SharedBudget>(new SharedBudget(limit_bytes));
}

absl::Status SharedBudget::SetLimit(uint64_t limit_bytes) {
  if (absl::Status status = CheckLimit(limit_bytes); !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  limit_bytes_.store(limit_bytes, std::memory_order_relaxed);
  ceiling_bytes_ = std::max(limit_bytes, held_bytes());
  return absl::OkStatus();
}

uint64_t SharedBudget::room_bytes() const {
  const uint64_t limit = limit_bytes();
  return limit - std::min(limit, held_bytes());
}

// --- Members ---

SharedBudget::Entry* SharedBudget::Find(const Member* member) {
  return &*std::find_if(
      entries_.begin(), entries_.end(),
      [member](const Entry& entry) { return entry.member == member; });
}

void SharedBudget::Join(Member* member) {
  Entry entry;
  entry.member = member;
  MutexLock lock(&mutex_);
  entries_.push_back(entry);
}

void SharedBudget::StopAsking(Member* member) {
  MutexLock lock(&mutex_);
  Find(member)->asked = false;
  while (Find(member)->calls > 0) asked_.Wait(&mutex_);
}

void SharedBudget::Leave(Member* member) {
  MutexLock lock(&mutex_);
  Entry* const entry = Find(member);
  Return(entry, entry->held_bytes);
  entries_.erase(entries_.begin() + (entry - entries_.data()));
}

uint64_t SharedBudget::Take(Member* member, uint64_t unit_bytes,
                            uint64_t most_units) {
  if (most_units == 0) return 0;
  MutexLock lock(&mutex_);
  const uint64_t units = std::min(most_units, room_bytes() / unit_bytes);
  Find(member)->held_bytes += units * unit_bytes;
  held_bytes_.store(held_bytes() + units * unit_bytes,
                    std::memory_order_relaxed);
  return units;
}

void SharedBudget::Return(Entry* entry, uint64_t bytes) {
  entry->held_bytes -= bytes;
  const uint64_t held = held_bytes() - bytes;
  held_bytes_.store(held, std::memory_order_relaxed);
  ceiling_bytes_ = std::max(limit_bytes(), std::min(ceiling_bytes_, held));
}

void SharedBudget::Give(Member* member, uint64_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  Return(Find(member), bytes);
}

uint64_t SharedBudget::held_bytes_of(const Member* member) const {
  MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (entry.member == member) return entry.held_bytes;
  }
  return 0;
}

// --- Reclaiming ---

uint64_t SharedBudget::LackingBytes(uint64_t wanted_bytes) const {
  MutexLock lock(&mutex_);
  const uint64_t needed = held_bytes() + wanted_bytes;
  return needed - std::min(needed, limit_bytes());
}

std::vector<SharedBudget::Member*> SharedBudget::BeginAsking(
    const Member* requester) {
  std::vector<Member*> members;
  {
    MutexLock lock(&mutex_);
    for (Entry& entry : entries_) {
      if (!entry.asked || entry.member == requester) continue;
      ++entry.calls;
      members.push_back(entry.member);
    }
  }
  std::vector<std::pair<uint64_t, Member*>> by_cache;
  by_cache.reserve(members.size());
  for (Member* const member : members) {
    by_cache.emplace_back(member->CachedBytes(), member);
  }
  std::stable_sort(
      by_cache.begin(), by_cache.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < members.size(); ++i) members[i] = by_cache[i].second;
  return members;
}

void SharedBudget::EndAsking(const std::vector<Member*>& members) {
  MutexLock lock(&mutex_);
  for (const Member* const member : members) --Find(member)->calls;
  asked_.SignalAll();
}

bool SharedBudget::Reclaim(const Member* requester, uint64_t wanted_bytes) {
  if (LackingBytes(wanted_bytes) == 0) return true;
  const std::vector<Member*> members = BeginAsking(requester);
  bool any = false;
  for (Member* const member : members) {
    const uint64_t lacking = LackingBytes(wanted_bytes);
    if (lacking == 0) break;
    any = member->ReleaseCachedBytes(lacking) || any;
  }
  for (Member* const member : members) {
    uint64_t lacking = LackingBytes(wanted_bytes);
    if (lacking == 0) break;
    if (!member->AskOwnerForBytes(lacking)) continue;
    any = true;
    lacking = LackingBytes(wanted_bytes);
    if (lacking > 0) member->ReleaseCachedBytes(lacking);
  }
  EndAsking(members);
  return any || LackingBytes(wanted_bytes) == 0;
}

void SharedBudget::ReleaseExcess() {
  Reclaim(/*requester=*/nullptr, /*wanted_bytes=*/0);
}

absl::Status SharedBudget::CheckInvariants() const {
  MutexLock lock(&mutex_);
  uint64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.held_bytes;
  if (sum != held_bytes()) {
    return absl::InternalError(absl::StrCat("I9: ", held_bytes(),
                                            " bytes of a shared budget held, ",
                                            sum, " by its members"));
  }
  if (held_bytes() > ceiling_bytes_) {
    return absl::InternalError(
        absl::StrCat("I9: ", held_bytes(), " bytes of a shared budget held, ",
                     "limit ", limit_bytes(), ", ceiling ", ceiling_bytes_));
  }
  return absl::OkStatus();
}

}  // namespace firn
