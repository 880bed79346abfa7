// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/idle_account.h"

#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/launch_gate.h"

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

void IdleAccount::Declare(const LiveBlock& block, bool read_only) {
  Withdraw(block.content.ptr);
  ++declarations_;
  const Declared declared = {block.content.bytes, read_only};
  declared_.emplace(block.content.ptr, declared);
  Total& total = TotalOf(declared);
  ++total.blocks;
  total.bytes += declared.bytes;
}

void IdleAccount::Withdraw(const void* ptr) {
  const auto found = declared_.find(ptr);
  if (found == declared_.end()) return;
  Total& total = TotalOf(found->second);
  --total.blocks;
  total.bytes -= found->second.bytes;
  declared_.erase(found);
}

bool IdleAccount::IsReadOnly(const void* ptr) const {
  const auto found = declared_.find(ptr);
  return found != declared_.end() && found->second.read_only;
}

void IdleAccount::Activate(const LiveBlock& block) {
  if (!IsDeclared(block.content.ptr)) return;
  Withdraw(block.content.ptr);
  if (!is_in_pass_) return;
  must_stay_[block.content.ptr] = block.generation;
  ++rescued_;
}

void IdleAccount::BeginPass(Pool& pool, const std::vector<LiveBlock>& blocks) {
  is_in_pass_ = true;
  has_scopes_ = pool.launch_gate()->was_used();
  const PoolStats stats = pool.GetStats();
  closings_before_ = stats.gate_closings;
  const uint64_t granule_bytes = stats.granule_bytes;
  std::set<uintptr_t> busy_vgs;
  for (const LiveBlock& block : blocks) {
    if (MayMove(block.content.ptr)) continue;
    ForEachVg(block, granule_bytes, [&](uintptr_t vg) { busy_vgs.insert(vg); });
  }
  for (const LiveBlock& block : blocks) {
    // The rest of it may move.
    bool is_on_quiet_vg = false;
    ForEachVg(block, granule_bytes,
              [&](uintptr_t vg) { is_on_quiet_vg |= busy_vgs.count(vg) == 0; });
    if (is_on_quiet_vg) continue;
    // It may have moved earlier in the same operation.
    must_stay_[block.content.ptr] =
        pool.Generation(block.content.ptr).value_or(block.generation);
  }
}

absl::Status IdleAccount::EndPass(const Pool& pool, uint64_t moves) {
  is_in_pass_ = false;
  if (moves > 0) {
    ++passes_;
    if (pool.GetStats().gate_closings > closings_before_) ++gated_passes_;
  }
  moves_ += moves;
  absl::Status status;
  for (const auto& [ptr, generation] : must_stay_) {
    const absl::StatusOr<uint64_t> now = pool.Generation(ptr);
    if (!now.ok()) {
      status.Update(now.status());
    } else if (*now != generation) {
      status.Update(absl::InternalError(absl::StrCat(
          "a pass for declared memory has moved the block at 0x",
          absl::Hex(reinterpret_cast<uintptr_t>(ptr)),
          MayMove(ptr) ? ", which shares its virtual granules with those in use"
                       : ", which is in use")));
    }
  }
  must_stay_.clear();
  return status;
}

void IdleAccount::Removed(const LiveBlock& block) {
  must_stay_.erase(block.content.ptr);
  Withdraw(block.content.ptr);
}

absl::Status IdleAccount::AfterOperation(const Pool& /*pool*/,
                                         const PoolStats& stats,
                                         bool /*was_faulted*/) {
  absl::Status status;
  const auto expect = [&status](absl::string_view name, uint64_t blocks,
                                uint64_t bytes, const Total& wanted) {
    if (blocks == wanted.blocks && bytes == wanted.bytes) return;
    status.Update(absl::InternalError(
        absl::StrCat(name, ": ", blocks, " of ", bytes, " bytes instead of ",
                     wanted.blocks, " of ", wanted.bytes, " bytes")));
  };
  expect("idle_blocks", stats.idle_blocks, stats.idle_bytes, idle_);
  expect("read_only_blocks", stats.read_only_blocks, stats.read_only_bytes,
         read_only_);
  return status;
}

}  // namespace firn::testing::property
