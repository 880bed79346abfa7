// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Host memory that was allocated by one call and is freed by its address alone:
// cuMemHostAlloc. Private to vmm/cpu/libcuda.

#ifndef FIRN_VMM_CPU_LIBCUDA_HOST_ALLOCATIONS_H_
#define FIRN_VMM_CPU_LIBCUDA_HOST_ALLOCATIONS_H_

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "firn/vmm/mutex.h"

namespace firn::libcuda {

// Thread safety: all methods may be called from any thread.
class HostAllocations {
 public:
  void Insert(void* memory) {
    MutexLock lock(&mutex_);
    allocations_.insert(memory);
  }
  // Forgets what was allocated there; false if nothing was.
  bool Take(void* memory) {
    MutexLock lock(&mutex_);
    return allocations_.erase(memory) != 0;
  }

 private:
  Mutex mutex_;
  absl::flat_hash_set<void*> allocations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_HOST_ALLOCATIONS_H_
