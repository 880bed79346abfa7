// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The first error after which a context is lost, and the call that returned it.
// Private to vmm/cuda.

#ifndef FIRN_VMM_CUDA_LOSS_LATCH_H_
#define FIRN_VMM_CUDA_LOSS_LATCH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// Thread safety: all methods may be called from any thread.
class LossLatch {
 public:
  // The one latch of a context of this driver: a context is lost for all who
  // use it. It lives while anybody holds it; who holds none of a lost context
  // learns of the loss from the driver's next answer.
  static std::shared_ptr<LossLatch> Of(const CudaApi& api, CudaContext context);

  // kSuccess while the context is not lost.
  DriverResult result() const {
    return static_cast<DriverResult>(
        static_cast<int32_t>(loss_.load(std::memory_order_acquire)));
  }
  // Notes a result that IsStickyResult; the first one stays, and is returned.
  DriverResult Latch(DriverCall call, DriverResult result);
  // "cuMemMap: CUDA_ERROR_ILLEGAL_ADDRESS (700)"; empty while not lost.
  std::string cause() const;

 private:
  // The call above 32 bits of the result.
  static constexpr int kCallShift = 32;
  std::atomic<uint64_t> loss_{0};
};

}  // namespace firn

#endif  // FIRN_VMM_CUDA_LOSS_LATCH_H_
