// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/failure_memory.h"

namespace firn {

size_t FailureMemory::SetOf(const FailedRequest& request) {
  const uint64_t mixed = (request.bytes ^ request.alignment_quanta << 40 ^
                          uint64_t{request.arena} << 56) *
                         0x9E3779B97F4A7C15;
  return static_cast<size_t>(mixed >> 32) % kSets;
}

const absl::Status* FailureMemory::FindAny(const FailedRequest& request) const {
  if (sets_.empty()) return nullptr;
  for (const Entry& entry : sets_[SetOf(request)].entries) {
    if (entry.generation == generation_ && entry.request == request)
      return &entry.status;
  }
  return nullptr;
}

void FailureMemory::Add(const FailedRequest& request, const Events& events,
                        const absl::Status& status) {
  if (sets_.empty()) sets_.resize(kSets);
  if (events != events_) Clear();
  events_ = events;
  Set& set = sets_[SetOf(request)];
  Entry& entry = set.entries[set.next++ % kWays];
  entry.request = request;
  entry.generation = generation_;
  entry.status = status;
}

}  // namespace firn
