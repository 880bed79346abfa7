// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/setting.h"

#include "absl/time/time.h"
#include "tests/core/property/history_account.h"

namespace firn::testing::property {

CpuDriverOptions Setting::DriverOptions() const {
  CpuDriverOptions options;
  options.storage = storage;
  options.sync = sync;
  options.granularity_bytes = granule_bytes;
  options.device_bytes = 2 * capacity_bytes();
  return options;
}

PoolOptions Setting::Options() const {
  PoolOptions options;
  options.capacity_bytes = capacity_bytes();
  options.address_space_factor = address_space_factor;
  options.max_mapped_vgs = max_mapped_vgs;
  options.move_on_failure = move_on_failure;
  if (exporting) {
    options.export_type = ShareableHandleType::kPosixFileDescriptor;
  }
  options.placement = placement;
  options.host_spill_limit_bytes = granule_bytes * host_granules;
  options.history_entries = HistoryAccount::kEntries;
  // However slow the machine is.
  options.max_wait = absl::Minutes(2);
  return options;
}

absl::string_view NameOf(CpuStorage storage) {
  return storage == CpuStorage::kReal ? "CpuStorage::kReal"
                                      : "CpuStorage::kGhost";
}

absl::string_view NameOf(CpuSync sync) {
  return sync == CpuSync::kLazy ? "CpuSync::kLazy" : "CpuSync::kDraining";
}

absl::string_view NameOf(PlacementKind kind) {
  constexpr absl::string_view kNames[] = {
      "PlacementKind::kFirn",    "PlacementKind::kFreeList",
      "PlacementKind::kBestFit", "PlacementKind::kSizeHash",
      "PlacementKind::kSlab",    "PlacementKind::kBuddy",
      "PlacementKind::kTiered"};
  return kNames[static_cast<size_t>(kind)];
}

Setting DrawSetting(CpuStorage storage, CpuSync sync, Choices& choices) {
  constexpr uint64_t kKiB = 1024;
  // Real contents are checked byte by byte: small granules, few of them.
  constexpr uint64_t kRealGranules[] = {64 * kKiB, 64 * kKiB, 128 * kKiB};
  constexpr uint64_t kGhostGranules[] = {64 * kKiB, 256 * kKiB, 2048 * kKiB};
  constexpr uint32_t kFactors[] = {2, 4, 16};
  Setting setting;
  setting.storage = storage;
  setting.sync = sync;
  if (storage == CpuStorage::kReal) {
    setting.granule_bytes = kRealGranules[choices.Index(3)];
    setting.capacity_granules = static_cast<uint32_t>(choices.Between(2, 40));
  } else {
    setting.granule_bytes = kGhostGranules[choices.Index(3)];
    setting.capacity_granules = static_cast<uint32_t>(choices.Between(1, 96));
  }
  if (choices.OneIn(16)) setting.capacity_granules = 1;
  setting.address_space_factor = kFactors[choices.Index(3)];
  if (choices.OneIn(3)) {
    setting.max_mapped_vgs = setting.capacity_granules *
                             static_cast<uint32_t>(choices.Between(1, 3));
  }
  setting.move_on_failure = choices.OneIn(2);
  setting.scoped = choices.OneIn(2);
  setting.settled = choices.OneIn(4);
  setting.exporting = choices.OneIn(3);
  if (choices.OneIn(3)) {
    setting.placement = static_cast<PlacementKind>(
        choices.Between(1, static_cast<uint64_t>(PlacementKind::kTiered)));
  }
  if (!choices.OneIn(3)) setting.host_granules = 1 + choices.Index(16);
  return setting;
}

}  // namespace firn::testing::property
