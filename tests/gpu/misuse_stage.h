// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where one misuse takes place: what it needs is set up in short words and
// cleared away afterwards, whatever became of it.

#ifndef FIRN_TESTS_GPU_MISUSE_STAGE_H_
#define FIRN_TESTS_GPU_MISUSE_STAGE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "firn/vmm/driver.h"
#include "tests/gpu/scene.h"
#include "tests/support/ledger_driver.h"

namespace firn::gpu_check {

class MisuseStage {
 public:
  explicit MisuseStage(const Scene& scene)
      : ledger_(&scene.driver()),
        scene_(&ledger_, scene.ordinal(), scene.granule_bytes()) {}
  ~MisuseStage() { (void)ledger_.CleanUp(); }
  MisuseStage(const MisuseStage&) = delete;
  MisuseStage& operator=(const MisuseStage&) = delete;

  // The first call of the setting that failed; empty if none did.
  const std::string& failure() const { return failure_; }

  const Scene& scene() const { return scene_; }
  Driver& driver() { return ledger_; }
  uint64_t granule_bytes() const { return scene_.granule_bytes(); }
  DevicePtr At(DevicePtr base, uint64_t granule) const {
    return scene_.At(base, granule);
  }

  DevicePtr Reserve(uint64_t granules) {
    DevicePtr address = 0;
    Set("cuMemAddressReserve", scene_.Reserve(&address, granules));
    return address;
  }
  PhysicalHandle Create(uint64_t granules = 1) {
    PhysicalHandle handle = 0;
    Set("cuMemCreate", scene_.Create(&handle, granules));
    return handle;
  }
  void Map(DevicePtr address, PhysicalHandle handle, uint64_t granules = 1) {
    Set("cuMemMap", scene_.Map(address, handle, granules));
  }
  void SetAccess(DevicePtr address, uint64_t granules,
                 AccessFlags flags = AccessFlags::kReadWrite) {
    Set("cuMemSetAccess", scene_.SetAccess(address, granules, flags));
  }
  // A reservation whose first `granules` granules are mapped, one handle each.
  DevicePtr Row(uint64_t granules, uint64_t reserved) {
    const DevicePtr base = Reserve(reserved);
    for (uint64_t i = 0; i < granules; ++i) Map(At(base, i), Create());
    SetAccess(base, granules);
    return base;
  }
  // A reservation with one mapping of one handle.
  DevicePtr Large(uint64_t granules) {
    const DevicePtr base = Reserve(granules);
    Map(base, Create(granules), granules);
    SetAccess(base, granules);
    return base;
  }
  StreamHandle Stream() {
    StreamHandle stream = nullptr;
    Set("cuStreamCreate", ledger_.StreamCreate(&stream, kStreamNonBlocking));
    return stream;
  }
  // What becomes of queued work: at once, or when it has run.
  DriverResult Outcome(DriverResult queued, StreamHandle stream) {
    if (queued != DriverResult::kSuccess) return queued;
    return ledger_.StreamSynchronize(stream);
  }
  void Set(const char* call, DriverResult result);

 private:
  testing::LedgerDriver ledger_;
  const Scene scene_;
  std::string failure_;
};

// A misuse, or something legal that is worth knowing.
struct MisuseCase {
  const char* name;
  DriverResult (*make)(MisuseStage& stage);
  // Undefined behaviour, or the end of the device: tried in a process of its
  // own.
  bool own_process = false;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_MISUSE_STAGE_H_
