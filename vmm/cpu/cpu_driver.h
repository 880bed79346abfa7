// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CUDA device without a GPU: real memory, a real MMU, streams that are
// queues run by worker threads. Stricter than any GPU: every misuse of the
// virtual-memory calls is refused with the error code an NVIDIA driver gives.

#ifndef FIRN_VMM_CPU_CPU_DRIVER_H_
#define FIRN_VMM_CPU_CPU_DRIVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/driver.h"

namespace firn {

enum class CpuStorage {
  kReal,   // contents exist
  kGhost,  // bookkeeping only: a device of any size on any machine
};

// What MemUnmap and MemSetAccess do about work in flight. A real driver does
// something between the two, and does not say what: code that is right under
// both is right.
enum class CpuSync {
  kLazy,      // they take effect at once
  kDraining,  // they wait for all work queued before on the device
};

struct CpuDriverOptions {
  CpuStorage storage = CpuStorage::kReal;
  // What the device has; 0 means what the host has free (real) or 80 GiB
  // (ghost). Rounded down to whole granules.
  uint64_t device_bytes = 0;
  // Minimum and recommended granularity: a power of two, a multiple of the
  // host's page size.
  uint64_t granularity_bytes = uint64_t{2} << 20;
  // Fill created memory with kCpuPoisonWord, so that code that relies on what
  // was there before fails (real storage only).
  bool poison = true;
  CpuSync sync = CpuSync::kLazy;
  // kDraining: once no work has ended for so long, the calling thread and the
  // work are taken to wait for each other. The deadlock is reported on stderr
  // with the streams and what they do, the device is lost, and the call returns
  // kLaunchTimeout.
  absl::Duration deadlock_timeout = absl::Seconds(10);
  std::string device_name = "firn CPU driver";
};

// What fresh memory of a poisoned device holds, over and over: not a number as
// float, double, half or bfloat16, and no likely integer.
inline constexpr uint32_t kCpuPoisonWord = 0xFFFBA5DB;

// A range of device addresses that a kernel says it reads or writes.
struct KernelRange {
  DevicePtr address = 0;
  uint64_t bytes = 0;
  bool writes = false;
};

// Copies from and to host memory are asynchronous throughout: the host buffer
// must stay until the copy is done. A copy or fill with a bad address, and a
// copy whose two ranges overlap, is refused with kInvalidValue; if an address
// turns bad before the work runs, the device is lost.
// Destruction waits for all work and unmaps everything.
class CpuDriver : public Driver {
 public:
  // InvalidArgument names the option that is wrong.
  static absl::StatusOr<std::unique_ptr<CpuDriver>> Create(
      CpuDriverOptions options);

  // Queues `body` on `stream`, to be run by its worker with direct access to
  // the device's addresses.
  // The ranges are checked when it is about to start: if one is not mapped and
  // accessible then, the device is lost (kIllegalAddress from then on) and the
  // body does not run. While it runs, an access to memory of a reservation that
  // is not mapped or not accessible, declared or not, loses the device too; the
  // body goes on over a scratch page. An access outside every reservation is
  // an ordinary segmentation fault.
  // Ghost storage: the ranges are checked at once, the body is not run.
  virtual DriverResult LaunchKernel(StreamHandle stream,
                                    std::vector<KernelRange> ranges,
                                    std::function<void()> body) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_CPU_CPU_DRIVER_H_
