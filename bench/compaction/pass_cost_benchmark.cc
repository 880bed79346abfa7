// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the driver calls of a whole pass cost on a modelled A100, against the
// fewest calls that make the same moves. One iteration is one pass over a pool
// of mixed blocks of which seven in ten were freed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/traces/seeded_random.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"
#include "firn/core/pool_options.h"
#include "firn/vmm/cost_model.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_wrapper.h"

namespace firn::bench {
namespace {

constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
constexpr uint64_t kFilledBytes = uint64_t{4} << 30;

// Notes which addresses are mapped.
class MapRecorder : public DriverWrapper {
 public:
  explicit MapRecorder(Driver* base) : DriverWrapper(base) {}
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override {
    mapped_.push_back(address);
    return DriverWrapper::MemMap(address, bytes, offset_bytes, handle, flags);
  }
  std::vector<DevicePtr>& mapped() { return mapped_; }

 private:
  std::vector<DevicePtr> mapped_;
};

// Fills the pool with blocks of 4 KiB to 512 KiB, as many bytes of each size,
// and frees seven in ten.
absl::Status FillSparsely(Pool* pool) {
  SeededRandom random(1);
  std::vector<void*> blocks;
  for (uint64_t filled_bytes = 0; filled_bytes < kFilledBytes;) {
    const uint64_t bytes = uint64_t{4096} << random.Below(8);
    if (random.Below(128) >= (uint64_t{512} << 10) / bytes) continue;
    const absl::StatusOr<void*> block = pool->Allocate(bytes);
    if (!block.ok()) return block.status();
    blocks.push_back(*block);
    filled_bytes += bytes;
  }
  for (void* const block : blocks) {
    if (random.Below(10) >= 7) continue;
    const absl::Status freed = pool->Free(block);
    if (!freed.ok()) return freed;
  }
  return absl::OkStatus();
}

// Of remapping the granules at these addresses with the fewest calls: unmap and
// set-access once for each run of neighbours, map once for each of them.
double LeastUs(std::vector<DevicePtr> addresses) {
  CostModel model(CostProfile::kA100);
  std::sort(addresses.begin(), addresses.end());
  double us = 0;
  for (size_t begin = 0; begin < addresses.size();) {
    size_t end = begin + 1;
    while (end < addresses.size() &&
           addresses[end] == addresses[end - 1] + kGranuleBytes) {
      ++end;
    }
    us += model.Unmap(end - begin) + model.SetAccess(end - begin);
    for (; begin < end; ++begin) us += model.Map();
  }
  return us;
}

struct PassCost {
  double us = 0;
  double least_us = 0;
  uint64_t freed_granules = 0;
  uint64_t moves = 0;
  uint64_t set_access_calls = 0;
};

absl::StatusOr<PassCost> RunPass() {
  CpuDriverOptions device_options;
  device_options.storage = CpuStorage::kGhost;
  device_options.device_bytes = 2 * kFilledBytes;
  auto device = CpuDriver::Create(std::move(device_options));
  if (!device.ok()) return device.status();
  CountingDriver counts(device->get(), CostModel(CostProfile::kA100),
                        kGranuleBytes);
  auto recorder = std::make_shared<MapRecorder>(&counts);
  PoolOptions options;
  options.driver = recorder;
  options.capacity_bytes = 2 * kFilledBytes - kGranuleBytes;
  options.granule_bytes = kGranuleBytes;
  auto pool = Pool::Create(std::move(options));
  if (!pool.ok()) return pool.status();
  const absl::Status filled = FillSparsely(pool->get());
  if (!filled.ok()) return filled;

  recorder->mapped().clear();
  const double us_before = counts.driver_us();
  const uint64_t set_access_before = counts.calls().set_access;
  const auto report = (*pool)->Compact();
  if (!report.ok()) return report.status();
  PassCost cost;
  cost.us = counts.driver_us() - us_before;
  cost.least_us = LeastUs(recorder->mapped());
  cost.freed_granules = report->granules_recovered;
  cost.moves = report->moves;
  cost.set_access_calls = counts.calls().set_access - set_access_before;
  if (cost.freed_granules == 0 || recorder->mapped().size() != cost.moves) {
    return absl::InternalError("the pass is not what was to be measured");
  }
  return cost;
}

void BM_PassCost(benchmark::State& state) {
  PassCost cost;
  for (auto _ : state) {
    const absl::StatusOr<PassCost> pass = RunPass();
    if (!pass.ok()) {
      state.SkipWithError(pass.status().ToString().c_str());
      return;
    }
    cost = *pass;
  }
  const auto freed = static_cast<double>(cost.freed_granules);
  state.counters["freed_granules"] = freed;
  state.counters["moves"] = static_cast<double>(cost.moves);
  state.counters["set_access_calls"] =
      static_cast<double>(cost.set_access_calls);
  state.counters["driver_us_per_freed_granule"] = cost.us / freed;
  state.counters["least_us_per_freed_granule"] = cost.least_us / freed;
  state.counters["over_least"] = cost.us / cost.least_us;
}
BENCHMARK(BM_PassCost)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace firn::bench
