// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Device memory that several pools of a device may hold together: a limit that
// can change while they run, and the way in which one of them gets what others
// hold and do not use.

#ifndef FIRN_VMM_SHARED_BUDGET_H_
#define FIRN_VMM_SHARED_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Nobody takes what would bring all together beyond the limit, not even for as
// long as it is being created. A limit that is set below what is held takes
// nothing away: nothing more can be taken until less is held, and meanwhile
// what is held only falls.
//
// Thread safety: all methods may be called from any thread. Its lock is a leaf:
// a member may call it with its own lock held (but for StopAsking, Reclaim and
// ReleaseExcess, which wait for members or call them, without the lock).
class SharedBudget {
 public:
  // One that holds memory of the budget: a granule store. Its methods are
  // called without any lock of ours, by the thread that is short of memory,
  // several at once.
  class Member {
   public:
    // About how much it has in its cache: who has most is asked first.
    virtual uint64_t CachedBytes() = 0;
    // Releases cached memory, `bytes` of it and no more than that takes, as far
    // as there is any, and gives it back with Give. Whether anything went.
    virtual bool ReleaseCachedBytes(uint64_t bytes) = 0;
    // Asks whoever uses the member to put memory that is idle, but not cached,
    // into its cache, or to release it. Whether there was any.
    virtual bool AskOwnerForBytes(uint64_t bytes) = 0;

   protected:
    ~Member() = default;
  };

  // InvalidArgument, naming the field, unless `limit_bytes` is above 0.
  static absl::StatusOr<std::shared_ptr<SharedBudget>> Create(
      uint64_t limit_bytes);
  ~SharedBudget() = default;
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  // Likewise, and for what is taken from now on. Releases nothing.
  absl::Status SetLimit(uint64_t limit_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Has the members release what is idle until no more than the limit is held,
  // or nothing idle is left. Not to be called with a lock that an owner's
  // callback (GranuleStore::SetReleaseIdle) takes.
  void ReleaseExcess() ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t limit_bytes() const {
    return limit_bytes_.load(std::memory_order_relaxed);
  }
  // By all members, with what they are creating and releasing.
  uint64_t held_bytes() const {
    return held_bytes_.load(std::memory_order_relaxed);
  }
  uint64_t room_bytes() const;
  // How often a member got less than it wanted, and than its own budget allows,
  // since others had nothing idle.
  uint64_t shortfalls() const {
    return shortfalls_.load(std::memory_order_relaxed);
  }

  // --- For members ---

  // From now on it may take, and is asked for what it has cached.
  void Join(Member* member) ABSL_LOCKS_EXCLUDED(mutex_);
  // It is asked no more. Waits for calls to it that are under way, so not with
  // a lock that these take.
  void StopAsking(Member* member) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives back all that it still holds. After StopAsking.
  void Leave(Member* member) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes as many units as there is room for, `most_units` at most, and returns
  // their number. Asks nobody.
  uint64_t Take(Member* member, uint64_t unit_bytes, uint64_t most_units)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Give(Member* member, uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Has members other than `requester` release what is idle, no more than it
  // takes to make room for `wanted_bytes`: what they have cached, the largest
  // cache first, and, where that does not do, what their owners can spare, in
  // the same order. Whether it is worthwhile to try again to take some; another
  // one may have been faster.
  bool Reclaim(const Member* requester, uint64_t wanted_bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A member lacks memory that it has been asked for, for as long as this is
  // there: what others give back is not for refills of caches.
  class Shortage {
   public:
    explicit Shortage(SharedBudget* budget) : budget_(budget) {
      budget_->shortages_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Shortage() { budget_->shortages_.fetch_sub(1, std::memory_order_relaxed); }
    Shortage(const Shortage&) = delete;
    Shortage& operator=(const Shortage&) = delete;

   private:
    SharedBudget* const budget_;
  };
  bool has_shortage() const {
    return shortages_.load(std::memory_order_relaxed) > 0;
  }
  void NoteShortfall() { shortfalls_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t held_bytes_of(const Member* member) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Internal, quoting the invariant's number (I9), if one is broken.
  absl::Status CheckInvariants() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Member* member = nullptr;
    uint64_t held_bytes = 0;
    uint32_t calls = 0;  // those under way, or about to be
    bool asked = true;
  };

  explicit SharedBudget(uint64_t limit_bytes);

  Entry* Find(const Member* member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(Entry* entry, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What must go before `wanted_bytes` can be taken.
  uint64_t LackingBytes(uint64_t wanted_bytes) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The members to ask, in this order; they stay until EndAsking.
  std::vector<Member*> BeginAsking(const Member* requester)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EndAsking(const std::vector<Member*>& members)
      ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  CondVar asked_;  // calls to members have ended
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // as they joined
  // The larger of the limit and of what was held when it was set, or has been
  // at the least since.
  uint64_t ceiling_bytes_ ABSL_GUARDED_BY(mutex_);
  // Written under the lock only.
  std::atomic<uint64_t> limit_bytes_;
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<uint64_t> shortfalls_{0};
  std::atomic<uint32_t> shortages_{0};  // those there are
};

}  // namespace firn

#endif  // FIRN_VMM_SHARED_BUDGET_H_
