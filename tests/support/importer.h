// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Another user of exported memory: a driver of its own that imports the
// granules of a block and maps them side by side.

#ifndef FIRN_TESTS_SUPPORT_IMPORTER_H_
#define FIRN_TESTS_SUPPORT_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "firn/core/exported_block.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gtest/gtest.h"

namespace firn::testing {

class Importer {
 public:
  // The running test fails if something is refused. The descriptors may be
  // closed once this returns.
  Importer(const ExportedBlock& exported, CpuSync sync) {
    CpuDriverOptions options;
    options.sync = sync;
    options.granularity_bytes = exported.granule_bytes();
    options.device_bytes = 64 * exported.granule_bytes();
    absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
        CpuDriver::Create(std::move(options));
    EXPECT_TRUE(driver.ok()) << driver.status();
    if (!driver.ok()) return;
    driver_ = *std::move(driver);
    const bool mapped = Map(exported);
    EXPECT_TRUE(mapped) << driver_->last_report();
    if (mapped) data_ = reinterpret_cast<char*>(address_);
  }
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;

  // The start of the first granule; nullptr if it could not be mapped. The
  // driver unmaps it when this goes.
  char* data() const { return data_; }

 private:
  bool Map(const ExportedBlock& exported) {
    const size_t granule_bytes = exported.granule_bytes();
    const size_t bytes = exported.granule_count() * granule_bytes;
    if (driver_->MemAddressReserve(&address_, bytes, 0, 0, 0) !=
        DriverResult::kSuccess) {
      return false;
    }
    for (size_t i = 0; i < exported.granule_count(); ++i) {
      PhysicalHandle handle = 0;
      void* const shareable =
          reinterpret_cast<void*>(intptr_t{exported.descriptor(i)});
      if (driver_->MemImportFromShareableHandle(
              &handle, shareable, exported.type()) != DriverResult::kSuccess ||
          driver_->MemMap(address_ + i * granule_bytes, granule_bytes, 0,
                          handle, 0) != DriverResult::kSuccess) {
        return false;
      }
    }
    AccessDesc access;
    access.location = {LocationType::kDevice, 0};
    access.flags = AccessFlags::kReadWrite;
    return driver_->MemSetAccess(address_, bytes, &access, 1) ==
           DriverResult::kSuccess;
  }

  std::unique_ptr<CpuDriver> driver_;
  DevicePtr address_ = 0;
  char* data_ = nullptr;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_IMPORTER_H_
