// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The two errors every baseline gives.

#ifndef FIRN_BENCH_POLICIES_POLICY_ERRORS_H_
#define FIRN_BENCH_POLICIES_POLICY_ERRORS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace firn::bench {

// A failed allocation: ResourceExhausted. The text is constant, as a trace
// replayed in too small a device fails millions of times.
absl::Status NoRoom();

// A free of an address that is no live block: InvalidArgument.
absl::Status NotABlock(uint64_t address);

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_POLICY_ERRORS_H_
