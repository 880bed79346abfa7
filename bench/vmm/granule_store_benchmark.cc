// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the granule store's fast path costs on the host.

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/store_keeper.h"
#include "firn/vmm/units.h"

namespace firn {
namespace {

constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
constexpr uint32_t kCachedGranules = 1024;

// One iteration: a cached granule is got and put back, in a store between its
// marks that has a keeper. Its thread has nothing to do, but is there, as some
// always are: in a process without threads the lock costs half.
void BM_GranuleGetPut(benchmark::State& state) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  driver_options.granularity_bytes = kGranuleBytes;
  driver_options.device_bytes = kCachedGranules * kGranuleBytes;
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(std::move(driver_options));
  if (!driver.ok()) {
    state.SkipWithError(driver.status().ToString().c_str());
    return;
  }
  GranuleStoreOptions options;
  options.granule_bytes = kGranuleBytes;
  options.budget_granules = kCachedGranules;
  options.movable = MovableProp(0);
  options.low_water_granules = 64;
  GranuleStore store(driver->get(), options);
  absl::StatusOr<std::unique_ptr<StoreKeeper>> keeper =
      StoreKeeper::Start(driver->get(), &store, StoreKeeperOptions());
  if (!keeper.ok()) {
    state.SkipWithError(keeper.status().ToString().c_str());
    return;
  }
  Acquisition acquisition;
  if (!store.AcquireAtMost(kCachedGranules, &acquisition).ok() ||
      acquisition.granules.size() != kCachedGranules) {
    state.SkipWithError("cannot fill the store");
    return;
  }
  for (const GranuleId granule : acquisition.granules) store.Put(granule);
  while ((*keeper)->rounds() == 0) std::this_thread::yield();

  for (auto _ : state) {
    const GranuleId granule = store.Get();
    if (granule.is_none()) {
      state.SkipWithError("the cache is empty");
      return;
    }
    store.Put(granule);
  }
  if (!(*keeper)->first_failure().ok() ||
      store.created_total() != kCachedGranules || store.released_total() != 0) {
    state.SkipWithError("it was not the fast path");
  }
}
BENCHMARK(BM_GranuleGetPut);

}  // namespace
}  // namespace firn
