// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a launch scope costs the launching thread: enter and leave, nobody else
// about, on a ghost device.

#include <cstdint>
#include <memory>
#include <utility>

#include "benchmark/benchmark.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

void EnterAndLeave(benchmark::State& state, bool is_armed) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  driver_options.device_bytes = 64 * kMiB;
  auto driver = CpuDriver::Create(std::move(driver_options));
  if (!driver.ok()) {
    state.SkipWithError(driver.status().ToString().c_str());
    return;
  }
  const std::shared_ptr<Driver> device = *std::move(driver);
  StreamHandle stream = nullptr;
  PoolOptions options;
  options.driver = device;
  auto pool = Pool::Create(std::move(options));
  if (!pool.ok() || device->StreamCreate(&stream, kStreamNonBlocking) !=
                        DriverResult::kSuccess) {
    state.SkipWithError("cannot make a pool and a stream");
    return;
  }
  if (is_armed) (*pool)->launch_gate()->Arm();
  for (auto _ : state) {
    const LaunchScope scope(**pool, stream);
  }
}

// No gated pass has been asked for yet.
void BM_LaunchScope(benchmark::State& state) {
  EnterAndLeave(state, /*is_armed=*/false);
}
BENCHMARK(BM_LaunchScope);

// Gated passes are being made: the scope's end writes a token on the stream.
void BM_LaunchScope_Armed(benchmark::State& state) {
  EnterAndLeave(state, /*is_armed=*/true);
}
BENCHMARK(BM_LaunchScope_Armed);

}  // namespace
}  // namespace firn
