// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/hook_account.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {
namespace {

using Blocks = absl::Span<const MovingBlock>;

// The same blocks in the same order.
bool AreSame(Blocks a, Blocks b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const MovingBlock& x, const MovingBlock& y) {
                      return x.ptr == y.ptr && x.bytes == y.bytes &&
                             x.old_generation == y.old_generation;
                    });
}

bool Has(Blocks blocks, const void* ptr) {
  return std::any_of(
      blocks.begin(), blocks.end(),
      [ptr](const MovingBlock& block) { return block.ptr == ptr; });
}

bool IsGeneration(const Pool& pool, const void* ptr, uint64_t expected) {
  const absl::StatusOr<uint64_t> generation = pool.Generation(ptr);
  return generation.ok() && *generation == expected;
}

}  // namespace

absl::Status HookAccount::Add(Pool* pool, Conduct conduct) {
  const uint64_t id = ++last_id_;
  MoveHook hook;
  hook.before_move = [this, pool, id](Blocks blocks) {
    return BeforeMove(*pool, id, blocks);
  };
  hook.after_move = [this, pool, id](Blocks blocks) {
    AfterMove(*pool, id, blocks);
  };
  absl::StatusOr<MoveHookRegistration> registration =
      pool->AddMoveHook(std::move(hook));
  if (!registration.ok()) return registration.status();
  Hook added;
  added.id = id;
  added.conduct = std::move(conduct);
  added.registration = *std::move(registration);
  hooks_.push_back(std::move(added));
  return absl::OkStatus();
}

void HookAccount::GiveUp(uint32_t number) {
  if (hooks_.empty()) return;
  hooks_.erase(hooks_.begin() +
               static_cast<std::ptrdiff_t>(number % hooks_.size()));
}

void HookAccount::Fail(absl::string_view what) {
  if (failure_.empty()) failure_ = absl::StrCat("move hooks: ", what);
}

void HookAccount::CheckAnnounced(const Pool& pool, Blocks blocks) {
  if (blocks.empty()) Fail("called before a move of nothing");
  for (const MovingBlock& block : blocks) {
    const LiveBlock* const live = shadow_->Find(block.ptr);
    if (live == nullptr || live->content.bytes != block.bytes) {
      Fail("what is announced is no live block");
      continue;
    }
    if (pins_->IsPinned(block.ptr)) Fail("a pinned block is to move");
    if (idle_->is_in_pass() && !idle_->MayMove(block.ptr)) {
      Fail("a block is to move that is in use");
    }
    if (live->memory_class != MemoryClass::kMovable) {
      Fail("a block is to move whose class does not");
    }
    if (block.old_generation != live->generation ||
        block.new_generation != live->generation ||
        !IsGeneration(pool, block.ptr, live->generation)) {
      Fail(absl::StrCat("the generations of what is announced are ",
                        block.old_generation, " and ", block.new_generation,
                        " instead of ", live->generation));
    }
    for (const Announcement& other : open_) {
      if (Has(other.left, block.ptr)) Fail("a block is announced twice");
    }
  }
}

absl::Status HookAccount::BeforeMove(const Pool& pool, uint64_t id,
                                     Blocks blocks) {
  ++calls_;
  const auto hook =
      std::find_if(hooks_.begin(), hooks_.end(),
                   [id](const Hook& one) { return one.id == id; });
  if (hook == hooks_.end()) {
    Fail("called after it was given up");
    return absl::OkStatus();
  }
  const size_t position = static_cast<size_t>(hook - hooks_.begin());
  if (position == 0) {
    if (!open_.empty() && !open_.back().is_vetoed &&
        open_.back().asked != hooks_.size()) {
      Fail("not all of them were asked");
    }
    CheckAnnounced(pool, blocks);
    Announcement announcement;
    announcement.blocks.assign(blocks.begin(), blocks.end());
    announcement.left = announcement.blocks;
    open_.push_back(std::move(announcement));
  } else if (open_.empty() || open_.back().is_vetoed ||
             open_.back().asked != position ||
             !AreSame(open_.back().blocks, blocks)) {
    Fail("not called in order, or not with the same blocks");
    return absl::OkStatus();
  }
  // A call that meddles may look at announcements as well.
  const size_t at = open_.size() - 1;
  ++open_[at].asked;
  const uint32_t veto_every = hook->conduct.veto_every;
  if (++hook->calls; veto_every > 0 && hook->calls % veto_every == 0) {
    ++vetoes_;
    open_[at].is_vetoed = true;
    // Then there is nobody to hear of it again.
    if (open_[at].to_hear.empty()) open_.pop_back();
    return absl::FailedPreconditionError("the memory is to stay");
  }
  open_[at].to_hear.push_back(id);
  if (hook->conduct.meddle && hook->conduct.meddle(blocks)) has_meddled_ = true;
  return absl::OkStatus();
}

void HookAccount::CheckConcluded(const Pool& pool,
                                 const Announcement& announcement,
                                 Blocks blocks) {
  for (const MovingBlock& block : blocks) {
    if (!IsGeneration(pool, block.ptr, block.new_generation) ||
        block.new_generation < block.old_generation) {
      Fail(absl::StrCat("the generation is not ", block.new_generation,
                        " after a move, ", block.old_generation, " before"));
    }
    if (announcement.is_vetoed &&
        block.new_generation != block.old_generation) {
      Fail("a block has moved despite a veto");
    }
  }
}

void HookAccount::AfterMove(const Pool& pool, uint64_t id, Blocks blocks) {
  const auto concluded = std::find_if(
      open_.begin(), open_.end(), [&](const Announcement& announcement) {
        return !announcement.to_hear.empty() &&
               announcement.to_hear.front() == id &&
               AreSame(announcement.left, blocks);
      });
  if (concluded == open_.end()) {
    return Fail("called after a move that was not announced like this");
  }
  if (!concluded->is_vetoed && concluded->asked != hooks_.size()) {
    Fail("not all of them were asked");
  }
  CheckConcluded(pool, *concluded, blocks);
  concluded->to_hear.erase(concluded->to_hear.begin());
  if (!concluded->to_hear.empty()) return;
  for (const MovingBlock& block : blocks) {
    LiveBlock* const live = shadow_->Find(block.ptr);
    if (live == nullptr) continue;  // freed by a hook since
    if (block.new_generation != live->generation) ++moves_told_;
    live->generation = block.new_generation;
  }
  open_.erase(concluded);
}

void HookAccount::Removed(const LiveBlock& block) {
  for (Announcement& announcement : open_) {
    std::vector<MovingBlock>& left = announcement.left;
    left.erase(std::remove_if(left.begin(), left.end(),
                              [&block](const MovingBlock& one) {
                                return one.ptr == block.content.ptr;
                              }),
               left.end());
  }
}

absl::Status HookAccount::AfterOperation(const Pool& /*pool*/,
                                         const PoolStats& stats,
                                         bool was_faulted) {
  if (!open_.empty()) Fail("not called after each move");
  const uint64_t vetoes = vetoes_ - last_vetoes_;
  const uint64_t counted = stats.vetoed_sources - last_vetoed_sources_;
  const bool is_too_many =
      one_source_each_ ? counted > vetoes : counted > 0 && vetoes == 0;
  if (is_too_many || (counted < vetoes && !was_faulted)) {
    Fail(
        absl::StrCat("vetoed_sources: ", counted, " more instead of ", vetoes));
  }
  last_vetoes_ = vetoes_;
  last_vetoed_sources_ = stats.vetoed_sources;
  has_meddled_ = false;
  return failure_.empty() ? absl::OkStatus() : absl::InternalError(failure_);
}

}  // namespace firn::testing::property
