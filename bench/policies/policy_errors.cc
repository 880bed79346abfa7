// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/policy_errors.h"

#include "absl/strings/str_format.h"

namespace firn::bench {

absl::Status NoRoom() {
  return absl::ResourceExhaustedError("no room within the capacity");
}

absl::Status NotABlock(uint64_t address) {
  return absl::InvalidArgumentError(
      absl::StrFormat("no live block starts at %#x", address));
}

}  // namespace firn::bench
