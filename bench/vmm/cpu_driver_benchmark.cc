// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the CPU driver adds to the host's own calls. One iteration of both
// benchmarks replaces the granule beneath an address: access gone, another
// granule there, access given.
//
// Both do so at the same addresses: what a call costs the kernel depends on
// where in the process's tree of mappings they lie, by up to a half.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn {
namespace {

constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
constexpr uint64_t kAddresses = 64;
constexpr uint64_t kBytes = kAddresses * kGranuleBytes;
// Two granules an address.
constexpr uint64_t kGranules = 2 * kAddresses;

// A device with addresses and granules, nothing mapped; null if the driver
// refuses. Made once, so that both benchmarks get the same addresses.
struct RemapScene {
  std::unique_ptr<CpuDriver> driver;
  DevicePtr base = 0;
  std::array<PhysicalHandle, kGranules> handles = {};
};

std::unique_ptr<RemapScene> MakeScene() {
  CpuDriverOptions options;
  options.device_bytes = kGranules * kGranuleBytes;
  options.poison = false;
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(std::move(options));
  if (!driver.ok()) return nullptr;
  auto scene = std::make_unique<RemapScene>();
  scene->driver = *std::move(driver);
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location.type = LocationType::kDevice;
  bool ok =
      scene->driver->MemAddressReserve(&scene->base, kBytes, kGranuleBytes, 0,
                                       0) == DriverResult::kSuccess;
  for (PhysicalHandle& handle : scene->handles) {
    ok = ok && scene->driver->MemCreate(&handle, kGranuleBytes, &prop, 0) ==
                   DriverResult::kSuccess;
  }
  return ok ? std::move(scene) : nullptr;
}

RemapScene* Scene() {
  static const std::unique_ptr<RemapScene> scene = MakeScene();
  return scene.get();
}

bool MapNothing(char* address, uint64_t bytes) {
  return mmap(address, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

bool MapGranule(char* address, int file, uint64_t granule) {
  return mmap(address, kGranuleBytes, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED, file,
              static_cast<off_t>(granule * kGranuleBytes)) != MAP_FAILED;
}

// The host's calls alone, on a memfd of as many granules.
void BM_BareRemap(benchmark::State& state) {
  const int file = memfd_create("firn benchmark", MFD_CLOEXEC);
  const RemapScene* const scene = Scene();
  if (file < 0 || scene == nullptr ||
      ftruncate(file, static_cast<off_t>(kGranules * kGranuleBytes)) != 0) {
    state.SkipWithError("the host refuses memory");
    return;
  }
  char* const base =
      reinterpret_cast<char*>(static_cast<uintptr_t>(scene->base));
  bool ok = true;
  for (uint64_t i = 0; i < kAddresses; ++i) {
    ok = ok && MapGranule(base + i * kGranuleBytes, file, i);
  }
  uint64_t i = 0;
  for (auto _ : state) {
    char* const address = base + i % kAddresses * kGranuleBytes;
    ok = ok && MapNothing(address, kGranuleBytes) &&
         MapGranule(address, file, i % kGranules);
    ++i;
  }
  if (!ok) state.SkipWithError("a call to the host failed");
  MapNothing(base, kBytes);
  close(file);
}
BENCHMARK(BM_BareRemap);

// The same by the driver's calls.
void BM_CpuDriverRemap(benchmark::State& state) {
  RemapScene* const scene = Scene();
  if (scene == nullptr) {
    state.SkipWithError("the CPU driver refuses memory");
    return;
  }
  Driver* const driver = scene->driver.get();
  AccessDesc access;
  access.location.type = LocationType::kDevice;
  access.flags = AccessFlags::kReadWrite;
  const auto map = [&](DevicePtr address, PhysicalHandle handle) {
    return driver->MemMap(address, kGranuleBytes, 0, handle, 0) ==
               DriverResult::kSuccess &&
           driver->MemSetAccess(address, kGranuleBytes, &access, 1) ==
               DriverResult::kSuccess;
  };
  bool ok = true;
  for (uint64_t i = 0; i < kAddresses; ++i) {
    ok = ok && map(scene->base + i * kGranuleBytes, scene->handles[i]);
  }
  uint64_t i = 0;
  for (auto _ : state) {
    const DevicePtr address = scene->base + i % kAddresses * kGranuleBytes;
    ok = ok &&
         driver->MemUnmap(address, kGranuleBytes) == DriverResult::kSuccess &&
         map(address, scene->handles[i % kGranules]);
    ++i;
  }
  ok = ok && driver->MemUnmap(scene->base, kBytes) == DriverResult::kSuccess;
  if (!ok) state.SkipWithError("a call to the driver failed");
}
BENCHMARK(BM_CpuDriverRemap);

}  // namespace
}  // namespace firn
