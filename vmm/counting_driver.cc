// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/counting_driver.h"

#include <algorithm>

namespace firn {
namespace {

// A range of part of a granule is charged as one handle.
uint64_t HandlesOf(size_t bytes, uint64_t granule_bytes) {
  return std::max<uint64_t>(bytes / granule_bytes, 1);
}

}  // namespace

CountingDriver::CountingDriver(Driver* base, CostModel model,
                               uint64_t granule_bytes)
    : DriverWrapper(base),
      granule_bytes_(std::max<uint64_t>(granule_bytes, 1)),
      model_(model) {}

DriverResult CountingDriver::MemAddressReserve(DevicePtr* address, size_t bytes,
                                               size_t alignment_bytes,
                                               DevicePtr hint, uint64_t flags) {
  const DriverResult result =
      base()->MemAddressReserve(address, bytes, alignment_bytes, hint, flags);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    ++calls_.reserve;
    driver_us_ += model_.Reserve();
  }
  return result;
}

DriverResult CountingDriver::MemCreate(PhysicalHandle* handle, size_t bytes,
                                       const AllocationProp* prop,
                                       uint64_t flags) {
  const DriverResult result = base()->MemCreate(handle, bytes, prop, flags);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    ++calls_.create;
    const double us = model_.Create();
    driver_us_ += us;
    create_us_ += us;
  }
  return result;
}

DriverResult CountingDriver::MemRelease(PhysicalHandle handle) {
  const DriverResult result = base()->MemRelease(handle);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    ++calls_.release;
    driver_us_ += model_.Release();
  }
  return result;
}

DriverResult CountingDriver::MemMap(DevicePtr address, size_t bytes,
                                    size_t offset_bytes, PhysicalHandle handle,
                                    uint64_t flags) {
  const DriverResult result =
      base()->MemMap(address, bytes, offset_bytes, handle, flags);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    ++calls_.map;
    driver_us_ += model_.Map();
  }
  return result;
}

DriverResult CountingDriver::MemUnmap(DevicePtr address, size_t bytes) {
  const DriverResult result = base()->MemUnmap(address, bytes);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    ++calls_.unmap;
    driver_us_ += model_.Unmap(HandlesOf(bytes, granule_bytes_));
  }
  return result;
}

DriverResult CountingDriver::MemSetAccess(DevicePtr address, size_t bytes,
                                          const AccessDesc* descs,
                                          size_t count) {
  const DriverResult result =
      base()->MemSetAccess(address, bytes, descs, count);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    ++calls_.set_access;
    driver_us_ += model_.SetAccess(HandlesOf(bytes, granule_bytes_));
  }
  return result;
}

DriverResult CountingDriver::MemcpyDtoDAsync(DevicePtr dst, DevicePtr src,
                                             size_t bytes,
                                             StreamHandle stream) {
  const DriverResult result = base()->MemcpyDtoDAsync(dst, src, bytes, stream);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    ++calls_.copy;
    copy_us_ += model_.Copy(bytes);
  }
  return result;
}

DriverCalls CountingDriver::calls() const {
  const MutexLock lock(&mutex_);
  return calls_;
}

double CountingDriver::driver_us() const {
  const MutexLock lock(&mutex_);
  return driver_us_;
}

double CountingDriver::create_us() const {
  const MutexLock lock(&mutex_);
  return create_us_;
}

double CountingDriver::copy_us() const {
  const MutexLock lock(&mutex_);
  return copy_us_;
}

}  // namespace firn
