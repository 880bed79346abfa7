// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a sequence of operations runs on: a device and a pool.

#ifndef FIRN_TESTS_CORE_PROPERTY_SETTING_H_
#define FIRN_TESTS_CORE_PROPERTY_SETTING_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "firn/core/pool_options.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "tests/core/property/choices.h"

namespace firn::testing::property {

struct Setting {
  static constexpr absl::string_view kName = "Setting";

  CpuStorage storage = CpuStorage::kReal;
  CpuSync sync = CpuSync::kLazy;
  uint64_t granule_bytes = 64 << 10;
  uint32_t capacity_granules = 32;
  uint32_t address_space_factor = 16;
  uint32_t max_mapped_vgs = 0;
  bool move_on_failure = false;
  // Work is launched inside scopes; else only what asks for it is.
  bool scoped = false;
  // No work is in flight between operations: nothing depends on time.
  bool settled = false;
  // Memory may be given to other processes.
  bool exporting = false;
  PlacementKind placement = PlacementKind::kFirn;
  // That may be spilled to; 0: nothing is.
  uint32_t host_granules = 0;

  uint64_t capacity_bytes() const { return granule_bytes * capacity_granules; }
  // A forced move relies on all work being in scopes once there was a scope.
  bool may_use_scopes() const { return scoped || !move_on_failure; }

  CpuDriverOptions DriverOptions() const;
  // But for the driver.
  PoolOptions Options() const;

  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("storage", storage);
    visit("sync", sync);
    visit("granule_bytes", granule_bytes);
    visit("capacity_granules", capacity_granules);
    visit("address_space_factor", address_space_factor);
    visit("max_mapped_vgs", max_mapped_vgs);
    visit("move_on_failure", move_on_failure);
    visit("scoped", scoped);
    visit("settled", settled);
    visit("exporting", exporting);
    visit("placement", placement);
    visit("host_granules", host_granules);
  }
};

absl::string_view NameOf(CpuStorage storage);
absl::string_view NameOf(CpuSync sync);
absl::string_view NameOf(PlacementKind kind);

// Any setting with this storage and sync.
Setting DrawSetting(CpuStorage storage, CpuSync sync, Choices& choices);

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_SETTING_H_
