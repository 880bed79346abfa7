// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/address_space.h"

#include "absl/memory/memory.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn {

absl::StatusOr<std::unique_ptr<AddressSpace>> AddressSpace::Reserve(
    Driver* driver, uint64_t granule_bytes, uint32_t vg_count,
    uint32_t least_vg_count) {
  while (true) {
    DevicePtr base = 0;
    const uint64_t bytes = vg_count * granule_bytes;
    // The alignment is asked for: no driver promises one by default.
    const DriverResult result =
        driver->MemAddressReserve(&base, bytes, granule_bytes, 0, 0);
    if (result == DriverResult::kSuccess && base % granule_bytes != 0) {
      driver->MemAddressFree(base, bytes);
      return absl::InternalError(
          absl::StrCat("cuMemAddressReserve: the address is not aligned to ",
                       granule_bytes, " bytes, as was asked for"));
    }
    if (result == DriverResult::kSuccess) {
      return absl::WrapUnique(
          new AddressSpace(driver, base, granule_bytes, vg_count));
    }
    if (result != DriverResult::kOutOfMemory || vg_count <= least_vg_count) {
      return ToStatus(result, "cuMemAddressReserve",
                      absl::StrCat(bytes, " bytes"));
    }
    vg_count = vg_count / 2 > least_vg_count ? vg_count / 2 : least_vg_count;
  }
}

AddressSpace::AddressSpace(Driver* driver, DevicePtr base,
                           uint64_t granule_bytes, uint32_t vg_count)
    : driver_(driver),
      base_(base),
      granule_bytes_(granule_bytes),
      granule_shift_(absl::bit_width(granule_bytes) - 1),
      vg_count_(vg_count) {
  VgRange all;
  all.first = VgIndex(0);
  all.count = vg_count;
  free_.Insert(all);
}

AddressSpace::~AddressSpace() {
  driver_->MemAddressFree(base_, vg_count_ * granule_bytes_);
}

std::optional<VgIndex> AddressSpace::TakeHighest() {
  const std::optional<VgRange> last = free_.Last();
  if (!last.has_value()) return std::nullopt;
  VgRange top;
  top.first = last->end() - 1;
  top.count = 1;
  free_.Remove(top);
  return top.first;
}

}  // namespace firn
