// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the libcuda-shaped library is in a process, and from when until when:
// made by cuInit from the environment, gone when the process exits and in
// forked children. Private to vmm/cpu/libcuda.

#ifndef FIRN_VMM_CPU_LIBCUDA_PROCESS_H_
#define FIRN_VMM_CPU_LIBCUDA_PROCESS_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/cpu_driver_spec.h"
#include "firn/vmm/cpu/libcuda/contexts.h"
#include "firn/vmm/cpu/libcuda/host_allocations.h"
#include "firn/vmm/cpu/libcuda/reservation_index.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_types.h"

namespace firn::libcuda {

// The environment variable with the settings (vmm/cpu/cpu_driver_spec.h).
inline constexpr char kSpecVariable[] = "FIRN_CPU_DRIVER";

// The driver API whose functions are here: CUDA 13.0.
inline constexpr int32_t kDriverVersion = 13000;

// One device, in the context that a call acts in: the primary one, unless
// calls.h says so.
struct Device {
  int ordinal = 0;
  // For calls of the program: logged, failed and charged, as the spec says, in
  // all contexts of the device together.
  Driver* front = nullptr;
  // For calls of this library's own, in that context.
  CpuDriver* cpu = nullptr;
  CountingDriver* costs = nullptr;  // null without a cost profile
};

// Thread safety: all methods may be called from any thread.
class Process {
 public:
  // cuInit. Says on stderr what is wrong with the settings. kSuccess if it was
  // started before.
  static DriverResult Start();
  // The started process; kNotInitialized before that, kDeinitialized once the
  // process exits and in a child forked after that. Takes no lock.
  static DriverResult Get(Process** process);

  const std::vector<Device>& devices() const { return devices_; }
  Contexts& contexts() { return contexts_; }
  HostAllocations& host_allocations() { return host_allocations_; }
  // Kept up to date by whoever reserves.
  ReservationIndex& reservations() { return reservations_; }

 private:
  explicit Process(std::vector<std::unique_ptr<CpuDriver>> drivers)
      : drivers_(std::move(drivers)) {}

  // Null, and says why, if the settings are wrong.
  static DriverResult Make(Process** process);
  // Puts what the spec asks for in front of each device.
  void AddDevices(const CpuDriverSpec& spec, std::FILE* log);

  std::vector<std::unique_ptr<CpuDriver>> drivers_;
  std::vector<std::unique_ptr<Driver>> wrappers_;
  std::vector<Device> devices_;
  Contexts contexts_;
  HostAllocations host_allocations_;
  ReservationIndex reservations_;
};

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_PROCESS_H_
