// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/reclaimers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace firn {

bool Reclaimers::Ask(uint64_t id, const ReclaimRequest& request,
                     LiveBytes live_bytes, Asked* asked) {
  bool has_freed = false;
  const uint64_t before = live_bytes();
  CallOne(id, [&](const ReclaimCallback& callback) {
    ++asked->calls;
    has_freed = callback(request);
  });
  const uint64_t after = live_bytes();
  asked->freed_bytes += before - std::min(before, after);
  return has_freed;
}

absl::StatusOr<void*> Reclaimers::Rescue(ReclaimRequest request,
                                         Allocate allocate,
                                         LiveBytes live_bytes) {
  MutexLock turn(&turn_mutex_);
  // Others may have been here meanwhile.
  absl::StatusOr<void*> block = allocate();
  if (!absl::IsResourceExhausted(block.status())) return block;
  Asked asked;
  for (const uint64_t id : ids()) {
    request.calls_before = 0;
    while (request.calls_before < kMostReclaimCalls &&
           Ask(id, request, live_bytes, &asked)) {
      ++asked.changed;
      block = allocate();
      if (!absl::IsResourceExhausted(block.status())) {
        Count(asked, block.ok());
        return block;
      }
      ++request.calls_before;
    }
  }
  Count(asked, /*is_rescued=*/false);
  return absl::ResourceExhaustedError(absl::StrCat(
      block.status().message(), " Callbacks were asked ", asked.calls,
      " times, which freed ", asked.freed_bytes, " bytes."));
}

void Reclaimers::Count(const Asked& asked, bool is_rescued) {
  MutexLock lock(&stats_mutex_);
  ++stats_.tried;
  if (asked.changed > 0) ++stats_.changed;
  if (is_rescued) ++stats_.rescued;
  stats_.recovered_bytes += asked.freed_bytes;
}

RungStats Reclaimers::stats() const {
  MutexLock lock(&stats_mutex_);
  return stats_;
}

}  // namespace firn
