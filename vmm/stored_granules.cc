// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/stored_granules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace firn {

GranuleId StoredGranules::Add(PhysicalHandle handle, GranuleKind kind) {
  GranuleId granule;
  if (unused_ids_.empty()) {
    granule = GranuleId(records_.size());
    records_.emplace_back();
  } else {
    granule = unused_ids_.back();
    unused_ids_.pop_back();
  }
  StoredGranule& record = (*this)[granule];
  record.handle = handle;
  record.kind = kind;
  record.state = GranuleState::kOut;
  return granule;
}

void StoredGranules::Remove(GranuleId granule) {
  (*this)[granule] = StoredGranule();
  unused_ids_.push_back(granule);
}

void StoredGranules::LinkBack(GranuleList* list, GranuleId granule,
                              absl::Time cached_since) {
  StoredGranule& record = (*this)[granule];
  record.previous = list->back;
  record.next = GranuleId();
  if (list->back.is_none()) {
    list->front = granule;
  } else {
    StoredGranule& former = (*this)[list->back];
    former.next = granule;
    cached_since = std::min(cached_since, former.cached_since);
  }
  record.cached_since = cached_since;
  list->back = granule;
  ++list->granules;
}

void StoredGranules::SetUnknownTimes(const GranuleList& list, absl::Time now) {
  GranuleId at = list.front;
  while (!at.is_none() && (*this)[at].cached_since == absl::InfiniteFuture()) {
    (*this)[at].cached_since = now;
    at = (*this)[at].next;
  }
  // A clock that went back must not put the order out.
  if (at.is_none() || (*this)[at].cached_since <= now) return;
  const absl::Time since = (*this)[at].cached_since;
  for (at = (*this)[at].previous; !at.is_none(); at = (*this)[at].previous) {
    (*this)[at].cached_since = since;
  }
}

absl::Status StoredGranules::CheckList(const GranuleList& list) const {
  uint32_t granules = 0;
  GranuleId previous;
  absl::Time since = absl::InfiniteFuture();
  for (GranuleId at = list.front; !at.is_none(); at = (*this)[at].next) {
    const StoredGranule& record = (*this)[at];
    if (++granules > list.granules || record.previous != previous ||
        record.cached_since > since) {
      return absl::InternalError(
          absl::StrCat("granule ", at.value(), ", number ", granules, " of ",
                       list.granules, ", is out of place in its list"));
    }
    since = record.cached_since;
    previous = at;
  }
  if (granules != list.granules || list.back != previous) {
    return absl::InternalError(absl::StrCat("a list of ", list.granules,
                                            " granules links ", granules));
  }
  return absl::OkStatus();
}

}  // namespace firn
