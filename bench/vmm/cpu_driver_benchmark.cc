// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the CPU driver adds to the host's own calls. One iteration of both
// benchmarks replaces the granule beneath an address: access gone, another
// granule there, access given.

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

// The host's calls alone, on a memfd of two granules an address.
void BM_BareRemap(benchmark::State& state) {
  const int file = memfd_create("firn benchmark", MFD_CLOEXEC);
  const uint64_t bytes = kAddresses * kGranuleBytes;
  void* const base = mmap(nullptr, bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (file < 0 || base == MAP_FAILED ||
      ftruncate(file, static_cast<off_t>(2 * bytes)) != 0) {
    state.SkipWithError("the host refuses memory");
    return;
  }
  uint64_t i = 0;
  for (auto _ : state) {
    char* const address =
        static_cast<char*>(base) + i % kAddresses * kGranuleBytes;
    const uint64_t granule = i % (2 * kAddresses);
    void* const gone =
        mmap(address, kGranuleBytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    void* const there = mmap(address, kGranuleBytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED, file,
                             static_cast<off_t>(granule * kGranuleBytes));
    if (gone == MAP_FAILED || there == MAP_FAILED) {
      state.SkipWithError("a remap failed");
      break;
    }
    ++i;
  }
  munmap(base, bytes);
  close(file);
}
BENCHMARK(BM_BareRemap);

// The same by the driver's calls.
void BM_CpuDriverRemap(benchmark::State& state) {
  CpuDriverOptions options;
  options.device_bytes = 2 * kAddresses * kGranuleBytes;
  options.poison = false;
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(std::move(options));
  if (!driver.ok()) {
    state.SkipWithError(driver.status().ToString().c_str());
    return;
  }
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location.type = LocationType::kDevice;
  AccessDesc access;
  access.location = prop.location;
  access.flags = AccessFlags::kReadWrite;
  std::array<PhysicalHandle, 2 * kAddresses> handles = {};
  DevicePtr base = 0;
  bool ok = (*driver)->MemAddressReserve(&base, kAddresses * kGranuleBytes,
                                         kGranuleBytes, 0,
                                         0) == DriverResult::kSuccess;
  for (PhysicalHandle& handle : handles) {
    ok = ok && (*driver)->MemCreate(&handle, kGranuleBytes, &prop, 0) ==
                   DriverResult::kSuccess;
  }
  for (uint64_t i = 0; i < kAddresses; ++i) {
    const DevicePtr address = base + i * kGranuleBytes;
    ok = ok && (*driver)->MemMap(address, kGranuleBytes, 0, handles[i], 0) ==
                   DriverResult::kSuccess;
    ok = ok && (*driver)->MemSetAccess(address, kGranuleBytes, &access, 1) ==
                   DriverResult::kSuccess;
  }
  uint64_t i = 0;
  for (auto _ : state) {
    const DevicePtr address = base + i % kAddresses * kGranuleBytes;
    const PhysicalHandle handle = handles[i % handles.size()];
    ok =
        ok &&
        (*driver)->MemUnmap(address, kGranuleBytes) == DriverResult::kSuccess &&
        (*driver)->MemMap(address, kGranuleBytes, 0, handle, 0) ==
            DriverResult::kSuccess &&
        (*driver)->MemSetAccess(address, kGranuleBytes, &access, 1) ==
            DriverResult::kSuccess;
    ++i;
  }
  if (!ok) state.SkipWithError("a call to the driver failed");
}
BENCHMARK(BM_CpuDriverRemap);

}  // namespace
}  // namespace firn
