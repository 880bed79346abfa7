// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The granule store's books: a record of each granule by id, and lists that
// link records, so that no change of a list allocates or searches.

#ifndef FIRN_VMM_STORED_GRANULES_H_
#define FIRN_VMM_STORED_GRANULES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/units.h"

namespace firn {

// What a granule is made of, and so what may be done with it.
enum class GranuleKind : uint8_t {
  kMovable,     // device memory that nobody outside can hold on to
  kExportable,  // device memory made to be exported or registered: never moves
  kHost,        // host memory, for what is spilled
  kImported,    // memory of another owner, imported
};

enum class GranuleState : uint8_t {
  kReleased,  // the id is free
  kCached,
  kOut,
  kRetiring,   // to be released, and never to be given out again
  kReleasing,  // a thread is at it
  kQuarantined,
};

enum class GranuleSharing : uint8_t {
  kPrivate,
  kAssumed,  // could have been registered ever since it was given out
  kKnown,    // exported or marked
};

struct StoredGranule {
  PhysicalHandle handle = 0;
  // Since when it has been in the cache, or was before it was given out;
  // InfiniteFuture: not known yet.
  absl::Time cached_since = absl::InfiniteFuture();
  GranuleId previous;  // of its list, towards the front
  GranuleId next;
  GranuleKind kind = GranuleKind::kMovable;
  GranuleState state = GranuleState::kReleased;
  GranuleState if_refused = GranuleState::kCached;  // by the driver: kReleasing
  GranuleSharing sharing = GranuleSharing::kPrivate;
  uint32_t contents_of = 0;  // see GranuleStore::SetContentsOf
};

// The newest is in front, and `cached_since` never grows towards the back.
struct GranuleList {
  GranuleId front;
  GranuleId back;
  uint32_t granules = 0;
};

// Thread safety: none; guarded by its owner.
class StoredGranules {
 public:
  // A record that is in no list, under an id that is free.
  GranuleId Add(PhysicalHandle handle, GranuleKind kind);
  // Frees the id of a granule that is in no list.
  void Remove(GranuleId granule);

  StoredGranule& operator[](GranuleId granule) {
    return records_[granule.value()];
  }
  const StoredGranule& operator[](GranuleId granule) const {
    return records_[granule.value()];
  }
  bool contains(GranuleId granule) const {
    return granule.value() < records_.size() &&
           (*this)[granule].state != GranuleState::kReleased;
  }
  uint32_t id_limit() const { return static_cast<uint32_t>(records_.size()); }

  // Put a granule that is in no list at an end of `list`, cached since the
  // time given as far as the order of the list allows.
  void LinkFront(GranuleList* list, GranuleId granule,
                 absl::Time cached_since) {
    StoredGranule& record = (*this)[granule];
    record.previous = GranuleId();
    record.next = list->front;
    if (list->front.is_none()) {
      list->back = granule;
    } else {
      StoredGranule& former = (*this)[list->front];
      former.previous = granule;
      if (cached_since < former.cached_since) {
        cached_since = former.cached_since;
      }
    }
    record.cached_since = cached_since;
    list->front = granule;
    ++list->granules;
  }
  void LinkBack(GranuleList* list, GranuleId granule, absl::Time cached_since);
  // Takes a granule out of the list it is in.
  void Unlink(GranuleList* list, GranuleId granule) {
    const StoredGranule& record = (*this)[granule];
    (record.previous.is_none() ? list->front : (*this)[record.previous].next) =
        record.next;
    (record.next.is_none() ? list->back : (*this)[record.next].previous) =
        record.previous;
    --list->granules;
  }
  // Those of which it is not known get the time `now`.
  void SetUnknownTimes(const GranuleList& list, absl::Time now);

  // Internal if links, count or order of `list` are wrong.
  absl::Status CheckList(const GranuleList& list) const;

 private:
  std::vector<StoredGranule> records_;  // by id
  std::vector<GranuleId> unused_ids_;
};

}  // namespace firn

#endif  // FIRN_VMM_STORED_GRANULES_H_
