// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool_options.h"

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

constexpr uint64_t kMaxGranuleBytes = uint64_t{64} << 20;
// Below this an eighth of a granule has no room for a table of size classes.
constexpr uint64_t kMinGranuleBytes = uint64_t{64} << 10;
constexpr uint32_t kMinAddressSpaceFactor = 2;
constexpr uint32_t kMaxAddressSpaceFactor = 1024;

}  // namespace

absl::Status PoolOptions::Validate() const {
  if (device_ordinal < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device_ordinal: ", device_ordinal, "; must be 0 or more"));
  }
  if (granule_bytes != 0 &&
      ((granule_bytes & (granule_bytes - 1)) != 0 ||
       granule_bytes < kMinGranuleBytes || granule_bytes > kMaxGranuleBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "granule_bytes: ", granule_bytes, "; must be 0 or a power of two from ",
        kMinGranuleBytes, " to ", kMaxGranuleBytes));
  }
  if (capacity_bytes != 0 && granule_bytes != 0 &&
      capacity_bytes < granule_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("capacity_bytes: ", capacity_bytes,
                     "; must be 0 or at least granule_bytes, ", granule_bytes));
  }
  if (address_space_factor < kMinAddressSpaceFactor ||
      address_space_factor > kMaxAddressSpaceFactor) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address_space_factor: ", address_space_factor, "; must be from ",
        kMinAddressSpaceFactor, " to ", kMaxAddressSpaceFactor));
  }
  return absl::OkStatus();
}

}  // namespace firn
