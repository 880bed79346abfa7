// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the relocator adds to the driver calls that a move needs. One iteration
// of both benchmarks moves 64 neighbouring virtual granules with three tenths
// live: copies, the wait for them, one unmap, a map each, one set-access.
//
// Both do so at the same addresses: see cpu_driver_benchmark.cc.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "firn/compaction/relocator.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"

namespace firn::bench {
namespace {

constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
constexpr uint32_t kMoved = 64;
constexpr uint32_t kGranules = 2 * kMoved;
// Those that move, and those that copies are written through: one to each
// granule.
constexpr uint32_t kVgs = kMoved + kGranules;

// Blocks of 64 KiB, every third one live and one left out: ten of 32.
std::vector<OffsetInterval> LiveExtents() {
  constexpr uint32_t kBlockQuanta = 128;
  std::vector<OffsetInterval> extents;
  for (uint32_t i = 0; i < 10; ++i) {
    OffsetInterval extent;
    extent.lo = 3 * i * kBlockQuanta;
    extent.hi = extent.lo + kBlockQuanta;
    extents.push_back(extent);
  }
  return extents;
}

struct MoveScene {
  std::unique_ptr<CpuDriver> driver;
  std::unique_ptr<AddressSpace> addresses;
  std::unique_ptr<GranuleStore> store;
  std::unique_ptr<MappingTable> table;
  std::unique_ptr<Relocator> relocator;
  std::vector<GranuleId> granules;
  std::vector<OffsetInterval> extents = LiveExtents();
  // Which half of the granules the virtual granules are on.
  bool on_second_half = false;

  GranuleId Target(uint32_t i) const {
    return granules[on_second_half ? i : kMoved + i];
  }
  VgIndex Through(uint32_t i) const {
    return VgIndex(kMoved + (on_second_half ? i : kMoved + i));
  }
};

AccessDesc OwnAccess() {
  AccessDesc access;
  access.location.type = LocationType::kDevice;
  access.flags = AccessFlags::kReadWrite;
  return access;
}

absl::StatusOr<std::unique_ptr<MoveScene>> MakeScene() {
  auto scene = std::make_unique<MoveScene>();
  CpuDriverOptions driver_options;
  driver_options.device_bytes = kGranules * kGranuleBytes;
  driver_options.poison = false;
  auto driver = CpuDriver::Create(std::move(driver_options));
  if (!driver.ok()) return driver.status();
  scene->driver = *std::move(driver);
  auto addresses =
      AddressSpace::Reserve(scene->driver.get(), kGranuleBytes, kVgs, kVgs);
  if (!addresses.ok()) return addresses.status();
  scene->addresses = *std::move(addresses);

  GranuleStoreOptions store_options;
  store_options.granule_bytes = kGranuleBytes;
  store_options.budget_granules = kGranules;
  store_options.movable = MovableProp(0);
  scene->store =
      std::make_unique<GranuleStore>(scene->driver.get(), store_options);
  Acquisition acquisition;
  const absl::Status acquired =
      scene->store->AcquireAtMost(kGranules, &acquisition);
  if (!acquired.ok()) return acquired;
  scene->granules = acquisition.granules;
  if (scene->granules.size() != kGranules) {
    return absl::ResourceExhaustedError("the device has too few granules");
  }

  MappingTableOptions table_options;
  table_options.access = {OwnAccess()};
  scene->table = std::make_unique<MappingTable>(
      scene->driver.get(), scene->addresses.get(), scene->store.get(),
      std::move(table_options));
  std::vector<MappingChange> changes(kVgs);
  for (uint32_t i = 0; i < kVgs; ++i) {
    changes[i].vg = VgIndex(i);
    changes[i].to = scene->granules[i < kMoved ? i : i - kMoved];
  }
  const absl::Status mapped = scene->table->Apply(changes);
  if (!mapped.ok()) return mapped;

  auto relocator = Relocator::Create(
      scene->driver.get(), scene->addresses.get(), scene->table.get());
  if (!relocator.ok()) return relocator.status();
  scene->relocator = *std::move(relocator);
  // Pages that the host has not given yet would slow down the first benchmark.
  std::vector<VgIndex> vgs;
  for (uint32_t i = kMoved; i < kVgs; ++i) vgs.push_back(VgIndex(i));
  const absl::Status touched = scene->relocator->Zero(vgs);
  if (!touched.ok()) return touched;
  return scene;
}

// Made once, so that both benchmarks get the same addresses; null, and the
// benchmark skipped, if the host refuses it.
MoveScene* Scene(benchmark::State& state) {
  static const auto* const scene =
      new absl::StatusOr<std::unique_ptr<MoveScene>>(MakeScene());
  if (scene->ok()) return scene->value().get();
  state.SkipWithError(scene->status().ToString().c_str());
  return nullptr;
}

void BM_Relocate(benchmark::State& state) {
  MoveScene* const scene = Scene(state);
  if (scene == nullptr) return;
  std::vector<Relocation> moves(kMoved);
  for (auto _ : state) {
    for (uint32_t i = 0; i < kMoved; ++i) {
      moves[i].vg = VgIndex(i);
      moves[i].to = scene->Target(i);
      moves[i].through = scene->Through(i);
      moves[i].extents = scene->extents;
    }
    const absl::Status moved = scene->relocator->Relocate(moves);
    if (!moved.ok()) {
      state.SkipWithError(moved.ToString().c_str());
      return;
    }
    scene->on_second_half = !scene->on_second_half;
  }
}
BENCHMARK(BM_Relocate)->Unit(benchmark::kMicrosecond)->UseRealTime();

// The driver's calls alone, in the order that safety asks for.
bool MoveBare(MoveScene* scene, StreamHandle stream, EventHandle event) {
  Driver* const driver = scene->driver.get();
  bool ok = true;
  for (uint32_t i = 0; i < kMoved; ++i) {
    const DevicePtr from = scene->addresses->AddressOf(VgIndex(i));
    const DevicePtr to = scene->addresses->AddressOf(scene->Through(i));
    for (const OffsetInterval& extent : scene->extents) {
      const uint64_t offset_bytes = QuantaToBytes(extent.lo);
      ok = ok && driver->MemcpyDtoDAsync(to + offset_bytes, from + offset_bytes,
                                         QuantaToBytes(extent.quanta()),
                                         stream) == DriverResult::kSuccess;
    }
  }
  ok = ok && driver->EventRecord(event, stream) == DriverResult::kSuccess &&
       driver->EventSynchronize(event) == DriverResult::kSuccess;
  const DevicePtr base = scene->addresses->AddressOf(VgIndex(0u));
  ok = ok &&
       driver->MemUnmap(base, kMoved * kGranuleBytes) == DriverResult::kSuccess;
  for (uint32_t i = 0; i < kMoved; ++i) {
    ok = ok && driver->MemMap(base + i * kGranuleBytes, kGranuleBytes, 0,
                              scene->store->handle(scene->Target(i)),
                              0) == DriverResult::kSuccess;
  }
  const AccessDesc access = OwnAccess();
  ok = ok && driver->MemSetAccess(base, kMoved * kGranuleBytes, &access, 1) ==
                 DriverResult::kSuccess;
  scene->on_second_half = !scene->on_second_half;
  return ok;
}

void BM_BareRelocate(benchmark::State& state) {
  MoveScene* const scene = Scene(state);
  if (scene == nullptr) return;
  Driver* const driver = scene->driver.get();
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  bool ok = driver->StreamCreate(&stream, kStreamNonBlocking) ==
                DriverResult::kSuccess &&
            driver->EventCreate(&event, kEventDisableTiming) ==
                DriverResult::kSuccess;
  const bool began_on_second_half = scene->on_second_half;
  for (auto _ : state) {
    if (!ok || !MoveBare(scene, stream, event)) {
      state.SkipWithError("a driver call failed");
      return;
    }
  }
  // To where the mapping table believes everything to be.
  if (scene->on_second_half != began_on_second_half) {
    ok = MoveBare(scene, stream, event);
  }
  ok = ok && driver->EventDestroy(event) == DriverResult::kSuccess &&
       driver->StreamDestroy(stream) == DriverResult::kSuccess;
  if (!ok) state.SkipWithError("a driver call failed");
}
BENCHMARK(BM_BareRelocate)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace firn::bench
