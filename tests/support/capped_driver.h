// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver whose device memory runs out when a test wants it to: no test can
// use up a GPU that others share, or one of unknown size.

#ifndef FIRN_TESTS_SUPPORT_CAPPED_DRIVER_H_
#define FIRN_TESTS_SUPPORT_CAPPED_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"

namespace firn::testing {

// Answers MemCreate of device memory with kOutOfMemory while there are
// `most_handles` such handles, made here and not released. Host memory and
// what is imported do not count. Thread safety: as Driver.
class CappedDriver : public DriverWrapper {
 public:
  // Does not own `base`.
  CappedDriver(Driver* base, uint64_t most_handles)
      : DriverWrapper(base), most_handles_(most_handles) {}

  // Takes nothing away if there are more already.
  void set_most_handles(uint64_t most_handles) {
    const MutexLock lock(&mutex_);
    most_handles_ = most_handles;
  }
  uint64_t handles() const {
    const MutexLock lock(&mutex_);
    return references_.size();
  }

  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    if (prop == nullptr || prop->location.type != LocationType::kDevice) {
      return DriverWrapper::MemCreate(handle, bytes, prop, flags);
    }
    {
      const MutexLock lock(&mutex_);
      if (references_.size() + being_created_ >= most_handles_) {
        return DriverResult::kOutOfMemory;
      }
      ++being_created_;
    }
    const DriverResult result =
        DriverWrapper::MemCreate(handle, bytes, prop, flags);
    const MutexLock lock(&mutex_);
    --being_created_;
    if (result == DriverResult::kSuccess) ++references_[*handle];
    return result;
  }

  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override {
    const DriverResult result =
        DriverWrapper::MemRetainAllocationHandle(handle, address);
    if (result == DriverResult::kSuccess) {
      const MutexLock lock(&mutex_);
      const auto it = references_.find(*handle);
      if (it != references_.end()) ++it->second;
    }
    return result;
  }

  DriverResult MemRelease(PhysicalHandle handle) override {
    // Forgotten first: once released, the number may come back at once.
    bool counted = false;
    {
      const MutexLock lock(&mutex_);
      const auto it = references_.find(handle);
      counted = it != references_.end();
      if (counted && --it->second == 0) references_.erase(it);
    }
    const DriverResult result = DriverWrapper::MemRelease(handle);
    if (result != DriverResult::kSuccess && counted) {
      const MutexLock lock(&mutex_);
      ++references_[handle];
    }
    return result;
  }

 private:
  mutable Mutex mutex_;
  uint64_t most_handles_ ABSL_GUARDED_BY(mutex_);
  uint64_t being_created_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<PhysicalHandle, uint64_t> references_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_CAPPED_DRIVER_H_
