// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pinned_blocks.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// Reasons that a message names before it only counts.
constexpr size_t kReasonsNamed = 4;

}  // namespace

uint64_t PinnedBlocks::Add(const PinnedBlock& block, absl::string_view reason) {
  MutexLock lock(&mutex_);
  const uint64_t id = last_id_.load() + 1;
  last_id_.store(id);
  Entry& entry = entries_[block.key];
  entry.block = block;
  entry.reasons.emplace(id, std::string(reason));
  key_of_pin_.emplace(id, block.key);
  blocks_now_.store(entries_.size());
  return id;
}

void PinnedBlocks::Remove(uint64_t id) {
  MutexLock lock(&mutex_);
  const auto pin = key_of_pin_.find(id);
  if (pin == key_of_pin_.end()) return;
  const auto entry = entries_.find(pin->second);
  entry->second.reasons.erase(id);
  if (entry->second.reasons.empty()) entries_.erase(entry);
  key_of_pin_.erase(pin);
  blocks_now_.store(entries_.size());
  removals_.store(removals_.load() + 1);
}

std::string PinnedBlocks::ReasonsOf(uint64_t key) const {
  if (empty()) return "";
  MutexLock lock(&mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return "";
  std::vector<absl::string_view> reasons;
  for (const auto& [id, reason] : entry->second.reasons) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(reason);
    }
  }
  std::string text;
  for (size_t i = 0; i < reasons.size(); ++i) {
    if (i == kReasonsNamed) {
      absl::StrAppend(&text, " and ", reasons.size() - i, " more");
      break;
    }
    absl::StrAppend(&text, i > 0 ? ", " : "", "\"", reasons[i], "\"");
  }
  return text;
}

std::string PinnedBlocks::ReasonsOfPin(uint64_t id) const {
  uint64_t key = 0;
  {
    MutexLock lock(&mutex_);
    const auto pin = key_of_pin_.find(id);
    if (pin == key_of_pin_.end()) return "";
    key = pin->second;
  }
  return ReasonsOf(key);
}

std::string PinnedBlocks::Describe() const {
  std::vector<std::pair<uint64_t, std::string>> counts;
  {
    MutexLock lock(&mutex_);
    absl::btree_map<std::string, uint64_t> blocks_for;
    for (const auto& [key, entry] : entries_) {
      absl::btree_set<absl::string_view> reasons;
      for (const auto& [id, reason] : entry.reasons) reasons.insert(reason);
      for (const absl::string_view reason : reasons) {
        ++blocks_for[std::string(reason)];
      }
    }
    for (const auto& [reason, blocks] : blocks_for) {
      counts.emplace_back(blocks, reason);
    }
  }
  std::stable_sort(
      counts.begin(), counts.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i == kReasonsNamed) {
      absl::StrAppend(&text, " and ", counts.size() - i, " reasons more");
      break;
    }
    absl::StrAppend(&text, i > 0 ? ", " : "", counts[i].first, " blocks: \"",
                    counts[i].second, "\"");
  }
  return text;
}

std::vector<VgIndex> PinnedBlocks::PinnedVgs() const {
  std::vector<VgIndex> vgs;
  if (empty()) return vgs;
  MutexLock lock(&mutex_);
  for (const auto& [key, entry] : entries_) {
    const VgRange& range = entry.block.movable_vgs;
    for (uint32_t i = 0; i < range.count; ++i) vgs.push_back(range.first + i);
  }
  std::sort(vgs.begin(), vgs.end());
  vgs.erase(std::unique(vgs.begin(), vgs.end()), vgs.end());
  return vgs;
}

PinnedBlocks::Totals PinnedBlocks::totals() const {
  MutexLock lock(&mutex_);
  Totals totals;
  totals.blocks = entries_.size();
  for (const auto& [key, entry] : entries_) {
    totals.bytes += entry.block.bytes;
    totals.full_granules += entry.block.full_granules;
  }
  return totals;
}

}  // namespace firn
