// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One device of a loaded driver with its primary context, and the scope that
// makes that context current on a thread. Private to vmm/cuda.

#ifndef FIRN_VMM_CUDA_CUDA_DEVICE_H_
#define FIRN_VMM_CUDA_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/cuda/loss_latch.h"
#include "firn/vmm/driver.h"

namespace firn {

// Holds the primary context: the one that the CUDA runtime, and so nearly
// every framework, uses on this device. Thread safety: immutable once open,
// but for the latch.
class CudaDevice {
 public:
  // Initialises the driver and counts its devices; none is Unavailable.
  static absl::StatusOr<int> Count(const CudaApi& api);
  // Initialises the driver. The status says in one sentence what is wrong:
  // Unavailable if there is no such device, or it cannot be used at all;
  // Unimplemented if there is, and no memory can be moved on it: because of the
  // driver, or because the device says so and `needs_virtual_memory`.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(
      const CudaApi& api, int ordinal, bool needs_virtual_memory);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaApi& api() const { return api_; }
  const DriverIdentity& identity() const { return identity_; }
  CudaDeviceId id() const { return id_; }
  CudaContext context() const { return context_; }
  // Of the primary context: shared with the other objects of this device.
  LossLatch& loss() const { return *loss_; }

 private:
  CudaDevice(const CudaApi& api, CudaDeviceId id, CudaContext context,
             DriverIdentity identity);

  const CudaApi api_;
  const CudaDeviceId id_;
  const CudaContext context_;
  const DriverIdentity identity_;
  const std::shared_ptr<LossLatch> loss_;
};

// Makes a device's context current on this thread, and what was current before
// current again at the end.
class ScopedCudaContext {
 public:
  explicit ScopedCudaContext(const CudaDevice& device)
      : device_(device),
        result_(device.api().CtxPushCurrent(device.context())) {}
  ~ScopedCudaContext();
  ScopedCudaContext(const ScopedCudaContext&) = delete;
  ScopedCudaContext& operator=(const ScopedCudaContext&) = delete;

  // Anything but kSuccess: the context is not current.
  DriverResult result() const { return result_; }

 private:
  const CudaDevice& device_;
  const DriverResult result_;
};

}  // namespace firn

#endif  // FIRN_VMM_CUDA_CUDA_DEVICE_H_
