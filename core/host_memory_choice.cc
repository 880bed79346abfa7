// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/host_memory_choice.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/capabilities.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {

absl::Status ChooseHostMemory(const PoolOptions& options, Driver* driver,
                              absl::string_view never_moves,
                              GranuleStoreOptions* store,
                              std::string* why_not) {
  if (options.host_spill_limit_bytes == 0) {
    *why_not = "host_spill_limit_bytes is 0";
    return absl::OkStatus();
  }
  const uint64_t granules =
      options.host_spill_limit_bytes / store->granule_bytes;
  if (granules == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host_spill_limit_bytes: ", options.host_spill_limit_bytes,
        " is less than one granule of ", store->granule_bytes, " bytes"));
  }
  if (!never_moves.empty()) {
    *why_not = std::string(never_moves);
    return absl::OkStatus();
  }
  MemLocation location;
  const ScopedRelaxedCapture relaxed(driver);
  const Capability found = ProbeHostSpill(driver, &location);
  if (!found.available) {
    *why_not =
        absl::StrCat("the device cannot use host memory: ", found.reason);
    return absl::OkStatus();
  }
  const AllocationProp host = HostProp(location);
  size_t minimum = 0;
  const DriverResult result = driver->MemGetAllocationGranularity(
      &minimum, &host, GranularityKind::kMinimum);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemGetAllocationGranularity");
  }
  if (store->granule_bytes % minimum != 0) {
    *why_not = absl::StrCat(
        "granules of ", store->granule_bytes,
        " bytes are no multiple of the host's granularity, ", minimum);
    return absl::OkStatus();
  }
  store->host = host;
  store->host_budget_granules = static_cast<uint32_t>(
      std::min<uint64_t>(granules, std::numeric_limits<uint32_t>::max()));
  return absl::OkStatus();
}

}  // namespace firn
