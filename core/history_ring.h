// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The ring in which a pool keeps its last events: written by all threads
// without a lock, while others read it.

#ifndef FIRN_CORE_HISTORY_RING_H_
#define FIRN_CORE_HISTORY_RING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "firn/core/history.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// What a caller knows of an event.
struct EventRecord {
  HistoryKind kind = HistoryKind::kAllocate;
  Tag tag = Tag::kUntagged;
  DevicePtr address = 0;
  uint64_t bytes = 0;
  StreamHandle stream = nullptr;
  uint32_t from_granule = HistoryEvent::kNoGranule;
  uint32_t to_granule = HistoryEvent::kNoGranule;
};

// An event's number says where it goes, and its entry's stamp who may write
// there: event n after event n - size, where that has been written. So an entry
// has one writer at a time, which takes no lock and waits for nobody, unless
// for a thread that has been stopped in the middle of an event while all the
// others were written.
//
// Events are in the order of their numbers. One that must come before another
// is recorded before the other can happen: a free before anybody else can be
// given the block, an allocation before the block is handed out.
//
// Thread safety: all methods may be called from any thread.
class HistoryRing {
 public:
  static constexpr size_t kMostFrames = 32;
  // With fewer, threads would wait for each other's events all the time.
  static constexpr uint64_t kLeastEntries = 64;

  // Room for `entries`, rounded up to a power of two, and to kLeastEntries.
  HistoryRing(uint32_t entries, bool with_stacks);
  HistoryRing(const HistoryRing&) = delete;
  HistoryRing& operator=(const HistoryRing&) = delete;

  void Record(const EventRecord& record);
  // All whose recording began before, as far as they are there still. Waits for
  // those that are being written.
  History Read() const;

 private:
  // A line of the host's caches, so that writers of different events do not
  // meet.
  struct alignas(64) Entry {
    // 2n + 1 while event n is being written, 2n + 2 once it has been.
    std::atomic<uint64_t> stamp{0};
    std::atomic<uint64_t> ticks{0};
    std::atomic<uint64_t> address{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> stream{0};
    std::atomic<uint64_t> what{0};  // kind, tag, thread, number of frames
    std::atomic<uint64_t> granules{0};
  };
  static_assert(sizeof(Entry) == 64);
  using Frames = std::array<std::atomic<const void*>, kMostFrames>;

  // Copies event `number`, which has been claimed. False if a later one has
  // taken its place.
  bool Copy(uint64_t number, HistoryEvent* event, uint64_t* ticks) const;

  const uint64_t mask_;  // size less 1
  const std::unique_ptr<Entry[]> entries_;
  const std::unique_ptr<Frames[]> frames_;  // null: without stacks
  // The same moment by three clocks.
  const uint64_t first_ticks_;
  const int64_t first_steady_ns_;
  const int64_t first_wall_ns_;
  // Apart from what all threads only read.
  alignas(64) std::atomic<uint64_t> next_{0};
};

}  // namespace firn

#endif  // FIRN_CORE_HISTORY_RING_H_
