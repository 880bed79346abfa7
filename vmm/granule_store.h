// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Physical memory: creates granules in bulk and ahead of need, caches the
// unmapped ones, gives them back to the driver, and owns the budgets. Knows
// nothing of addresses.

#ifndef FIRN_VMM_GRANULE_STORE_H_
#define FIRN_VMM_GRANULE_STORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/shared_budget.h"
#include "firn/vmm/stored_granules.h"
#include "firn/vmm/units.h"

namespace firn {

struct GranuleStoreOptions {
  uint64_t granule_bytes = 0;
  // Most granules held of device memory (kMovable and kExportable together) and
  // of host memory. What is imported is its owner's, and counts for neither.
  // The former can be lowered while the store is in use: see SetBudget.
  uint32_t budget_granules = 0;
  uint32_t host_budget_granules = 0;
  // What stores of this device may hold of its memory together; none if null.
  std::shared_ptr<SharedBudget> shared_budget;
  // How each kind is created (vmm/allocation_props.h). A kind whose type is
  // kInvalid cannot be had.
  AllocationProp movable;
  AllocationProp exportable;
  AllocationProp host;
  // Maintain() creates movable granules while the cache has fewer than
  // `low_water_granules`, and releases what the cache of a kind has beyond
  // `high_water_granules` (not less than the low-water mark) or has had for
  // longer than `max_idle` (but for the low-water mark).
  uint32_t low_water_granules = 0;
  uint32_t high_water_granules = std::numeric_limits<uint32_t>::max();
  absl::Duration max_idle = absl::InfiniteDuration();
};

// Granules taken from the store for one operation: first those that came from
// the cache, then those created for it, which move up when it grows.
struct Acquisition {
  std::vector<GranuleId> granules;
  uint32_t created = 0;
};

// What Maintain() did.
struct MaintenanceReport {
  uint32_t created_granules = 0;
  uint32_t released_granules = 0;
};

// Thread safety: all methods may be called from any thread. Its lock is held
// during no driver call that creates or releases, nor while another store or a
// callback is called, and is the last one taken but for that of the shared
// budget and the driver's own.
//
// Where the shared budget is what AcquireAtMost is short of, the other stores
// of that budget are asked for what is idle, by the calling thread: what they
// have cached is released, then what their owners can spare. They are asked a
// few times at most, and none waits for one that is itself asking; so two that
// ask each other get less than they could at the worst. Maintain asks nobody,
// and leaves what the shared budget has to acquisitions that are short of it.
//
// Invariants:
//   (I6)  a granule in the cache has no mapping (the owner puts back no other);
//   (I9)  held granules never exceed their budget, not even while they are
//         being created; where it was lowered below what was held, they only
//         become fewer until they are within it. What the store has taken from
//         the shared budget is what it holds of device memory;
//   (I11) handles created = given out + cached + retiring + being released +
//         quarantined + released, for created and imported ones together;
//   (I13) a granule that was ever exported or marked as shared never enters the
//         cache: it retires, and once released counts as possibly still held
//         by whoever imported or registered it.
class GranuleStore final : private SharedBudget::Member {
 public:
  // Does not own `driver`, which must outlive this object.
  GranuleStore(Driver* driver, GranuleStoreOptions options);
  // Releases every handle it still holds, and gives back its part of the shared
  // budget. Nothing may be mapped any more. Waits for other stores that are
  // asking it for memory.
  ~GranuleStore();
  GranuleStore(const GranuleStore&) = delete;
  GranuleStore& operator=(const GranuleStore&) = delete;

  // --- The fast path: no driver call, no heap allocation ---

  // A movable granule from the cache, the one that was put there last; none if
  // the cache is empty.
  GranuleId Get() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes back a granule without mappings: into the cache of its kind, or, if
  // it was ever shared or is imported, among those that the next Maintain or
  // ReleaseCached releases. Never releases anything itself. A quarantined
  // granule stays where it is, and one that is not given out as it is.
  void Put(GranuleId granule) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Getting more ---

  // Adds up to `count` granules of `kind` (not kImported) to `acquisition`:
  // cached ones, then new ones while budget and device allow. Getting fewer is
  // no error: what retires, and caches of other kinds, take their part of the
  // budget until ReleaseCached. Where only the shared budget has no room, other
  // stores are asked first (see above). Any other refusal of the driver is one;
  // what had been acquired stays acquired. Where it would get too few, it waits
  // for what other threads are refilling or releasing. Unimplemented if the
  // store has no such kind.
  absl::Status AcquireAtMost(uint32_t count, Acquisition* acquisition,
                             GranuleKind kind = GranuleKind::kMovable)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Undoes it, if nobody has heard of these granules yet: cached ones go back
  // to the cache, as it was; created ones to the driver (or, where it refuses,
  // to the cache). So RDMA-capable ones have not been shared by being acquired;
  // what was exported or marked has, and retires.
  void GiveBack(const Acquisition& acquisition) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Sharing (I13) ---

  // Writes a shareable handle of an exportable granule, which must stay given
  // out meanwhile, to `shareable` (see Driver::MemExportToShareableHandle).
  // FailedPrecondition for other kinds: a movable one may not be held by
  // anybody else.
  absl::Status Export(GranuleId granule, ShareableHandleType type,
                      void* shareable) ABSL_LOCKS_EXCLUDED(mutex_);
  // The granule was registered with somebody that the driver does not tell us
  // of. FailedPrecondition unless it is exportable. (RDMA-capable granules
  // count as marked once they are given out, since nobody tells who registers
  // their addresses.)
  absl::Status MarkShared(GranuleId granule) ABSL_LOCKS_EXCLUDED(mutex_);
  // A granule of another owner, given out; goes back with Put. Nothing tells
  // how large it is: mapping it fails unless it has `granule_bytes`.
  absl::StatusOr<GranuleId> Import(void* shareable, ShareableHandleType type)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Giving back ---

  // Keeps a granule from everybody for good: an address that was lost may still
  // reach it. It counts as held. Does nothing if it is released already.
  void Quarantine(GranuleId granule) ABSL_LOCKS_EXCLUDED(mutex_);
  // Releases what retires, then cached granules of device memory, the oldest
  // first, until at most `keep_granules` are held. Returns how many went. On
  // failure the rest stays.
  absl::StatusOr<uint32_t> ReleaseCached(uint32_t keep_granules)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for all of the host's memory that is cached.
  absl::StatusOr<uint32_t> ReleaseCachedHost() ABSL_LOCKS_EXCLUDED(mutex_);
  // Brings the cache between its marks: see GranuleStoreOptions. `now` is the
  // time of the caller's clock, from which the ages of cached granules are
  // counted: those found unaged get it. Makes no driver call if there is
  // nothing to do. Fails with the driver's first refusal, but for
  // OUT_OF_MEMORY, which ends a refill; done is done.
  absl::StatusOr<MaintenanceReport> Maintain(absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `wanted` is called, without the lock, by the first call that leaves
  // something for Maintain to do: the cache below its low-water mark while the
  // budget has room, or something to release; then not again before the next
  // Maintain has begun, nor, where the driver cut that one short, before the
  // one after it. Replaces what was set before, of which a last call may still
  // be under way.
  void SetMaintenanceWanted(std::function<void()> wanted)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Limits ---

  // The budget of device memory from now on. One below what is held releases
  // nothing: nothing is created until less is held, and Maintain releases what
  // is cached until then. InvalidArgument unless it is at least 1 and at most
  // the budget of the options.
  absl::Status SetBudget(uint32_t granules) ABSL_LOCKS_EXCLUDED(mutex_);
  // `release_idle` is called, without a lock of ours, when other stores of the
  // shared budget lack `wanted_granules` that no cache has. It makes that many
  // of what the owner does not need, or as many as there are, part of the
  // cache (Put), or releases them itself, and returns how many; the store
  // releases what was put there. It runs on a thread that is inside an
  // acquisition from another store and may hold locks of that one's owner: it
  // must not wait for a lock that is held during acquisitions (but may try to
  // take it), nor acquire anything from a store of the same budget. Several
  // calls can be under way at once. Null: nothing to ask. Returns once no call
  // of what was set before is under way, so not to be called from within it.
  void SetReleaseIdle(
      std::function<uint32_t(uint32_t wanted_granules)> release_idle)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Figures ---

  // Whose contents the granule may have from now on, by a number of the
  // owner's: 0, nobody's that is known, from when it is created.
  void SetContentsOf(GranuleId granule, uint32_t whose)
      ABSL_LOCKS_EXCLUDED(mutex_);
  uint32_t contents_of(GranuleId granule) const ABSL_LOCKS_EXCLUDED(mutex_);
  PhysicalHandle handle(GranuleId granule) const ABSL_LOCKS_EXCLUDED(mutex_);
  GranuleKind kind(GranuleId granule) const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t granule_bytes() const { return options_.granule_bytes; }
  // Of device memory, as of the last SetBudget.
  uint32_t budget_granules() const {
    return budget_granules_.load(std::memory_order_relaxed);
  }
  // What SetBudget may set at most: the budget of the options.
  uint32_t most_budget_granules() const { return options_.budget_granules; }
  // How many could be created as far as the budgets go, the shared one
  // included: of that, others may take what is left meanwhile.
  uint32_t free_budget_granules() const;
  // Of device memory, those being created included.
  uint32_t held_granules() const {
    return held_granules_.load(std::memory_order_relaxed);
  }
  uint32_t held_host_granules() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Movable ones in the cache.
  uint32_t cached_granules() const {
    return cached_granules_.load(std::memory_order_relaxed);
  }
  // Those of a kind, not kImported.
  uint32_t cached_granules(GranuleKind kind) const ABSL_LOCKS_EXCLUDED(mutex_);
  uint32_t quarantined_granules() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint32_t retiring_granules() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Released, but exported or registered before.
  uint64_t possibly_held_elsewhere_total() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t created_total() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t imported_total() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t released_total() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Ids run below this number.
  uint32_t id_limit() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_cached(GranuleId granule) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_quarantined(GranuleId granule) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_held(GranuleId granule) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether it was ever exported or marked as shared, or is imported: it must
  // never move, nor take anything in.
  bool is_shared(GranuleId granule) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Internal, quoting the invariant's number, if one is broken.
  absl::Status CheckInvariants() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Granules of one budget, or imported ones.
  struct Account {
    uint32_t held = 0;  // all there are, and those being created
    uint32_t creating = 0;
    uint32_t releasing = 0;
  };
  // What is to be released: all that retires, and either cached granules until
  // no more than `keep_granules` are held, or what is beyond the marks at the
  // time `now`.
  struct ReleaseGoal {
    bool by_marks = false;
    bool is_host = false;  // what is cached of the host's memory instead
    uint32_t keep_granules = 0;
    absl::Time now;
    // Ends when this many of device memory have left their lists.
    uint32_t most_device_granules = std::numeric_limits<uint32_t>::max();
  };
  struct Leaving {
    GranuleId granule;
    PhysicalHandle handle = 0;
    bool released = false;
  };
  // Those of device memory and of host memory: all kinds but the last.
  static constexpr size_t kCachedKinds = 3;

  const AllocationProp& PropOf(GranuleKind kind) const;
  Account* AccountOf(GranuleKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GranuleList* CacheOf(GranuleKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return &caches_[static_cast<size_t>(kind)];
  }
  // Brings what is read without the lock up to date.
  void PublishFigures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  GranuleId TakeNewest(GranuleKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkOut(StoredGranule* record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeBack(GranuleId granule, absl::Time cached_since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Retire(GranuleId granule) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveList(GranuleId granule) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetShared(GranuleId granule) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckExportable(GranuleId granule) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Creation: a share of the budget, the driver's calls, and what came of them.
  // `lacking`: how many more the store's own budget has room for, but not the
  // shared one.
  uint32_t Reserve(GranuleKind kind, uint32_t count, uint32_t* lacking)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Granules are held no more, or have not come to be.
  void Unhold(GranuleKind kind, uint32_t granules)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DriverResult CreateHandles(GranuleKind kind, uint32_t count,
                             std::vector<PhysicalHandle>* handles)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EndReservation(GranuleKind kind, uint32_t reserved, size_t created)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t TakeCached(uint32_t count, GranuleKind kind,
                      Acquisition* acquisition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether others are about to add to the cache of this kind or to leave
  // something of its budget.
  bool MoreMayCome(GranuleKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes what there is in the cache and reserves what is then missing, as far
  // as the budget goes (`lacking`: see Reserve); waits while both are nothing
  // but more may come.
  uint32_t TakeOrReserve(GranuleKind kind, bool may_create, uint32_t* missing,
                         uint32_t* lacking, Acquisition* acquisition)
      ABSL_LOCKS_EXCLUDED(mutex_);
  DriverResult Refill(uint32_t* created) ABSL_LOCKS_EXCLUDED(mutex_);

  // Release: granules leave their lists, the driver's calls, and the outcome.
  void StartRelease(GranuleId granule, GranuleState if_refused,
                    std::vector<Leaving>* leaving)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishRelease(const std::vector<Leaving>& leaving)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GranuleId NextToRelease(const ReleaseGoal& goal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DriverResult ReleaseTowards(const ReleaseGoal& goal, uint32_t* released)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint32_t> ReleaseAllOf(const ReleaseGoal& goal)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Being asked by other stores of the shared budget.
  uint64_t CachedBytes() override ABSL_LOCKS_EXCLUDED(mutex_);
  bool ReleaseCachedBytes(uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool AskOwnerForBytes(uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether more device memory than the budget is held, and some of it cached.
  bool HasCachedBeyondBudget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether maintenance is to be asked for now; if so, the caller does it when
  // it has left the lock.
  bool NeedsMaintenance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskForMaintenance() ABSL_LOCKS_EXCLUDED(mutex_);

  // The parts of CheckInvariants: the shared budget, the lists, what each
  // record says, and the sums over all of them.
  absl::Status CheckSharedBudget() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLists() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRecord(GranuleId granule) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSums() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Driver* const driver_;
  const GranuleStoreOptions options_;
  mutable Mutex mutex_;
  // A refill, a release or a call of `release_idle_` has ended, or the budget
  // has changed.
  CondVar settled_;
  StoredGranules records_ ABSL_GUARDED_BY(mutex_);
  // By kind.
  std::array<GranuleList, kCachedKinds> caches_ ABSL_GUARDED_BY(mutex_);
  GranuleList retiring_ ABSL_GUARDED_BY(mutex_);
  Account device_ ABSL_GUARDED_BY(mutex_);
  // The larger of the budget and of what was held when it was set, or has been
  // at the least since.
  uint32_t device_ceiling_ ABSL_GUARDED_BY(mutex_);
  Account host_ ABSL_GUARDED_BY(mutex_);
  Account imported_ ABSL_GUARDED_BY(mutex_);
  uint32_t refilling_granules_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t quarantined_granules_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t created_total_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t imported_total_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t released_total_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t possibly_held_elsewhere_total_ ABSL_GUARDED_BY(mutex_) = 0;
  // Shared, so that it can be called without the lock and be replaced.
  std::shared_ptr<const std::function<void()>> maintenance_wanted_
      ABSL_GUARDED_BY(mutex_);
  bool maintenance_asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const std::function<uint32_t(uint32_t)>> release_idle_
      ABSL_GUARDED_BY(mutex_);
  uint32_t release_idle_calls_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  std::atomic<uint32_t> budget_granules_;  // written under the lock only
  std::atomic<uint32_t> held_granules_{0};
  std::atomic<uint32_t> cached_granules_{0};
};

}  // namespace firn

#endif  // FIRN_VMM_GRANULE_STORE_H_
