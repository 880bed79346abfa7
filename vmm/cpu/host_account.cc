// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/host_account.h"

#include <algorithm>
#include <utility>

#include "firn/vmm/cpu/host_memory.h"

namespace firn::cpu {

HostAccount::HostAccount(std::function<uint64_t()> available_bytes,
                         std::function<uint64_t()> resident_bytes)
    : available_bytes_(std::move(available_bytes)),
      resident_bytes_(std::move(resident_bytes)) {}

bool HostAccount::TryTake(uint64_t bytes) {
  if (bytes > headroom_bytes_) {
    // What was taken but never touched is not yet missing at the host.
    const uint64_t promised_bytes = taken_bytes_ -
                                    std::min(taken_bytes_, resident_bytes_()) +
                                    kHostReserveBytes;
    const uint64_t available_bytes = available_bytes_();
    if (available_bytes < promised_bytes ||
        available_bytes - promised_bytes < bytes) {
      return false;
    }
    headroom_bytes_ = std::max(
        bytes, std::min(available_bytes - promised_bytes, kHeadroomBytes));
  }
  headroom_bytes_ -= bytes;
  taken_bytes_ += bytes;
  return true;
}

void HostAccount::Return(uint64_t bytes) {
  taken_bytes_ -= bytes;
  headroom_bytes_ = std::min(headroom_bytes_ + bytes, kHeadroomBytes);
}

}  // namespace firn::cpu
