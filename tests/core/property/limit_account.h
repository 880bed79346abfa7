// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The limit of the pool of a sequence of operations.

#ifndef FIRN_TESTS_CORE_PROPERTY_LIMIT_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_LIMIT_ACCOUNT_H_

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "firn/core/memory_limit.h"
#include "tests/core/property/account.h"

namespace firn::testing::property {

// The hard limit in whole granules; without one, `otherwise`.
inline uint64_t HardBytes(const MemoryLimit& limit, uint64_t granule_bytes,
                          uint64_t otherwise) {
  if (limit.hard_bytes == 0) return otherwise;
  return std::min(limit.hard_bytes / granule_bytes * granule_bytes, otherwise);
}

// Whether a pool must take the limit, whose fields are of whole granules or
// none.
inline bool IsValidLimit(const MemoryLimit& limit, uint64_t granule_bytes,
                         uint64_t capacity_bytes) {
  const uint64_t most =
      limit.hard_bytes == 0 ? capacity_bytes : limit.hard_bytes;
  return limit.hard_bytes <= capacity_bytes && limit.soft_bytes <= most &&
         (limit.hard_bytes == 0 || limit.hard_bytes >= granule_bytes) &&
         (limit.soft_bytes == 0 || limit.soft_bytes >= granule_bytes);
}

// A figure that is within a limit, or was beyond it when that was set and has
// not grown since.
class LimitedBytes {
 public:
  void Limit(uint64_t most_bytes, uint64_t bytes_now) {
    most_bytes_ = most_bytes;
    allowed_bytes_ = std::max(most_bytes, bytes_now);
  }
  uint64_t most_bytes() const { return most_bytes_; }
  bool Check(uint64_t bytes_now) {
    if (bytes_now > allowed_bytes_) return false;
    allowed_bytes_ = std::max(most_bytes_, bytes_now);
    return true;
  }

 private:
  uint64_t most_bytes_ = ~uint64_t{0};
  uint64_t allowed_bytes_ = ~uint64_t{0};
};

class LimitAccount : public Account {
 public:
  // `before` are the statistics of before the call.
  void Set(const MemoryLimit& limit, const PoolStats& before) {
    limit_ = limit;
    held_.Limit(HardBytes(limit, before.granule_bytes, before.capacity_bytes),
                before.held_bytes);
  }
  absl::Status AfterOperation(const Pool& /*pool*/, const PoolStats& stats,
                              bool /*was_faulted*/) override {
    const uint64_t hard =
        HardBytes(limit_, stats.granule_bytes, stats.capacity_bytes);
    MemoryLimit soft_limit;
    soft_limit.hard_bytes = limit_.soft_bytes;
    const uint64_t soft = HardBytes(soft_limit, stats.granule_bytes, hard);
    if (stats.limit_bytes != hard || stats.soft_limit_bytes != soft) {
      return absl::InternalError(absl::StrCat(
          "limit_bytes: ", stats.limit_bytes, ", soft ", stats.soft_limit_bytes,
          " instead of ", hard, ", soft ", soft));
    }
    if (held_.Check(stats.held_bytes)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("held_bytes: ", stats.held_bytes,
                                            ", beyond the limit of ", hard));
  }

 private:
  MemoryLimit limit_;
  LimitedBytes held_;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_LIMIT_ACCOUNT_H_
