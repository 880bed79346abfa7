// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels that measurements launch, in a context and on streams of their
// own: PTX on a GPU, host functions on the CPU driver's library.

#ifndef FIRN_TESTS_GPU_KERNELS_H_
#define FIRN_TESTS_GPU_KERNELS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"
#include "tests/gpu/kernel_api.h"

namespace firn::gpu_check {

// What a spinning kernel and the host tell each other: memory that both see.
struct SpinControl {
  std::atomic<uint32_t> stop{0};
  std::atomic<uint32_t> started{0};
  std::atomic<uint32_t> ended{0};
};
static_assert(sizeof(SpinControl) == 12, "as the kernel has it");

// What firn_read of tests/gpu/ptx_text.h reads.
struct ReadPlan {
  DevicePtr base = 0;
  uint64_t vg_bytes = 0;
  uint64_t part_bytes = 0;  // of each granule that is read
  uint32_t aliases = 1;     // a power of two
  uint32_t vg_count = 0;
  bool interleaved = false;
  DevicePtr sink = 0;  // of four bytes, hardly ever written

  uint64_t bytes() const { return vg_count * part_bytes; }
};

enum class ContextKind { kPrimary, kSecond };

// One context with kernels loaded into it.
class Kernels {
 public:
  // Opens the driver's library once more. Unimplemented says what it lacks.
  static absl::StatusOr<std::unique_ptr<Kernels>> Open(
      const std::string& library, int ordinal, ContextKind kind);
  virtual ~Kernels() = default;

  // A non-blocking stream of the context, for good.
  absl::StatusOr<StreamHandle> NewStream();
  absl::Status Synchronize(StreamHandle stream);
  // Memory of the host that kernels see, for good.
  absl::StatusOr<SpinControl*> NewControl();
  // Where the device sees it.
  absl::StatusOr<DevicePtr> DeviceAddress(SpinControl* control);

  // Runs on the stream until told to stop, but no longer than `limit`. Reads
  // the word at `touched` when it starts, unless that is 0.
  virtual absl::Status LaunchSpin(StreamHandle stream, SpinControl* control,
                                  DevicePtr touched, absl::Duration limit) = 0;
  virtual absl::Status LaunchRead(StreamHandle stream,
                                  const ReadPlan& plan) = 0;

 protected:
  Kernels(const CudaApi& api, const KernelApi& kernel_api, CudaContext context)
      : api_(api), kernel_api_(kernel_api), context_(context) {}

  const KernelApi& kernel_api() const { return kernel_api_; }
  // With the context current.
  absl::Status InContext(const char* name,
                         absl::FunctionRef<DriverResult()> call);

 private:
  const CudaApi api_;
  const KernelApi kernel_api_;
  const CudaContext context_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_KERNELS_H_
