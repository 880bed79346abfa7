// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/idle_account.h"

#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace firn::testing::property {
namespace {

// Calls `visit` with the number of each virtual granule that the block touches.
template <typename Visit>
void ForEachVg(const LiveBlock& block, uint64_t granule_bytes, Visit visit) {
  const auto begin = reinterpret_cast<uintptr_t>(block.content.ptr);
  const uintptr_t last = begin + block.content.bytes - 1;
  for (uintptr_t vg = begin / granule_bytes; vg <= last / granule_bytes; ++vg) {
    visit(vg);
  }
}

}  // namespace

void IdleAccount::Declare(const LiveBlock& block) {
  ++declared_;
  if (idle_.emplace(block.content.ptr, block.content.bytes).second) {
    idle_bytes_ += block.content.bytes;
  }
}

void IdleAccount::Activate(const LiveBlock& block) {
  const auto found = idle_.find(block.content.ptr);
  if (found == idle_.end()) return;
  idle_bytes_ -= found->second;
  idle_.erase(found);
  if (!is_in_pass_) return;
  must_stay_[block.content.ptr] = block.generation;
  ++rescued_;
}

void IdleAccount::BeginPass(const Pool& pool,
                            const std::vector<LiveBlock>& blocks) {
  is_in_pass_ = true;
  const uint64_t granule_bytes = pool.GetStats().granule_bytes;
  std::set<uintptr_t> busy_vgs;
  for (const LiveBlock& block : blocks) {
    if (IsIdle(block.content.ptr)) continue;
    ForEachVg(block, granule_bytes, [&](uintptr_t vg) { busy_vgs.insert(vg); });
  }
  for (const LiveBlock& block : blocks) {
    bool is_on_busy_vg = false;
    ForEachVg(block, granule_bytes,
              [&](uintptr_t vg) { is_on_busy_vg |= busy_vgs.count(vg) > 0; });
    if (!is_on_busy_vg) continue;
    // It may have moved earlier in the same operation.
    must_stay_[block.content.ptr] =
        pool.Generation(block.content.ptr).value_or(block.generation);
  }
}

absl::Status IdleAccount::EndPass(const Pool& pool, uint64_t moves) {
  is_in_pass_ = false;
  if (moves > 0) ++passes_;
  moves_ += moves;
  absl::Status status;
  for (const auto& [ptr, generation] : must_stay_) {
    const absl::StatusOr<uint64_t> now = pool.Generation(ptr);
    if (!now.ok()) {
      status.Update(now.status());
    } else if (*now != generation) {
      status.Update(absl::InternalError(absl::StrCat(
          "a pass for idle memory has moved the block at 0x",
          absl::Hex(reinterpret_cast<uintptr_t>(ptr)),
          IsIdle(ptr) ? ", which shares its virtual granule with one in use"
                      : ", which is in use")));
    }
  }
  must_stay_.clear();
  return status;
}

void IdleAccount::Removed(const LiveBlock& block) {
  must_stay_.erase(block.content.ptr);
  const auto found = idle_.find(block.content.ptr);
  if (found == idle_.end()) return;
  idle_bytes_ -= found->second;
  idle_.erase(found);
}

absl::Status IdleAccount::AfterOperation(const Pool& /*pool*/,
                                         const PoolStats& stats,
                                         bool /*was_faulted*/) {
  if (stats.idle_blocks == idle_.size() && stats.idle_bytes == idle_bytes_) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "idle_blocks: ", stats.idle_blocks, " of ", stats.idle_bytes,
      " bytes instead of ", idle_.size(), " of ", idle_bytes_, " bytes"));
}

}  // namespace firn::testing::property
