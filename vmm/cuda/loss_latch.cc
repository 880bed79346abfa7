// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/loss_latch.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/mutex.h"

namespace firn {
namespace {

// A context, and a function of the library that it is of: several drivers in
// one process (in tests) may use the same values.
using ContextKey =
    std::pair<decltype(CudaApi::DevicePrimaryCtxRetain), CudaContext>;

struct LatchRegistry {
  Mutex mutex;
  std::map<ContextKey, std::weak_ptr<LossLatch>> latches ABSL_GUARDED_BY(mutex);
};

// Never destroyed: devices may be closed by destructors at exit.
LatchRegistry& Registry() {
  static LatchRegistry* const registry = new LatchRegistry;
  return *registry;
}

}  // namespace

std::shared_ptr<LossLatch> LossLatch::Of(const CudaApi& api,
                                         CudaContext context) {
  LatchRegistry& registry = Registry();
  const MutexLock lock(&registry.mutex);
  std::weak_ptr<LossLatch>& entry =
      registry.latches[{api.DevicePrimaryCtxRetain, context}];
  std::shared_ptr<LossLatch> latch = entry.lock();
  if (latch == nullptr) {
    latch = std::make_shared<LossLatch>();
    entry = latch;
  }
  return latch;
}

DriverResult LossLatch::Latch(DriverCall call, DriverResult result) {
  uint64_t first = 0;
  const uint64_t loss =
      static_cast<uint64_t>(call) << kCallShift | static_cast<uint32_t>(result);
  return loss_.compare_exchange_strong(first, loss, std::memory_order_acq_rel)
             ? result
             : static_cast<DriverResult>(static_cast<int32_t>(first));
}

std::string LossLatch::cause() const {
  const uint64_t loss = loss_.load(std::memory_order_acquire);
  const auto result = static_cast<DriverResult>(static_cast<int32_t>(loss));
  if (result == DriverResult::kSuccess) return "";
  return absl::StrCat(
      DriverCallName(static_cast<DriverCall>(loss >> kCallShift)), ": ",
      DriverResultName(result), " (", static_cast<int32_t>(result), ")");
}

}  // namespace firn
