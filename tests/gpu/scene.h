// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A device of any driver, with short names for what measurements do over and
// over, and rows of granules that give themselves back.

#ifndef FIRN_TESTS_GPU_SCENE_H_
#define FIRN_TESTS_GPU_SCENE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"

namespace firn::gpu_check {

class Scene {
 public:
  // `driver` is not owned.
  Scene(Driver* driver, int ordinal, uint64_t granule_bytes)
      : driver_(driver), ordinal_(ordinal), granule_bytes_(granule_bytes) {}

  Driver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  uint64_t granule_bytes() const { return granule_bytes_; }
  uint64_t Bytes(uint64_t granules) const { return granules * granule_bytes_; }
  DevicePtr At(DevicePtr base, uint64_t granule) const {
    return base + granule * granule_bytes_;
  }

  MemLocation Location() const { return {LocationType::kDevice, ordinal_}; }
  AllocationProp Prop() const;
  AllocationProp PropAt(MemLocation location) const;
  AccessDesc Desc(AccessFlags flags = AccessFlags::kReadWrite) const {
    return {Location(), flags};
  }

  DriverResult Reserve(DevicePtr* address, uint64_t granules) const {
    return driver_->MemAddressReserve(address, Bytes(granules), granule_bytes_,
                                      0, 0);
  }
  DriverResult Free(DevicePtr address, uint64_t granules) const {
    return driver_->MemAddressFree(address, Bytes(granules));
  }
  // One handle.
  DriverResult Create(PhysicalHandle* handle, uint64_t granules = 1) const;
  DriverResult Map(DevicePtr address, PhysicalHandle handle,
                   uint64_t granules = 1) const {
    return driver_->MemMap(address, Bytes(granules), 0, handle, 0);
  }
  DriverResult SetAccess(DevicePtr address, uint64_t granules,
                         AccessFlags flags = AccessFlags::kReadWrite) const;
  DriverResult Unmap(DevicePtr address, uint64_t granules = 1) const {
    return driver_->MemUnmap(address, Bytes(granules));
  }

  // How many granules of this device's memory are free.
  uint64_t FreeGranules() const;
  // The most of `wanted` that `share` of the free memory holds; Unimplemented
  // if that is not at least `least`.
  absl::StatusOr<uint64_t> Afford(uint64_t wanted, double share,
                                  uint64_t least = 1) const;

 private:
  Driver* const driver_;
  const int ordinal_;
  const uint64_t granule_bytes_;
};

// A reservation and handles for it, one a granule. Undoes what was done.
class GranuleRow {
 public:
  static absl::StatusOr<std::unique_ptr<GranuleRow>> Reserve(const Scene& scene,
                                                             uint64_t granules);
  // With handles, mapped, accessible.
  static absl::StatusOr<std::unique_ptr<GranuleRow>> Mapped(const Scene& scene,
                                                            uint64_t granules);
  ~GranuleRow();
  GranuleRow(const GranuleRow&) = delete;
  GranuleRow& operator=(const GranuleRow&) = delete;

  DevicePtr base() const { return base_; }
  DevicePtr At(uint64_t granule) const { return scene_.At(base_, granule); }
  uint64_t granules() const { return granules_; }
  std::vector<PhysicalHandle>& handles() { return handles_; }

  // Each fails at the first call that does.
  absl::Status CreateHandles(uint64_t count);
  // Maps the granules from the first unmapped one on, up to `end`, to the
  // handles in turn.
  absl::Status MapUpTo(uint64_t end);
  absl::Status SetAccess(uint64_t first, uint64_t count);
  absl::Status UnmapAll();
  uint64_t mapped() const { return mapped_; }

 private:
  GranuleRow(const Scene& scene, DevicePtr base, uint64_t granules)
      : scene_(scene), base_(base), granules_(granules) {}

  const Scene scene_;
  const DevicePtr base_;
  const uint64_t granules_;
  uint64_t mapped_ = 0;
  std::vector<PhysicalHandle> handles_;
};

// A stream that gives itself back.
class OwnStream {
 public:
  static absl::StatusOr<std::unique_ptr<OwnStream>> Create(Driver* driver);
  ~OwnStream() { (void)driver_->StreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  StreamHandle get() const { return stream_; }
  absl::Status Synchronize() const;

 private:
  OwnStream(Driver* driver, StreamHandle stream)
      : driver_(driver), stream_(stream) {}

  Driver* const driver_;
  const StreamHandle stream_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_SCENE_H_
