// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests that failed, and why, as long as nothing has happened that could let
// them succeed: asked again and again, a full pool answers at once.

#ifndef FIRN_CORE_FAILURE_MEMORY_H_
#define FIRN_CORE_FAILURE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace firn {

// What two requests must have in common to share their fate.
struct FailedRequest {
  uint64_t bytes = 0;
  uint64_t alignment_quanta = 0;
  uint32_t arena = 0;
  uint32_t reach = 0;

  friend bool operator==(const FailedRequest& a, const FailedRequest& b) {
    return a.bytes == b.bytes && a.alignment_quanta == b.alignment_quanta &&
           a.arena == b.arena && a.reach == b.reach;
  }
};

// Thread safety: none; guarded by its owner.
class FailureMemory {
 public:
  // What has happened so far, in counters that only grow: what is remembered
  // holds while none of them does.
  using Events = std::array<uint64_t, 2>;

  // Constant time; null if it is not remembered, or something has happened.
  // Calls `events()`, which gives the Events now, for what is remembered alone.
  template <typename GetEvents>
  const absl::Status* Find(const FailedRequest& request,
                           const GetEvents& events) const {
    const absl::Status* const status = FindAny(request);
    return status != nullptr && events() == events_ ? status : nullptr;
  }
  // May forget another.
  void Add(const FailedRequest& request, const Events& events,
           const absl::Status& status);
  void Clear() { ++generation_; }

 private:
  // A few for each hash.
  static constexpr size_t kSets = 512;
  static constexpr size_t kWays = 4;

  struct Entry {
    FailedRequest request;
    uint64_t generation = 0;  // as below; else it holds no more
    absl::Status status;
  };
  struct Set {
    std::array<Entry, kWays> entries;
    uint32_t next = 0;  // to be replaced
  };

  static size_t SetOf(const FailedRequest& request);
  // Whatever has happened.
  const absl::Status* FindAny(const FailedRequest& request) const;

  Events events_ = {};
  uint64_t generation_ = 1;
  std::vector<Set> sets_;  // made by the first failure
};

}  // namespace firn

#endif  // FIRN_CORE_FAILURE_MEMORY_H_
