// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What it costs to know a stream, and to write a token on it, where the driver
// itself costs next to nothing: ghost storage, hence events.

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {
namespace {

// A device with one stream, and a tracker that knows it.
struct TrackerScene {
  std::unique_ptr<CpuDriver> driver;
  StreamHandle stream = nullptr;
  std::unique_ptr<StreamTracker> tracker;
};

// Null if anything is refused.
std::unique_ptr<TrackerScene> MakeScene() {
  CpuDriverOptions options;
  options.storage = CpuStorage::kGhost;
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(std::move(options));
  if (!driver.ok()) return nullptr;
  auto scene = std::make_unique<TrackerScene>();
  scene->driver = *std::move(driver);
  if (scene->driver->StreamCreate(&scene->stream, kStreamNonBlocking) !=
      DriverResult::kSuccess) {
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<StreamTracker>> tracker =
      StreamTracker::Create({scene->driver.get()}, StreamTrackerOptions());
  if (!tracker.ok()) return nullptr;
  scene->tracker = *std::move(tracker);
  return scene->tracker->Mark(scene->stream).ok() ? std::move(scene) : nullptr;
}

// The driver's part of the next one.
void BM_StreamGetId(benchmark::State& state) {
  const std::unique_ptr<TrackerScene> scene = MakeScene();
  if (scene == nullptr) return state.SkipWithError("no device");
  for (auto _ : state) {
    uint64_t id = 0;
    benchmark::DoNotOptimize(scene->driver->StreamGetId(scene->stream, &id));
    benchmark::DoNotOptimize(id);
  }
}
BENCHMARK(BM_StreamGetId);

void BM_StreamTracker_Identify(benchmark::State& state) {
  const std::unique_ptr<TrackerScene> scene = MakeScene();
  if (scene == nullptr) return state.SkipWithError("no device");
  for (auto _ : state) {
    benchmark::DoNotOptimize(scene->tracker->Identify(scene->stream));
  }
}
BENCHMARK(BM_StreamTracker_Identify);

// With nobody polling, so that the tracker itself has to find out what is done.
void BM_StreamTracker_Mark(benchmark::State& state) {
  const std::unique_ptr<TrackerScene> scene = MakeScene();
  if (scene == nullptr) return state.SkipWithError("no device");
  for (auto _ : state) {
    benchmark::DoNotOptimize(scene->tracker->Mark(scene->stream));
  }
}
BENCHMARK(BM_StreamTracker_Mark);

}  // namespace
}  // namespace firn
