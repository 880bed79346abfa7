// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool_options.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

constexpr uint64_t kMaxGranuleBytes = uint64_t{64} << 20;
// Below this an eighth of a granule has no room for a table of size classes.
constexpr uint64_t kMinGranuleBytes = uint64_t{64} << 10;
constexpr uint64_t kMaxAlignmentBytes = uint64_t{1} << 30;
constexpr uint32_t kMinAddressSpaceFactor = 2;
constexpr uint32_t kMaxAddressSpaceFactor = 1024;
// A gibibyte of host memory, without stacks.
constexpr uint32_t kMaxHistoryEntries = uint32_t{1} << 24;

absl::Status ValidateNotNegative(absl::string_view field,
                                 absl::Duration duration) {
  if (duration >= absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": ", absl::FormatDuration(duration), "; must be 0 or more"));
}

absl::Status ValidatePeers(const PoolOptions& options) {
  if (options.driver == nullptr && !options.peers.empty()) {
    return absl::InvalidArgumentError(
        "peers: given without driver; name them in peer_ordinals");
  }
  if (options.driver != nullptr && !options.peer_ordinals.empty()) {
    return absl::InvalidArgumentError(
        "peer_ordinals: given with driver; give their drivers in peers");
  }
  for (const std::shared_ptr<Driver>& peer : options.peers) {
    if (peer == nullptr) {
      return absl::InvalidArgumentError("peers: a null pointer among them");
    }
  }
  std::vector<int> ordinals = options.peer_ordinals;
  ordinals.push_back(options.device_ordinal);
  std::sort(ordinals.begin(), ordinals.end());
  const auto twice = std::adjacent_find(ordinals.begin(), ordinals.end());
  if (twice != ordinals.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "peer_ordinals: device ", *twice,
        " twice; each once, and not the pool's own device_ordinal"));
  }
  if (ordinals.front() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "peer_ordinals: ", ordinals.front(), "; must be 0 or more"));
  }
  return absl::OkStatus();
}

absl::Status ValidateCache(const PoolOptions& options) {
  if (options.max_cached_bytes != 0 &&
      options.max_cached_bytes < options.prepared_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_cached_bytes: ", options.max_cached_bytes,
        "; must be 0 or at least prepared_bytes, ", options.prepared_bytes));
  }
  if (options.capacity_bytes != 0 &&
      options.prepared_bytes > options.capacity_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prepared_bytes: ", options.prepared_bytes,
        "; must be at most capacity_bytes, ", options.capacity_bytes));
  }
  if (options.max_cached_time <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_cached_time: ", absl::FormatDuration(options.max_cached_time),
        "; must be more than 0"));
  }
  return absl::OkStatus();
}

absl::Status ValidateHistory(const PoolOptions& options) {
  if (options.history_entries > kMaxHistoryEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat("history_entries: ", options.history_entries,
                     "; must be at most ", kMaxHistoryEntries));
  }
  if (options.history_stacks && options.history_entries == 0) {
    return absl::InvalidArgumentError(
        "history_stacks: given without history_entries; set how many events "
        "are kept");
  }
  return absl::OkStatus();
}

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
  if (host_spill_limit_bytes != 0 && granule_bytes != 0 &&
      host_spill_limit_bytes < granule_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("host_spill_limit_bytes: ", host_spill_limit_bytes,
                     "; must be 0 or at least granule_bytes, ", granule_bytes));
  }
  if (address_space_factor < kMinAddressSpaceFactor ||
      address_space_factor > kMaxAddressSpaceFactor) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address_space_factor: ", address_space_factor, "; must be from ",
        kMinAddressSpaceFactor, " to ", kMaxAddressSpaceFactor));
  }
  if (placement > PlacementKind::kTiered) {
    return absl::InvalidArgumentError(
        absl::StrCat("placement: ", static_cast<int>(placement),
                     "; must be from kFirn (0) to kTiered (",
                     static_cast<int>(PlacementKind::kTiered), ")"));
  }
  absl::Status status = ValidateNotNegative("max_wait", max_wait);
  // What the device's granules allow is checked by Pool::Create.
  if (status.ok()) {
    status =
        tiers.Validate(granule_bytes > 0 ? granule_bytes : kMinGranuleBytes);
  }
  if (!status.ok()) return status;
  if (export_type != ShareableHandleType::kNone &&
      export_type != ShareableHandleType::kPosixFileDescriptor) {
    return absl::InvalidArgumentError(absl::StrCat(
        "export_type: ", static_cast<int32_t>(export_type), "; must be kNone (",
        static_cast<int32_t>(ShareableHandleType::kNone),
        ") or kPosixFileDescriptor (",
        static_cast<int32_t>(ShareableHandleType::kPosixFileDescriptor),
        "); fabric handles are not supported"));
  }
  status =
      limit.Validate(capacity_bytes > 0 ? capacity_bytes
                                        : std::numeric_limits<uint64_t>::max());
  if (status.ok()) status = ValidatePeers(*this);
  if (status.ok()) status = ValidateCache(*this);
  if (status.ok()) status = ValidateHistory(*this);
  if (status.ok()) status = debug.Validate();
  return status;
}

absl::Status AllocateOptions::Validate() const {
  if (alignment_bytes == 0 || (alignment_bytes & (alignment_bytes - 1)) != 0 ||
      alignment_bytes > kMaxAlignmentBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment_bytes: ", alignment_bytes,
                     "; must be a power of two up to ", kMaxAlignmentBytes));
  }
  if (memory_class > MemoryClass::kExportable) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_class: ", static_cast<int>(memory_class),
                     "; must be kMovable (0), kPinned (1) or kExportable (2)"));
  }
  if (lifetime > Lifetime::kLong) {
    return absl::InvalidArgumentError(
        absl::StrCat("lifetime: ", static_cast<int>(lifetime),
                     "; must be kUnknown (0), kShort (1) or kLong (2)"));
  }
  return absl::OkStatus();
}

absl::Status CompactOptions::Validate() const {
  if (level < CompactionLevel::kCallerPromises ||
      level > CompactionLevel::kDeclaredIdle) {
    return absl::InvalidArgumentError(
        absl::StrCat("level: ", static_cast<int>(level),
                     "; must be kCallerPromises (0), kLaunchScopes (1) or "
                     "kDeclaredIdle (2)"));
  }
  absl::Status status = ValidateNotNegative("max_wait", max_wait);
  if (status.ok()) status = ValidateNotNegative("max_pause", max_pause);
  if (status.ok()) status = ValidateNotNegative("max_duration", max_duration);
  return status;
}

absl::Status SafepointOptions::Validate() const {
  if (!(tolerated_waste_percent >= 0) ||
      !std::isfinite(tolerated_waste_percent)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tolerated_waste_percent: ", tolerated_waste_percent,
                     "; must be 0 or more"));
  }
  return ValidateNotNegative("max_duration", max_duration);
}

}  // namespace firn
