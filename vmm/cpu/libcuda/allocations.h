// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that was allocated by one call and is freed by its address alone:
// cuMemAlloc and cuMemHostAlloc. Private to vmm/cpu/libcuda.

#ifndef FIRN_VMM_CPU_LIBCUDA_ALLOCATIONS_H_
#define FIRN_VMM_CPU_LIBCUDA_ALLOCATIONS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::libcuda {

// Thread safety: all methods may be called from any thread.
class Allocations {
 public:
  struct Record {
    uint64_t bytes = 0;       // as reserved; 0: nothing was allocated there
    int device_ordinal = -1;  // -1: host memory
  };

  void Insert(uint64_t address, const Record& record) {
    MutexLock lock(&mutex_);
    records_[address] = record;
  }
  // Forgets what was allocated at `address`, of device or host memory.
  Record Take(uint64_t address, bool host) {
    MutexLock lock(&mutex_);
    const auto found = records_.find(address);
    if (found == records_.end()) return Record();
    if (host != (found->second.device_ordinal < 0)) return Record();
    const Record record = found->second;
    records_.erase(found);
    return record;
  }

 private:
  Mutex mutex_;
  absl::flat_hash_map<uint64_t, Record> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_ALLOCATIONS_H_
