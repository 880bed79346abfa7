// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Physical memory: creates granules, caches the unmapped ones, gives them back
// to the driver on trim, and owns the budget. Knows nothing of addresses.

#ifndef FIRN_VMM_GRANULE_STORE_H_
#define FIRN_VMM_GRANULE_STORE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/units.h"

namespace firn {

// The properties of memory that may move: no shareable handle type and not
// RDMA-capable, so that nobody outside can hold on to a granule.
AllocationProp MovableProp(int device_ordinal);

// Granules taken from the store for one operation: first those that came from
// the cache, then those created for it.
struct Acquisition {
  std::vector<GranuleId> granules;
  uint32_t created = 0;
};

// Thread safety: none; guarded by its owner.
//
// Invariants:
//   (I6)  a granule in the cache has no mapping (the owner returns no other);
//   (I9)  held granules never exceed the budget;
//   (I11) handles created = given out + cached + quarantined + released.
class GranuleStore {
 public:
  // Does not own `driver`, which must outlive this object.
  GranuleStore(Driver* driver, AllocationProp prop, uint64_t granule_bytes,
               uint32_t budget_granules);
  // Releases every handle it still holds. Nothing may be mapped any more.
  ~GranuleStore();
  GranuleStore(const GranuleStore&) = delete;
  GranuleStore& operator=(const GranuleStore&) = delete;

  // Adds up to `count` granules to `acquisition`: cached ones, then new ones
  // while budget and device allow. Getting fewer is no error. Any other
  // refusal of the driver is; what had been acquired stays acquired.
  absl::Status AcquireAtMost(uint32_t count, Acquisition* acquisition);
  // Undoes it: cached ones go back to the cache, created ones to the driver
  // (or, where it refuses, to the cache).
  void GiveBack(const Acquisition& acquisition);
  // Takes a granule without mappings into the cache.
  void Cache(GranuleId granule);
  // Keeps a granule from everybody for good: an address that was lost may still
  // reach it. It counts as held. Does nothing if it is released already.
  void Quarantine(GranuleId granule);

  // Releases cached granules until at most `keep_granules` are held in all.
  // Returns how many went. On failure the rest stays cached.
  absl::StatusOr<uint32_t> ReleaseCached(uint32_t keep_granules);

  PhysicalHandle handle(GranuleId granule) const {
    return handles_[granule.value()];
  }
  uint64_t granule_bytes() const { return granule_bytes_; }
  uint32_t budget_granules() const { return budget_granules_; }
  uint32_t held_granules() const { return held_granules_; }
  uint32_t cached_granules() const {
    return static_cast<uint32_t>(cache_.size());
  }
  uint32_t quarantined_granules() const { return quarantined_granules_; }
  // Ids run below this number.
  uint32_t id_limit() const { return static_cast<uint32_t>(handles_.size()); }
  bool is_cached(GranuleId granule) const {
    return state_[granule.value()] == State::kCached;
  }
  bool is_quarantined(GranuleId granule) const {
    return state_[granule.value()] == State::kQuarantined;
  }
  bool is_held(GranuleId granule) const {
    return state_[granule.value()] != State::kReleased;
  }
  uint64_t created_total() const { return created_total_; }
  uint64_t released_total() const { return released_total_; }

  absl::Status CheckInvariants() const;

 private:
  enum class State : uint8_t { kReleased, kCached, kOut, kQuarantined };

  DriverResult CreateOne(GranuleId* granule);
  DriverResult ReleaseOne(GranuleId granule);

  Driver* const driver_;
  const AllocationProp prop_;
  const uint64_t granule_bytes_;
  const uint32_t budget_granules_;
  std::vector<PhysicalHandle> handles_;  // by id
  std::vector<State> state_;             // by id
  std::vector<GranuleId> cache_;
  std::vector<GranuleId> unused_ids_;
  uint32_t held_granules_ = 0;
  uint32_t quarantined_granules_ = 0;
  uint64_t created_total_ = 0;
  uint64_t released_total_ = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_GRANULE_STORE_H_
