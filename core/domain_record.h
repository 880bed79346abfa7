// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool keeps of a domain, beside its name.

#ifndef FIRN_CORE_DOMAIN_RECORD_H_
#define FIRN_CORE_DOMAIN_RECORD_H_

#include <cstdint>
#include <limits>

#include "firn/core/domain.h"

namespace firn {

// A MemoryLimit in granules.
struct GranuleLimit {
  uint32_t hard = std::numeric_limits<uint32_t>::max();
  uint32_t soft = std::numeric_limits<uint32_t>::max();  // at most hard
};

struct DomainRecord {
  DomainStats stats;  // what arenas know is added when asked for
  GranuleLimit limit;
  // Frees of the pool so far when a pass over this domain alone last recovered
  // nothing: another one is pointless until something has been freed.
  uint64_t frees_at_empty_pass = ~uint64_t{0};
};

}  // namespace firn

#endif  // FIRN_CORE_DOMAIN_RECORD_H_
