// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/compaction/window_snapshot.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "bench/traces/seeded_random.h"
#include "firn/vmm/units.h"

namespace firn::bench {
namespace {

constexpr uint32_t kQuantaPerGranule = 4096;

constexpr uint32_t QuantaOfKiB(uint32_t kib) {
  return kib * 1024 / kQuantumBytes;
}

// What a window is made of.
struct WindowKind {
  uint32_t slot_quanta = 0;
  uint32_t slots = 0;
  uint32_t quanta() const { return slot_quanta * slots; }
};

// The windows of classes that have many of them.
constexpr std::array<WindowKind, 9> kWindowKinds = {{
    {QuantaOfKiB(4), 128},
    {QuantaOfKiB(8), 64},
    {QuantaOfKiB(16), 32},
    {QuantaOfKiB(32), 16},
    {QuantaOfKiB(64), 8},
    {QuantaOfKiB(128), 4},
    {QuantaOfKiB(192), 8},
    {QuantaOfKiB(256), 1},
    {QuantaOfKiB(512), 1},
}};

constexpr uint32_t kLeastWindowQuanta = QuantaOfKiB(256);

class WindowSnapshotMaker {
 public:
  explicit WindowSnapshotMaker(const WindowSnapshotShape& shape)
      : shape_(shape), random_(shape.seed) {
    snapshot_.quanta_per_granule = kQuantaPerGranule;
  }

  Snapshot Make() {
    while (snapshot_.granules.size() < shape_.granules) AddGranule();
    return std::move(snapshot_);
  }

 private:
  // Fills a granule with windows, from any of its eighths on and round its end.
  void AddGranule() {
    SnapshotGranule granule;
    granule.granule = GranuleId(snapshot_.granules.size());
    granule.first_vg = static_cast<uint32_t>(snapshot_.vgs.size());
    const uint32_t start = static_cast<uint32_t>(random_.Below(
                               kQuantaPerGranule / kLeastWindowQuanta)) *
                           kLeastWindowQuanta;
    AddWindows(start, kQuantaPerGranule, &granule);
    AddWindows(0, start, &granule);
    granule.vg_count =
        static_cast<uint32_t>(snapshot_.vgs.size()) - granule.first_vg;
    for (const SnapshotVg& vg : snapshot_.VgsOf(granule)) {
      granule.live_quanta += vg.live_quanta;
    }
    if (granule.vg_count > 0) snapshot_.granules.push_back(granule);
  }

  void AddWindows(uint32_t begin, uint32_t end, SnapshotGranule* granule) {
    for (uint32_t lo = begin; lo < end;) {
      const WindowKind kind = DrawKind(end - lo);
      AddWindow(kind, lo);
      ++granule->mappings;
      lo += kind.quanta();
    }
  }

  // Sizes in equal shares of the bytes: by the inverse of the window's.
  WindowKind DrawKind(uint32_t room_quanta) {
    for (;;) {
      const WindowKind kind = kWindowKinds[random_.Below(kWindowKinds.size())];
      if (kind.quanta() <= room_quanta &&
          random_.Below(kind.quanta()) < kLeastWindowQuanta) {
        return kind;
      }
    }
  }

  // The live slots of a window at `lo`, if any.
  void AddWindow(const WindowKind& kind, uint32_t lo) {
    SnapshotVg vg;
    vg.vg = VgIndex(windows_++);
    vg.first_extent = static_cast<uint32_t>(snapshot_.extents.size());
    for (uint32_t slot = 0; slot < kind.slots; ++slot, lo += kind.slot_quanta) {
      if (random_.Below(100) >= shape_.live_percent) continue;
      vg.live_quanta += kind.slot_quanta;
      const bool joins = snapshot_.extents.size() > vg.first_extent &&
                         snapshot_.extents.back().hi == lo;
      if (joins) {
        snapshot_.extents.back().hi += kind.slot_quanta;
        continue;
      }
      OffsetInterval extent;
      extent.lo = lo;
      extent.hi = lo + kind.slot_quanta;
      snapshot_.extents.push_back(extent);
    }
    vg.extent_count =
        static_cast<uint32_t>(snapshot_.extents.size()) - vg.first_extent;
    if (vg.extent_count > 0) snapshot_.vgs.push_back(vg);
  }

  const WindowSnapshotShape shape_;
  SeededRandom random_;
  uint32_t windows_ = 0;
  Snapshot snapshot_;
};

}  // namespace

Snapshot MakeWindowSnapshot(const WindowSnapshotShape& shape) {
  return WindowSnapshotMaker(shape).Make();
}

}  // namespace firn::bench
