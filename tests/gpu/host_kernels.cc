// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/host_kernels.h"

#include <cstring>
#include <deque>
#include <functional>
#include <utility>

#include "absl/time/clock.h"
#include "tests/gpu/deadline.h"
#include "tests/gpu/ptx_text.h"

namespace firn::gpu_check {
namespace {

void CallBody(void* body) { (*static_cast<std::function<void()>*>(body))(); }

void Spin(SpinControl* control, DevicePtr touched, absl::Duration limit) {
  if (touched != 0) {
    (void)*reinterpret_cast<const volatile uint32_t*>(touched);
  }
  const Deadline deadline(limit);
  control->started = 1;
  while (control->stop == 0 && !deadline.Passed()) {
    absl::SleepFor(absl::Microseconds(50));
  }
  control->ended = 1;
}

uint64_t XorOf(uint64_t address, uint64_t bytes) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < bytes; i += sizeof(sum)) {
    uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void*>(address + i),
                sizeof(word));
    sum ^= word;
  }
  return sum;
}

void ReadAll(const ReadPlan& plan) {
  const uint64_t slots = plan.part_bytes / kReadSlotBytes;
  const uint64_t outer = plan.interleaved ? slots : plan.vg_count;
  const uint64_t inner = plan.interleaved ? plan.vg_count : slots;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < outer; ++i) {
    for (uint64_t j = 0; j < inner; ++j) {
      const uint64_t vg = plan.interleaved ? j : i;
      const uint64_t slot = plan.interleaved ? i : j;
      const uint64_t alias = vg & (plan.aliases - 1);
      sum ^= XorOf(plan.base + vg * plan.vg_bytes + alias * plan.part_bytes +
                       slot * kReadSlotBytes,
                   kReadSlotBytes);
    }
  }
  [[maybe_unused]] const volatile uint64_t used = sum;
}

class HostKernels : public Kernels {
 public:
  HostKernels(const CudaApi& api, const KernelApi& kernel_api,
              CudaContext context, HostKernelLauncher launch)
      : Kernels(api, kernel_api, context), launch_(launch) {}

  // The word is not declared: a kernel must not lose its ranges while it runs,
  // and this one has no more use for it.
  absl::Status LaunchSpin(StreamHandle stream, SpinControl* control,
                          DevicePtr touched, absl::Duration limit) override {
    return Launch(stream, [=] { Spin(control, touched, limit); });
  }

  absl::Status LaunchRead(StreamHandle stream, const ReadPlan& plan) override {
    const firnCpuRange range = {plan.base, plan.vg_count * plan.vg_bytes, 0};
    return Launch(
        stream, [=] { ReadAll(plan); }, &range);
  }

 private:
  absl::Status Launch(StreamHandle stream, std::function<void()> body,
                      const firnCpuRange* range = nullptr) {
    bodies_.push_back(std::move(body));
    return InContext("firnCpuLaunchHostKernel", [&] {
      return static_cast<DriverResult>(launch_(stream, &CallBody,
                                               &bodies_.back(), range,
                                               range == nullptr ? 0u : 1u));
    });
  }

  const HostKernelLauncher launch_;
  // A deque: work holds on to the elements.
  std::deque<std::function<void()>> bodies_;
};

}  // namespace

HostKernelLauncher FindHostKernelLauncher(const std::string& library) {
  return reinterpret_cast<HostKernelLauncher>(
      FindExport(library, "firnCpuLaunchHostKernel"));
}

absl::StatusOr<std::unique_ptr<Kernels>> NewHostKernels(
    const CudaApi& api, const KernelApi& kernel_api, CudaContext context,
    HostKernelLauncher launch) {
  return std::make_unique<HostKernels>(api, kernel_api, context, launch);
}

}  // namespace firn::gpu_check
