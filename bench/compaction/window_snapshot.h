// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Snapshots for benchmarks of the planner: granules full of windows as the
// pool places them, of which a random share of the slots is live.

#ifndef FIRN_BENCH_COMPACTION_WINDOW_SNAPSHOT_H_
#define FIRN_BENCH_COMPACTION_WINDOW_SNAPSHOT_H_

#include <cstdint>

#include "firn/compaction/snapshot.h"

namespace firn::bench {

struct WindowSnapshotShape {
  uint32_t granules = 0;
  // Share of the slots that are live, in hundredths.
  uint32_t live_percent = 30;
  uint64_t seed = 1;
};

// Granules of 2 MiB whose objects are of 4 KiB to 512 KiB, as many bytes of
// each size. Those below 256 KiB share windows of 64 KiB to 768 KiB with others
// of their size, the rest have one each. Windows that were placed one after the
// other are neighbours in address space. Every granule has something live.
Snapshot MakeWindowSnapshot(const WindowSnapshotShape& shape);

}  // namespace firn::bench

#endif  // FIRN_BENCH_COMPACTION_WINDOW_SNAPSHOT_H_
