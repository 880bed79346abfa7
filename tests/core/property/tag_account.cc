// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/tag_account.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {
namespace {

std::string Describe(const TagStats& stats) {
  return absl::StrCat(
      "tag ", static_cast<int>(stats.tag), " \"", stats.name,
      "\": ", stats.live_bytes, " bytes live in ", stats.live_allocations,
      " of ", stats.allocations, " allocations, at most ",
      stats.peak_live_bytes.has_value() ? absl::StrCat(*stats.peak_live_bytes)
                                        : "?");
}

}  // namespace

TagAccount::TagAccount() {
  TagStats untagged;
  untagged.name = "untagged";
  expected_.push_back(untagged);
}

absl::Status TagAccount::Register(absl::string_view name, Tag tag) {
  const auto known =
      std::find_if(expected_.begin(), expected_.end(),
                   [name](const TagStats& one) { return one.name == name; });
  const Tag expected = known == expected_.end() ? Unknown() : known->tag;
  if (tag != expected) {
    return absl::InternalError(
        absl::StrCat("RegisterTag(\"", name, "\"): ", static_cast<int>(tag),
                     " instead of ", static_cast<int>(expected)));
  }
  if (known != expected_.end()) return absl::OkStatus();
  TagStats stats;
  stats.tag = tag;
  stats.name = std::string(name);
  stats.peak_live_bytes = 0;
  expected_.push_back(stats);
  return absl::OkStatus();
}

Tag TagAccount::Pick(uint32_t number) const {
  if (number == 0 || expected_.size() == 1) return Tag::kUntagged;
  return expected_[1 + number % (expected_.size() - 1)].tag;
}

void TagAccount::Added(const LiveBlock& block) {
  TagStats& stats = expected_[static_cast<size_t>(block.tag)];
  ++stats.allocations;
  ++stats.live_allocations;
  stats.live_bytes += block.content.bytes;
  if (stats.peak_live_bytes.has_value()) {
    stats.peak_live_bytes = std::max(*stats.peak_live_bytes, stats.live_bytes);
  }
}

void TagAccount::Removed(const LiveBlock& block) {
  TagStats& stats = expected_[static_cast<size_t>(block.tag)];
  --stats.live_allocations;
  stats.live_bytes -= block.content.bytes;
}

absl::Status TagAccount::AfterOperation(const Pool& pool,
                                        const PoolStats& /*stats*/,
                                        bool /*was_faulted*/) {
  const std::vector<TagStats> stats = pool.GetTagStats();
  if (stats.size() != expected_.size()) {
    return absl::InternalError(absl::StrCat(
        "GetTagStats: ", stats.size(), " tags instead of ", expected_.size()));
  }
  for (size_t i = 0; i < stats.size(); ++i) {
    const TagStats& is = stats[i];
    const TagStats& must_be = expected_[i];
    if (is.tag != must_be.tag || is.name != must_be.name ||
        is.live_bytes != must_be.live_bytes ||
        is.live_allocations != must_be.live_allocations ||
        is.allocations != must_be.allocations ||
        is.peak_live_bytes != must_be.peak_live_bytes) {
      return absl::InternalError(absl::StrCat(
          "GetTagStats: ", Describe(is), "; instead of ", Describe(must_be)));
    }
  }
  return absl::OkStatus();
}

}  // namespace firn::testing::property
