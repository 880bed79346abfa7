// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Move hooks: a pass lets go of the pool's lock to call them, and so has to
// know afterwards what has become of the blocks that it told them of.
//
// Each of those is marked first, so that it is freed behind the lock and leaves
// `announced_` then. The hooks are called without the lock. After that the
// caches are emptied, so that no block can come out of them, and what was freed
// is waited for. A virtual granule on which there is nothing then but blocks
// that are announced still, and slots that are neither handed out nor cached,
// can get no other block while the lock is held.

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "firn/core/block_visits.h"
#include "firn/core/pool_impl.h"

namespace firn {

absl::StatusOr<MoveHookRegistration> Pool::Impl::AddMoveHook(MoveHook hook) {
  return Register(std::move(hook), hooks_);
}

void Pool::Impl::AnnounceBlocksOn(VgIndex vg,
                                  std::vector<AnnouncedBlock>* blocks) {
  std::vector<AnnouncedBlock> found;
  ForEachBlockOn(vg, [&](BlockStart start, const SlotContents& contents)
                         ABSL_NO_THREAD_SAFETY_ANALYSIS {
                           if (contents.state != BlockState::kLive &&
                               contents.state != BlockState::kMarked) {
                             return;
                           }
                           AnnouncedBlock announced;
                           announced.start = start;
                           announced.block.ptr = ToPointer(AddressOf(start));
                           announced.block.bytes = contents.requested_bytes;
                           found.push_back(announced);
                         });
  for (AnnouncedBlock& announced : found) {
    // A free without the lock may have been faster.
    if (!MarkBlock(announced.start)) continue;
    // Another block of the cache's may be there by now.
    announced.block.bytes = RequestedBytes(announced.start);
    announced.block.old_generation = GenerationOf(announced.start);
    announced.block.new_generation = announced.block.old_generation;
    announced_.insert(UseKey(announced.start));
    blocks->push_back(announced);
  }
}

bool Pool::Impl::VgKeepsTo(Declaration what, VgIndex vg,
                           uint64_t declarations) {
  if (declared_.empty()) return false;
  bool has_block = false;
  bool keeps = true;
  ForEachBlockOn(
      vg, [&](BlockStart start, const SlotContents& contents)
              ABSL_NO_THREAD_SAFETY_ANALYSIS {
                has_block = true;
                keeps = keeps && contents.state == BlockState::kMarked &&
                        declared_.KeepsTo(what, UseKey(start), declarations);
              });
  return has_block && keeps;
}

template <typename Call>
void Pool::Impl::WithoutLock(Call call) {
  // What a failed move has lost is nobody's, and others are about to look.
  IsolateLost();
  const bool may_wait = may_wait_;
  const bool launches_are_drained = launches_are_drained_;
  const bool may_exceed_soft_limits = may_exceed_soft_limits_;
  // Others know of their own work only.
  launches_are_drained_ = false;
  SetGrowth(/*may_exceed_soft_limits=*/false);
  mutex_.Unlock();
  call();
  mutex_.Lock();
  SetGrowth(may_exceed_soft_limits);
  may_wait_ = may_wait;
  launches_are_drained_ = launches_are_drained;
}

// Its owner holds mutex_ whenever it is called.
class Pool::Impl::HookCaller final : public MoveObserver {
 public:
  explicit HookCaller(Impl* impl) : impl_(impl) {}

  bool has_hooks() const override { return !impl_->hooks_->empty(); }

  absl::Status Announce(std::vector<MovingSource>* sources) override {
    impl_->mutex_.AssertHeld();
    ListBlocks(*sources);
    impl_->WithoutLock([this, sources] { CallBefore(sources); });
    return impl_->WaitUntilIdle();
  }

  bool IsQuiet(VgIndex vg) override {
    impl_->mutex_.AssertHeld();
    // Who reads what is read-only does so in scopes: the gate can be closed
    // before it is remapped and, once there are copies, has been.
    const bool may_be_read =
        declarations_.has_value() ? closure_.has_value() : has_scopes();
    return impl_->VgKeepsTo(
        may_be_read ? Declaration::kReadOnly : Declaration::kIdle, vg,
        declarations_.value_or(impl_->declared_.declarations()));
  }

  absl::Status Copy(
      std::vector<MovingSource>* sources, absl::Duration max_wait,
      absl::FunctionRef<absl::Status(const std::vector<MovingSource>&)> copy)
      override {
    impl_->mutex_.AssertHeld();
    if (has_hooks()) {
      ListBlocks(*sources);
    } else {
      announced_.clear();
    }
    const bool is_read = !AreIdle(*sources);
    // What may be written from now on, and is declared again, is not as it was
    // read.
    declarations_ = impl_->declared_.declarations();
    absl::Status status;
    impl_->WithoutLock([&] {
      if (!announced_.empty()) CallBefore(sources);
      status = copy(*sources);
      if (status.ok() && is_read) status = CloseGate(max_wait);
    });
    // Opened meanwhile.
    return status.ok() ? impl_->RefuseOpenGraphPools() : status;
  }

  bool HasNews(VgIndex vg) override {
    impl_->mutex_.AssertHeld();
    bool has_news = false;
    impl_->ForEachBlockOn(
        vg, [this, &has_news](BlockStart start, const SlotContents& contents)
                ABSL_NO_THREAD_SAFETY_ANALYSIS {
                  switch (contents.state) {
                    case BlockState::kLive:
                    case BlockState::kParked:
                      has_news = true;
                      break;
                    case BlockState::kMarked:
                      has_news |= !impl_->announced_.contains(UseKey(start));
                      break;
                    default:
                      break;
                  }
                });
    return has_news;
  }

  absl::Duration Conclude() override {
    impl_->mutex_.AssertHeld();
    declarations_.reset();
    absl::Duration pause;
    if (closure_.has_value()) {
      closure_.reset();
      pause = absl::Now() - closed_at_;
    }
    if (announced_.empty()) return pause;
    for (Announcement& announcement : announced_) {
      std::vector<AnnouncedBlock> left;
      for (AnnouncedBlock& announced : announcement.blocks) {
        if (!impl_->announced_.contains(UseKey(announced.start))) continue;
        announced.block.new_generation = impl_->GenerationOf(announced.start);
        left.push_back(announced);
      }
      announcement.blocks = std::move(left);
    }
    impl_->announced_.clear();
    impl_->WithoutLock([this] {
      for (const Announcement& announcement : announced_) {
        impl_->hooks_->After(BlocksOf(announcement), announcement.called);
      }
    });
    return pause;
  }

 private:
  // What hooks are told at a time: the blocks of a source or, where blocks lie
  // on several, of all of those, as each block is announced once.
  struct Announcement {
    std::vector<size_t> sources;
    std::vector<AnnouncedBlock> blocks;
    std::vector<uint64_t> called;  // the hooks that are to hear of the end
  };

  void ListBlocks(const std::vector<MovingSource>& sources) {
    impl_->mutex_.AssertHeld();
    announced_.clear();
    absl::flat_hash_map<uint64_t, size_t> told_in;  // by UseKey
    for (size_t i = 0; i < sources.size(); ++i) {
      Announcement announcement;
      announcement.sources.push_back(i);
      std::vector<AnnouncedBlock> found;
      for (const VgIndex vg : sources[i].vgs) {
        impl_->AnnounceBlocksOn(vg, &found);
      }
      for (const AnnouncedBlock& block : found) {
        const auto [told, is_new] =
            told_in.emplace(UseKey(block.start), announced_.size());
        if (is_new) {
          announcement.blocks.push_back(block);
        } else if (told->second < announced_.size()) {
          Join(told->second, &announcement);
        }
      }
      for (const AnnouncedBlock& block : announcement.blocks) {
        told_in[UseKey(block.start)] = announced_.size();
      }
      announced_.push_back(std::move(announcement));
    }
  }
  // What was to be told at another time is told with `announcement`.
  void Join(size_t other, Announcement* announcement) {
    Announcement& joined = announced_[other];
    announcement->sources.insert(announcement->sources.end(),
                                 joined.sources.begin(), joined.sources.end());
    announcement->blocks.insert(announcement->blocks.end(),
                                joined.blocks.begin(), joined.blocks.end());
    joined = Announcement();
  }
  bool has_scopes() const { return impl_->gate_.was_used(); }
  bool AreIdle(const std::vector<MovingSource>& sources) {
    impl_->mutex_.AssertHeld();
    if (impl_->declared_.count(Declaration::kReadOnly) == 0) return true;
    for (const MovingSource& source : sources) {
      for (const VgIndex vg : source.vgs) {
        if (!impl_->VgKeepsTo(Declaration::kIdle, vg,
                              impl_->declared_.declarations())) {
          return false;
        }
      }
    }
    return true;
  }
  // Without the lock, of a pass: a thread inside a scope, which the gate waits
  // for, may be waiting to open a graph-private pool.
  absl::Status CloseGate(absl::Duration max_wait)
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    impl_->pass_mutex_.Unlock();
    absl::StatusOr<LaunchGate::Closure> closed = impl_->gate_.Close(max_wait);
    impl_->pass_mutex_.Lock();
    if (!closed.ok()) return closed.status();
    closure_.emplace(*std::move(closed));
    closed_at_ = absl::Now();
    return absl::OkStatus();
  }
  // Without the lock.
  void CallBefore(std::vector<MovingSource>* sources) {
    for (Announcement& announcement : announced_) {
      const std::vector<MovingBlock> blocks = BlocksOf(announcement);
      if (blocks.empty()) continue;
      const bool stays =
          !impl_->hooks_->Before(blocks, &announcement.called).ok();
      for (const size_t source : announcement.sources) {
        (*sources)[source].stays = stays;
      }
    }
  }

  static std::vector<MovingBlock> BlocksOf(const Announcement& announcement) {
    std::vector<MovingBlock> blocks;
    for (const AnnouncedBlock& announced : announcement.blocks) {
      blocks.push_back(announced.block);
    }
    return blocks;
  }

  Impl* const impl_;
  std::vector<Announcement> announced_;
  // Of declared blocks, when the copies began that are under way.
  std::optional<uint64_t> declarations_;
  // While what is read-only is remapped.
  std::optional<LaunchGate::Closure> closure_;
  absl::Time closed_at_;
};

std::unique_ptr<MoveObserver> Pool::Impl::MakeHookCaller() {
  return absl::make_unique<HookCaller>(this);
}

}  // namespace firn
