// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Snapshots for other programs: the file that PyTorch's memory viewer reads.
//
//   const std::string file =
//       firn::SnapshotToPickle(pool->TakeMemorySnapshot());
//   std::ofstream("snapshot.pickle", std::ios::binary) << file;
//
// Pure functions: any thread, and no pool is touched. docs/statistics.md says
// what stands where.

#ifndef FIRN_CORE_SNAPSHOT_EXPORT_H_
#define FIRN_CORE_SNAPSHOT_EXPORT_H_

#include <string>

#include "firn/core/memory_snapshot.h"

namespace firn {

// A pickle of protocol 2, of Python's builtin types alone: a dict of
// "segments", "device_traces" (a list of events for each device up to the
// snapshot's), "allocator_settings" and "external_annotations" (passes).
std::string SnapshotToPickle(const MemorySnapshot& snapshot);

// The function that a return address of HistoryEvent::stack lies in, as far as
// its file says so; else the address.
std::string SymboliseFrame(const void* frame);

}  // namespace firn

#endif  // FIRN_CORE_SNAPSHOT_EXPORT_H_
