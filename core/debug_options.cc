// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/debug_options.h"

#include "absl/strings/str_cat.h"
#include "firn/vmm/units.h"

namespace firn {
namespace {

constexpr uint64_t kMaxGuardBytes = uint64_t{1} << 20;

}  // namespace

absl::Status DebugOptions::Validate() const {
  if (guard_bytes == 0 || guard_bytes % kQuantumBytes != 0 ||
      guard_bytes > kMaxGuardBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "debug.guard_bytes: ", guard_bytes, "; must be a multiple of ",
        kQuantumBytes, " from ", kQuantumBytes, " to ", kMaxGuardBytes));
  }
  return absl::OkStatus();
}

}  // namespace firn
