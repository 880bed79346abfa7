// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/guard_bands.h"

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {

std::optional<Damage> FindDamage(absl::Span<const uint8_t> bytes,
                                 uint8_t pattern) {
  // Mostly nothing is damaged: each byte is the one before it then.
  if (bytes.empty() ||
      (bytes[0] == pattern &&
       std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0)) {
    return std::nullopt;
  }
  Damage damage;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == pattern) continue;
    if (damage.bytes == 0) {
      damage.first = i;
      damage.found = bytes[i];
    }
    damage.last = i;
    ++damage.bytes;
  }
  return damage;
}

void AddDamage(const Damage& later, uint64_t offset,
               std::optional<Damage>* damage) {
  Damage moved = later;
  moved.first += offset;
  moved.last += offset;
  if (!damage->has_value()) {
    *damage = moved;
    return;
  }
  (*damage)->last = moved.last;
  (*damage)->bytes += moved.bytes;
}

absl::StatusOr<std::unique_ptr<GuardBands>> GuardBands::Create(Driver* driver) {
  const ScopedRelaxedCapture relaxed(driver);
  if (!relaxed.status().ok()) return relaxed.status();
  StreamHandle stream = nullptr;
  const DriverResult result = driver->StreamCreate(&stream, kStreamNonBlocking);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuStreamCreate", driver->loss());
  }
  return absl::WrapUnique(new GuardBands(driver, stream));
}

GuardBands::~GuardBands() {
  const ScopedRelaxedCapture relaxed(driver_);
  // A copy may be going on. Once more, so that one failure leaves nothing
  // behind; likewise below.
  if (driver_->StreamSynchronize(stream_) != DriverResult::kSuccess) {
    driver_->StreamSynchronize(stream_);
  }
  if (driver_->StreamDestroy(stream_) != DriverResult::kSuccess) {
    driver_->StreamDestroy(stream_);
  }
}

absl::Status GuardBands::Fill(DevicePtr address, uint8_t pattern,
                              uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  return ToStatus(driver_->MemsetD8Async(address, pattern, bytes, stream_),
                  "cuMemsetD8Async", driver_->loss());
}

absl::Status GuardBands::Finish() {
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  return ToStatus(driver_->StreamSynchronize(stream_), "cuStreamSynchronize",
                  driver_->loss());
}

absl::StatusOr<std::optional<Damage>> GuardBands::Find(DevicePtr address,
                                                       uint8_t pattern,
                                                       uint64_t bytes) {
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  std::optional<Damage> damage;
  for (uint64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    const uint64_t piece_bytes = std::min(bytes - offset, kPieceBytes);
    DriverResult result = driver_->MemcpyDtoHAsync(
        host_.data(), address + offset, piece_bytes, stream_);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuMemcpyDtoHAsync", driver_->loss());
    }
    result = driver_->StreamSynchronize(stream_);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuStreamSynchronize", driver_->loss());
    }
    const std::optional<Damage> found =
        FindDamage(absl::MakeConstSpan(host_.data(), piece_bytes), pattern);
    if (found.has_value()) AddDamage(*found, offset, &damage);
  }
  return damage;
}

}  // namespace firn
