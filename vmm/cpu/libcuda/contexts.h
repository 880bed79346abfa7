// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Contexts of the libcuda-shaped library: which exist, of which device each is,
// and which is current on the calling thread. Private to vmm/cpu/libcuda.

#ifndef FIRN_VMM_CPU_LIBCUDA_CONTEXTS_H_
#define FIRN_VMM_CPU_LIBCUDA_CONTEXTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::libcuda {

// A context is a name for its device: all contexts of a device share its
// streams, events and memory, which outlive them. A handle is never used again,
// so that a dead one is known for dead.
// Thread safety: all methods may be called from any thread.
class Contexts {
 public:
  static constexpr int kNoDevice = -1;

  Contexts();
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  // --- Primary contexts; the device is valid ---
  CudaContext Retain(int device);
  DriverResult Release(int device);
  bool IsRetained(int device);
  uint32_t PrimaryFlags(int device);
  void SetPrimaryFlags(int device, uint32_t flags);

  // --- Other contexts ---
  // kOutOfMemory once kCapacity contexts have been made.
  DriverResult Create(CudaContext* context, int device, uint32_t flags);
  // kInvalidContext for a dead or primary one.
  DriverResult Destroy(CudaContext context);

  // Of what device the context is; kNoDevice if it is none, or dead.
  int DeviceOf(CudaContext context) const;
  // Of a context that exists.
  uint32_t FlagsOf(CudaContext context);

  // --- The calling thread's stack; the last one pushed is current ---
  static CudaContext Current();
  static bool Push(CudaContext context);  // false: the stack is full
  // Null if there is none.
  static CudaContext Pop();

 private:
  static constexpr size_t kCapacity = 65536;

  static CudaContext HandleOf(size_t index);
  // kCapacity for what is no handle.
  static size_t IndexOf(CudaContext context);

  // The device of each context that exists; the primary ones come first.
  std::array<std::atomic<int8_t>, kCapacity> devices_;

  Mutex mutex_;
  size_t made_ ABSL_GUARDED_BY(mutex_) = kMaxCpuDevices;
  std::array<uint64_t, kMaxCpuDevices> retained_ ABSL_GUARDED_BY(mutex_) = {};
  std::array<uint32_t, kCapacity> flags_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_CONTEXTS_H_
