// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/graph_pools.h"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// Blocks looked at by one call of Take.
constexpr size_t kMostLooks = 16;

std::string NameOf(GraphPoolId id) {
  return absl::StrCat("graph-private pool ", static_cast<uint64_t>(id));
}

}  // namespace

// --- Pools ---

absl::Status GraphPools::Begin(GraphPoolId id,
                               absl::Span<const uint64_t> stream_ids,
                               uint64_t thread) {
  const auto found = pools_.find(id);
  if (found != pools_.end() && found->second.is_open) {
    return absl::FailedPreconditionError(
        absl::StrCat("id: ", NameOf(id),
                     " is open already; call EndPool first, or use another "
                     "id"));
  }
  std::vector<User> users;
  for (const uint64_t stream_id : stream_ids) {
    User user;
    user.number = stream_id;
    users.push_back(user);
  }
  if (users.empty()) {
    User user;
    user.is_thread = true;
    user.number = thread;
    users.push_back(user);
  }
  for (const User& user : users) {
    const auto other = users_.find(user);
    if (other == users_.end()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        user.is_thread ? "id: the calling thread" : "streams: one of them",
        " has ", NameOf(other->second), " open, so not ", NameOf(id),
        "; call EndPool for that one first"));
  }
  for (const User& user : users) users_[user] = id;
  GraphPool& pool = pools_[id];
  pool.is_open = true;
  ++pool.uses;
  return absl::OkStatus();
}

absl::Status GraphPools::End(GraphPoolId id) {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.is_open) {
    return absl::FailedPreconditionError(
        absl::StrCat("id: ", NameOf(id), " is not open; BeginPool opens it"));
  }
  found->second.is_open = false;
  for (auto user = users_.begin(); user != users_.end();) {
    user = user->second == id ? users_.erase(user) : std::next(user);
  }
  return absl::OkStatus();
}

absl::Status GraphPools::Release(GraphPoolId id) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "id: there is no ", NameOf(id),
        "; release each BeginPool once, and none that was not called"));
  }
  GraphPool& pool = found->second;
  if (pool.uses > 1) {
    --pool.uses;
    return absl::OkStatus();
  }
  if (pool.is_open) {
    return absl::FailedPreconditionError(
        absl::StrCat("id: ", NameOf(id),
                     " is open, and this is its last use; call EndPool "
                     "first"));
  }
  for (const auto& [shelf, blocks] : pool.kept) Retire(blocks);
  Retire(pool.set_aside);
  // The order of the shelves is not always the same.
  std::sort(retired_.begin(), retired_.end(),
            [](const FreedBlock& a, const FreedBlock& b) {
              return std::make_tuple(a.start.vg.value(),
                                     a.start.offset_quanta) <
                     std::make_tuple(b.start.vg.value(), b.start.offset_quanta);
            });
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    const auto this_block = at++;
    if (this_block->second.pool != id) continue;
    live_bytes_ -= this_block->second.requested_bytes;
    blocks_.erase(this_block);
  }
  pools_.erase(found);
  return absl::OkStatus();
}

void GraphPools::Retire(const std::vector<KeptBlock>& blocks) {
  for (const KeptBlock& kept : blocks) {
    blocks_.erase(kept.key);
    kept_bytes_ -= kept.block.bytes;
    retired_bytes_ += kept.block.bytes;
    ++retired_total_;
    retired_.push_back(kept.block);
  }
}

std::string GraphPools::OpenPools() const {
  std::string first;
  uint64_t count = 0;
  for (const auto& [id, pool] : pools_) {
    if (!pool.is_open) continue;
    if (count++ == 0) first = NameOf(id);
  }
  return count > 1 ? absl::StrCat(first, " and ", count - 1, " more") : first;
}

std::optional<GraphOwner> GraphPools::OwnerFor(uint64_t stream_id,
                                               uint64_t thread) const {
  User user;
  user.number = stream_id;
  auto found = users_.find(user);
  if (found == users_.end()) {
    user.is_thread = true;
    user.number = thread;
    found = users_.find(user);
  }
  if (found == users_.end()) return std::nullopt;
  GraphOwner owner;
  owner.pool = found->second;
  owner.stream_id = stream_id;
  return owner;
}

// --- Blocks ---

void GraphPools::Add(GraphPoolId id, uint64_t key, uint64_t requested_bytes) {
  Block block;
  block.pool = id;
  block.requested_bytes = requested_bytes;
  const bool is_new = blocks_.emplace(key, block).second;
  assert(is_new);
  if (is_new) live_bytes_ += requested_bytes;
}

void GraphPools::NoteUse(uint64_t key, uint64_t stream_id) {
  Block& block = blocks_.find(key)->second;
  block.used_on = block.used_on == 0 || block.used_on == stream_id
                      ? stream_id
                      : kSeveralStreams;
}

void GraphPools::Keep(uint64_t key, const FreedBlock& freed, uint64_t address,
                      uint64_t stream_id) {
  Block& block = blocks_.find(key)->second;
  assert(!block.is_kept);
  block.is_kept = true;
  live_bytes_ -= block.requested_bytes;
  kept_bytes_ += freed.bytes;
  KeptBlock kept;
  kept.key = key;
  kept.address = address;
  kept.block = freed;
  GraphPool& pool = pools_[block.pool];
  const bool is_ordered = block.used_on == 0 || block.used_on == stream_id;
  std::vector<KeptBlock>& list =
      is_ordered ? pool.kept[Shelf(stream_id, freed.arena, freed.quanta)]
                 : pool.set_aside;
  list.push_back(kept);
}

std::optional<BlockStart> GraphPools::Take(const GraphOwner& owner,
                                           ArenaIndex arena, uint64_t quanta,
                                           uint64_t alignment_bytes,
                                           uint64_t requested_bytes) {
  GraphPool& pool = pools_[owner.pool];
  const auto found = pool.kept.find(Shelf(owner.stream_id, arena, quanta));
  if (found == pool.kept.end()) return std::nullopt;
  std::vector<KeptBlock>& list = found->second;
  const size_t end = list.size() > kMostLooks ? list.size() - kMostLooks : 0;
  for (size_t i = list.size(); i-- > end;) {
    const KeptBlock kept = list[i];
    if (kept.address % alignment_bytes != 0) continue;
    list.erase(list.begin() + static_cast<ptrdiff_t>(i));
    Block& block = blocks_.find(kept.key)->second;
    block.is_kept = false;
    block.used_on = 0;
    block.requested_bytes = requested_bytes;
    kept_bytes_ -= kept.block.bytes;
    live_bytes_ += requested_bytes;
    return kept.block.start;
  }
  return std::nullopt;
}

std::vector<BlockStart> GraphPools::TakeRetired() {
  std::vector<BlockStart> starts;
  starts.reserve(retired_.size());
  for (const FreedBlock& block : retired_) starts.push_back(block.start);
  retired_.clear();
  retired_bytes_ = 0;
  return starts;
}

// --- Invariants ---

absl::Status GraphPools::CheckInvariants(
    absl::FunctionRef<bool(const FreedBlock& block)> holds_place) const {
  uint64_t kept_bytes = 0;
  uint64_t kept_blocks = 0;
  uint64_t retired_bytes = 0;
  const auto check = [&](const FreedBlock& block) {
    return holds_place(block)
               ? absl::OkStatus()
               : absl::InternalError(absl::StrCat(
                     "I12: the place of a freed block of a graph-private pool "
                     "is not occupied: ",
                     block.bytes, " bytes on virtual granule ",
                     block.start.vg.value(), " at quantum ",
                     block.start.offset_quanta));
  };
  for (const auto& [id, pool] : pools_) {
    std::vector<KeptBlock> all = pool.set_aside;
    for (const auto& [shelf, blocks] : pool.kept) {
      all.insert(all.end(), blocks.begin(), blocks.end());
    }
    for (const KeptBlock& kept : all) {
      const absl::Status status = check(kept.block);
      if (!status.ok()) return status;
      const auto found = blocks_.find(kept.key);
      if (found == blocks_.end() || found->second.pool != id ||
          !found->second.is_kept) {
        return absl::InternalError(absl::StrCat(
            "I12: ", NameOf(id), " keeps a block that is not its own"));
      }
      kept_bytes += kept.block.bytes;
      ++kept_blocks;
    }
  }
  for (const FreedBlock& block : retired_) {
    const absl::Status status = check(block);
    if (!status.ok()) return status;
    retired_bytes += block.bytes;
  }
  uint64_t live_bytes = 0;
  for (const auto& [key, block] : blocks_) {
    if (block.is_kept) {
      --kept_blocks;
    } else {
      live_bytes += block.requested_bytes;
    }
  }
  if (kept_blocks != 0 || kept_bytes != kept_bytes_ ||
      live_bytes != live_bytes_ || retired_bytes != retired_bytes_) {
    return absl::InternalError(absl::StrCat(
        "I12: the figures of graph-private pools are wrong: ", live_bytes_,
        " bytes live, ", kept_bytes_, " kept, ", retired_bytes_,
        " retired on record; ", live_bytes, ", ", kept_bytes, " and ",
        retired_bytes, " found"));
  }
  return absl::OkStatus();
}

}  // namespace firn
