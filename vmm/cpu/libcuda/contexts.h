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
#include <memory>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::libcuda {

// A context owns streams, events and a legacy stream, which go with it; memory,
// and the loss of it all by a fault, are its device's. But what the primary
// context owns is there from the start and outlives its last release. A handle
// is never used again, so that a dead one is known for dead.
// Thread safety: all methods may be called from any thread.
class Contexts {
 public:
  static constexpr int kNoDevice = -1;

  // A call that acts in a context that Create made: it is not destroyed
  // meanwhile.
  class Use {
   public:
    Use(Contexts* contexts, CudaContext context);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // Null if the context is primary, none, or dead.
    CpuDriver* driver() const { return driver_; }

   private:
    std::atomic<uint64_t>* users_ = nullptr;
    CpuDriver* driver_ = nullptr;
  };

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
  // `device` is the driver of the primary context, and can be called.
  // kOutOfMemory if there are too many, or once kCapacity have been made.
  DriverResult Create(CudaContext* context, CpuDriver* device, uint32_t flags);
  // Waits for the context's work, and for calls in it that have begun.
  // kInvalidContext for a dead or primary one.
  DriverResult Destroy(CudaContext context);
  // Waits for the work of all those of the device.
  DriverResult Synchronize(int device);

  static bool IsPrimary(CudaContext context) {
    return IndexOf(context) < kMaxCpuDevices;
  }
  // That with the number (CpuDriver::context); null if it is gone.
  CudaContext Find(int number);
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
  static constexpr int kOwnerShift = 32;

  // A place for a context that Create made.
  struct Place {
    // How many calls act in it, and above kOwnerShift the index of the context;
    // 0 there: none, or it is being destroyed.
    std::atomic<uint64_t> users{0};
    // Changes only while there are neither.
    std::unique_ptr<CpuDriver> driver;
  };
  // The place of the context of this index, or null.
  Place* FindPlace(size_t index);
  static CudaContext HandleOf(size_t index);
  // kCapacity for what is no handle.
  static size_t IndexOf(CudaContext context);

  // The device of each context that exists; the primary ones come first.
  std::array<std::atomic<int8_t>, kCapacity> devices_;
  std::array<Place, kMaxCpuContexts> places_;

  Mutex mutex_;
  size_t made_ ABSL_GUARDED_BY(mutex_) = kMaxCpuDevices;
  std::array<bool, kMaxCpuContexts> taken_ ABSL_GUARDED_BY(mutex_) = {};
  std::array<uint64_t, kMaxCpuDevices> retained_ ABSL_GUARDED_BY(mutex_) = {};
  std::array<uint32_t, kCapacity> flags_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_CONTEXTS_H_
