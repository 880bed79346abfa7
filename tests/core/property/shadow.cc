// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/shadow.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace firn::testing::property {
namespace {

constexpr size_t kFreedKept = 64;

absl::Status Same(absl::string_view name, uint64_t is, uint64_t expected) {
  if (is == expected) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(name, ": ", is, " instead of ", expected));
}

absl::Status AtMost(absl::string_view low_name, uint64_t low,
                    absl::string_view high_name, uint64_t high) {
  if (low <= high) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(low_name, ": ", low, ", more than ", high_name, ": ", high));
}

}  // namespace

std::string Difference(const PoolStats& before, const PoolStats& after) {
  const std::string text = before.ToString();
  const std::string new_text = after.ToString();
  if (text == new_text) return "";
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const std::vector<std::string> new_lines = absl::StrSplit(new_text, '\n');
  std::string difference;
  for (size_t i = 0; i < lines.size() && i < new_lines.size(); ++i) {
    if (lines[i] == new_lines[i]) continue;
    const std::pair<std::string, std::string> value =
        absl::StrSplit(new_lines[i], absl::MaxSplits(": ", 1));
    absl::StrAppend(&difference, difference.empty() ? "" : ", ", lines[i],
                    " -> ", value.second);
  }
  return difference;
}

absl::Status Shadow::Add(const LiveBlock& block) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(block.content.ptr);
  const auto after = by_address_.lower_bound(begin);
  const auto refusal = [&](const LiveBlock& other) {
    return absl::InternalError(
        absl::StrCat("Allocate: 0x", absl::Hex(begin), " + ",
                     block.content.bytes, " overlaps the live block at 0x",
                     absl::Hex(reinterpret_cast<uintptr_t>(other.content.ptr)),
                     " + ", other.content.bytes));
  };
  if (after != by_address_.end() &&
      after->first < begin + block.content.bytes) {
    return refusal(blocks_[after->second]);
  }
  if (after != by_address_.begin()) {
    const auto before = std::prev(after);
    if (before->first + blocks_[before->second].content.bytes > begin) {
      return refusal(blocks_[before->second]);
    }
  }
  by_address_.emplace_hint(after, begin, blocks_.size());
  blocks_.push_back(block);
  ++expected_.allocations;
  ++expected_.live_allocations;
  expected_.live_bytes += block.content.bytes;
  expected_.peak_live_bytes =
      std::max(expected_.peak_live_bytes, expected_.live_bytes);
  return absl::OkStatus();
}

LiveBlock* Shadow::Find(const void* ptr) {
  const auto found = by_address_.find(reinterpret_cast<uintptr_t>(ptr));
  return found == by_address_.end() ? nullptr : &blocks_[found->second];
}

void Shadow::Remove(size_t index) {
  void* const ptr = blocks_[index].content.ptr;
  ++expected_.frees;
  --expected_.live_allocations;
  expected_.live_bytes -= blocks_[index].content.bytes;
  by_address_.erase(reinterpret_cast<uintptr_t>(ptr));
  if (index + 1 != blocks_.size()) {
    blocks_[index] = blocks_.back();
    by_address_[reinterpret_cast<uintptr_t>(blocks_[index].content.ptr)] =
        index;
  }
  blocks_.pop_back();
  freed_.push_back(ptr);
  if (freed_.size() > kFreedKept) freed_.pop_front();
}

std::vector<FilledBlock> Shadow::Contents() const {
  std::vector<FilledBlock> contents;
  contents.reserve(blocks_.size());
  for (const LiveBlock& block : blocks_) contents.push_back(block.content);
  return contents;
}

absl::Status Shadow::CheckFigures(const PoolStats& stats) {
  absl::Status status;
  const auto same = [&](absl::string_view name, uint64_t is, uint64_t value) {
    status.Update(Same(name, is, value));
  };
  same("live_bytes", stats.live_bytes, expected_.live_bytes);
  same("live_allocations", stats.live_allocations, expected_.live_allocations);
  same("peak_live_bytes", stats.peak_live_bytes, expected_.peak_live_bytes);
  same("allocations", stats.allocations, expected_.allocations);
  same("frees", stats.frees, expected_.frees);
  same("failed_allocations", stats.failed_allocations,
       expected_.failed_allocations);
  same("refused_frees", stats.refused_frees, expected_.refused_frees);
  same("handles_created - handles_released",
       (stats.handles_created - stats.handles_released) * stats.granule_bytes,
       stats.held_bytes + stats.host_held_bytes);

  const auto at_most = [&](absl::string_view low_name, uint64_t low,
                           absl::string_view high_name, uint64_t high) {
    status.Update(AtMost(low_name, low, high_name, high));
  };
  at_most("live_bytes", stats.live_bytes, "used_bytes and host_used_bytes",
          stats.used_bytes + stats.host_used_bytes);
  at_most("spilled_bytes", stats.spilled_bytes, "host_used_bytes",
          stats.host_used_bytes);
  at_most("host_used_bytes", stats.host_used_bytes, "host_held_bytes",
          stats.host_held_bytes);
  at_most("host_held_bytes", stats.host_held_bytes, "host_limit_bytes",
          stats.host_limit_bytes);
  at_most("spillable_bytes", stats.spillable_bytes, "idle_bytes",
          stats.idle_bytes);
  at_most("used_bytes", stats.used_bytes, "held_bytes", stats.held_bytes);
  at_most("held_bytes", stats.held_bytes, "capacity_bytes",
          stats.capacity_bytes);
  at_most("held_bytes less cached_bytes", stats.held_bytes - stats.cached_bytes,
          "mapped bytes", stats.mapped_vgs * stats.granule_bytes);
  at_most("exportable_bytes", stats.exportable_bytes, "held_bytes",
          stats.held_bytes);
  at_most("cached_bytes", stats.cached_bytes, "held_bytes less used_bytes",
          stats.held_bytes - stats.used_bytes);
  at_most("live_vgs", stats.live_vgs, "mapped_vgs", stats.mapped_vgs);
  at_most("live granules", stats.used_bytes / stats.granule_bytes, "live_vgs",
          stats.live_vgs);
  at_most("partial_granules", stats.partial_granules, "used granules",
          stats.used_bytes / stats.granule_bytes);
  at_most("used_bytes", stats.used_bytes, "peak_used_bytes",
          stats.peak_used_bytes);
  // What a failed allocation created in vain, and could not give back, is not
  // among the peaks.
  at_most("held_bytes less cached_bytes", stats.held_bytes - stats.cached_bytes,
          "peak_held_bytes", stats.peak_held_bytes);
  at_most("mapped_vgs", stats.mapped_vgs, "peak_mapped_vgs",
          stats.peak_mapped_vgs);
  at_most("failed_passes", stats.failed_passes, "compaction_passes",
          stats.compaction_passes);

  const PoolStats& last = last_stats_;
  const auto grows = [&](absl::string_view name, uint64_t was, uint64_t is) {
    status.Update(AtMost(absl::StrCat(name, " before"), was, name, is));
  };
  grows("compaction_passes", last.compaction_passes, stats.compaction_passes);
  grows("failed_passes", last.failed_passes, stats.failed_passes);
  grows("granules_moved", last.granules_moved, stats.granules_moved);
  grows("granules_recovered", last.granules_recovered,
        stats.granules_recovered);
  grows("granules_spilled", last.granules_spilled, stats.granules_spilled);
  grows("granules_returned", last.granules_returned, stats.granules_returned);
  grows("bytes_copied", last.bytes_copied, stats.bytes_copied);
  grows("zeroed_bytes", last.zeroed_bytes, stats.zeroed_bytes);
  grows("possibly_held_elsewhere", last.possibly_held_elsewhere,
        stats.possibly_held_elsewhere);
  grows("handles_created", last.handles_created, stats.handles_created);
  grows("handles_released", last.handles_released, stats.handles_released);
  grows("gate_closings", last.gate_closings, stats.gate_closings);
  grows("scope_tokens", last.scope_tokens, stats.scope_tokens);
  grows("device_waits", last.device_waits, stats.device_waits);
  last_stats_ = stats;
  return status;
}

}  // namespace firn::testing::property
