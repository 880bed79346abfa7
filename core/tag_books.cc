// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/tag_books.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

constexpr absl::string_view kNameOfUntagged = "untagged";

// The part of a total that the tags leave: the total may be a moment old.
uint64_t Rest(uint64_t total, uint64_t part) {
  return total - std::min(total, part);
}

}  // namespace

absl::StatusOr<Tag> TagBooks::Register(absl::string_view name) {
  if (name.empty()) {
    return absl::InvalidArgumentError("name: empty; a tag needs a name");
  }
  if (name == kNameOfUntagged) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: \"", name,
                     "\" is what blocks without a tag are called; choose "
                     "another"));
  }
  const auto found = named_.find(name);
  if (found != named_.end()) return found->second;
  if (stats_.size() == kMostTags) {
    return absl::ResourceExhaustedError(
        absl::StrCat("name: \"", name, "\" would be tag ", kMostTags + 1,
                     " of at most ", kMostTags));
  }
  TagStats stats;
  stats.tag = static_cast<Tag>(stats_.size() + 1);
  stats.name = std::string(name);
  stats.peak_live_bytes = 0;
  stats_.push_back(stats);
  named_.emplace(stats.name, stats.tag);
  return stats.tag;
}

absl::Status TagBooks::Check(Tag tag) const {
  if (static_cast<size_t>(tag) <= stats_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tag: ", static_cast<int>(tag),
                                                 "; this pool has registered ",
                                                 stats_.size(), " tags"));
}

void TagBooks::Add(uint64_t key, Tag tag, uint64_t requested_bytes) {
  tag_of_.emplace(key, tag);
  TagStats& stats = stats_[static_cast<size_t>(tag) - 1];
  stats.live_bytes += requested_bytes;
  ++stats.live_allocations;
  ++stats.allocations;
  stats.peak_live_bytes = std::max(*stats.peak_live_bytes, stats.live_bytes);
}

void TagBooks::Erase(uint64_t key, uint64_t requested_bytes) {
  const auto found = tag_of_.find(key);
  if (found == tag_of_.end()) return;
  TagStats& stats = stats_[static_cast<size_t>(found->second) - 1];
  stats.live_bytes -= requested_bytes;
  --stats.live_allocations;
  tag_of_.erase(found);
}

std::vector<std::string> TagBooks::Names() const {
  std::vector<std::string> names = {std::string(kNameOfUntagged)};
  for (const TagStats& stats : stats_) names.push_back(stats.name);
  return names;
}

std::vector<TagStats> TagBooks::Stats(uint64_t live_bytes,
                                      uint64_t live_allocations,
                                      uint64_t allocations) const {
  TagStats untagged;
  untagged.name = std::string(kNameOfUntagged);
  TagStats tagged;
  for (const TagStats& stats : stats_) {
    tagged.live_bytes += stats.live_bytes;
    tagged.live_allocations += stats.live_allocations;
    tagged.allocations += stats.allocations;
  }
  untagged.live_bytes = Rest(live_bytes, tagged.live_bytes);
  untagged.live_allocations = Rest(live_allocations, tagged.live_allocations);
  untagged.allocations = Rest(allocations, tagged.allocations);
  std::vector<TagStats> all = {untagged};
  all.insert(all.end(), stats_.begin(), stats_.end());
  return all;
}

}  // namespace firn
