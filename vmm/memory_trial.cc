// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/memory_trial.h"

#include "absl/strings/string_view.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

constexpr int kTriesToGiveBack = 3;

}  // namespace

std::string RefusalOf(DriverCall call, DriverResult result,
                      absl::string_view detail) {
  return std::string(ToStatus(result, DriverCallName(call), detail).message());
}

bool MemoryTrial::Note(DriverCall call, DriverResult result,
                       absl::string_view detail) {
  if (result == DriverResult::kSuccess) return true;
  if (refusal_.empty()) {
    refusal_ = RefusalOf(call, result, detail);
    refused_with_ = result;
  }
  return false;
}

bool MemoryTrial::FindGranularity() {
  if (granule_bytes_ != 0) return true;
  return Note(DriverCall::kMemGetAllocationGranularity,
              driver_->MemGetAllocationGranularity(&granule_bytes_, &prop_,
                                                   GranularityKind::kMinimum));
}

bool MemoryTrial::Reserve() {
  if (!FindGranularity()) return false;
  reserved_ =
      Note(DriverCall::kMemAddressReserve,
           driver_->MemAddressReserve(&address_, granule_bytes_, granule_bytes_,
                                      /*hint=*/0, /*flags=*/0));
  return reserved_;
}

bool MemoryTrial::Create() {
  if (!FindGranularity()) return false;
  created_ =
      Note(DriverCall::kMemCreate,
           driver_->MemCreate(&handle_, granule_bytes_, &prop_, /*flags=*/0));
  return created_;
}

bool MemoryTrial::MapWithAccess() {
  mapped_ = Note(DriverCall::kMemMap,
                 driver_->MemMap(address_, granule_bytes_, /*offset_bytes=*/0,
                                 handle_, /*flags=*/0));
  if (!mapped_) return false;
  AccessDesc desc;
  desc.location = {LocationType::kDevice, driver_->identity().device_ordinal};
  desc.flags = AccessFlags::kReadWrite;
  if (!Note(DriverCall::kMemSetAccess,
            driver_->MemSetAccess(address_, granule_bytes_, &desc, 1))) {
    return false;
  }
  AccessFlags flags = AccessFlags::kNone;
  if (!Note(DriverCall::kMemGetAccess,
            driver_->MemGetAccess(&flags, &desc.location, address_))) {
    return false;
  }
  if (flags == AccessFlags::kReadWrite) return true;
  refusal_ = "cuMemGetAccess: not the access that cuMemSetAccess has set";
  return false;
}

bool MemoryTrial::End(DriverCall call, absl::FunctionRef<DriverResult()> make,
                      bool* present) {
  if (!*present) return true;
  for (int i = 0; i < kTriesToGiveBack; ++i) {
    if (!Note(call, make())) continue;
    *present = false;
    return i == 0;
  }
  return false;
}

bool MemoryTrial::GiveBack() {
  const bool unmapped = End(
      DriverCall::kMemUnmap,
      [&] { return driver_->MemUnmap(address_, granule_bytes_); }, &mapped_);
  const bool released = End(
      DriverCall::kMemRelease, [&] { return driver_->MemRelease(handle_); },
      &created_);
  // What is mapped must not be freed.
  if (mapped_) return false;
  const bool freed = End(
      DriverCall::kMemAddressFree,
      [&] { return driver_->MemAddressFree(address_, granule_bytes_); },
      &reserved_);
  return unmapped && released && freed;
}

void MemoryTrial::LeaveBehind() {
  mapped_ = false;
  created_ = false;
  reserved_ = false;
}

}  // namespace firn
