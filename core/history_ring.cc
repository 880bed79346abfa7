// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/history_ring.h"

#include <execinfo.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/time/clock.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {
namespace {

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The processor's clock: a third of what the system's costs, which would be
// more than all the rest of an event.
uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(SteadyNs());
#endif
}

// An event's `what`.
constexpr int kTagShift = 8;
constexpr int kFramesShift = 16;
constexpr int kThreadShift = 32;

uint64_t Pack(const EventRecord& record, uint64_t frames) {
  return static_cast<uint64_t>(record.kind) |
         uint64_t{static_cast<uint8_t>(record.tag)} << kTagShift |
         frames << kFramesShift | ThisThreadOrdinal() << kThreadShift;
}

}  // namespace

HistoryRing::HistoryRing(uint32_t entries, bool with_stacks)
    : mask_(absl::bit_ceil(std::max<uint64_t>(entries, kLeastEntries)) - 1),
      entries_(new Entry[mask_ + 1]),
      frames_(with_stacks ? new Frames[mask_ + 1]() : nullptr),
      first_ticks_(Ticks()),
      first_steady_ns_(SteadyNs()),
      first_wall_ns_(absl::GetCurrentTimeNanos()) {
  if (!with_stacks) return;
  // The first call loads a library, which must not be done under a lock.
  void* frame = nullptr;
  backtrace(&frame, 1);
}

void HistoryRing::Record(const EventRecord& record) {
  void* stack[kMostFrames];
  size_t frames = 0;
  // By the tables for exceptions: most programs have no frame pointers.
  if (frames_ != nullptr) {
    frames = static_cast<size_t>(backtrace(stack, kMostFrames));
  }
  // What orders events is that locks are passed on between them.
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = entries_[number & mask_];
  const uint64_t size = mask_ + 1;
  const uint64_t former = number < size ? 0 : 2 * (number - size) + 2;
  while (entry.stamp.load(std::memory_order_acquire) != former) {
    std::this_thread::yield();
  }
  entry.stamp.store(2 * number + 1, std::memory_order_relaxed);
  // Each one releases the stamp before it: who reads any of them sees that the
  // entry has changed.
  const std::memory_order release = std::memory_order_release;
  entry.ticks.store(Ticks(), release);
  entry.address.store(record.address, release);
  entry.bytes.store(record.bytes, release);
  entry.stream.store(reinterpret_cast<uintptr_t>(record.stream), release);
  entry.what.store(Pack(record, frames), release);
  entry.granules.store(uint64_t{record.from_granule} << 32 | record.to_granule,
                       release);
  for (size_t i = 0; i < frames; ++i) {
    frames_[number & mask_][i].store(stack[i], release);
  }
  entry.stamp.store(2 * number + 2, release);
}

bool HistoryRing::Copy(uint64_t number, HistoryEvent* event,
                       uint64_t* ticks) const {
  const Entry& entry = entries_[number & mask_];
  const uint64_t written = 2 * number + 2;
  uint64_t stamp = entry.stamp.load(std::memory_order_acquire);
  for (; stamp < written; stamp = entry.stamp.load(std::memory_order_acquire)) {
    std::this_thread::yield();
  }
  if (stamp != written) return false;
  // They keep the second look at the stamp behind them.
  const std::memory_order acquire = std::memory_order_acquire;
  *ticks = entry.ticks.load(acquire);
  event->address = entry.address.load(acquire);
  event->bytes = entry.bytes.load(acquire);
  event->stream = reinterpret_cast<StreamHandle>(
      static_cast<uintptr_t>(entry.stream.load(acquire)));
  const uint64_t what = entry.what.load(acquire);
  event->kind = static_cast<HistoryKind>(what & 0xFF);
  event->tag = static_cast<Tag>(what >> kTagShift & 0xFF);
  event->thread = static_cast<uint32_t>(what >> kThreadShift);
  const uint64_t granules = entry.granules.load(acquire);
  event->from_granule = static_cast<uint32_t>(granules >> 32);
  event->to_granule = static_cast<uint32_t>(granules);
  if (frames_ != nullptr) {
    const size_t frames =
        std::min<size_t>(what >> kFramesShift & 0xFF, kMostFrames);
    event->stack.resize(frames);
    for (size_t i = 0; i < frames; ++i) {
      event->stack[i] = frames_[number & mask_][i].load(acquire);
    }
  }
  return entry.stamp.load(std::memory_order_relaxed) == written;
}

History HistoryRing::Read() const {
  History history;
  const uint64_t end = next_.load(std::memory_order_relaxed);
  const uint64_t size = mask_ + 1;
  uint64_t begin = end > size ? end - size : 0;
  history.events.reserve(end - begin);
  // So many nanoseconds a tick, from the two moments known by both clocks.
  const int64_t elapsed_ns = SteadyNs() - first_steady_ns_;
  const uint64_t elapsed_ticks = Ticks() - first_ticks_;
  const double ns_per_tick = elapsed_ticks == 0
                                 ? 0
                                 : static_cast<double>(elapsed_ns) /
                                       static_cast<double>(elapsed_ticks);
  int64_t latest_ns = first_wall_ns_;
  for (uint64_t number = begin; number < end; ++number) {
    HistoryEvent event;
    uint64_t ticks = 0;
    if (!Copy(number, &event, &ticks)) {
      // And so are those before it, or about to be.
      history.events.clear();
      begin = number + 1;
      continue;
    }
    const double since_first =
        static_cast<double>(static_cast<int64_t>(ticks - first_ticks_));
    latest_ns = std::max(
        latest_ns,
        first_wall_ns_ + static_cast<int64_t>(since_first * ns_per_tick));
    event.time_ns = latest_ns;
    history.events.push_back(std::move(event));
  }
  history.overwritten = begin;
  return history;
}

}  // namespace firn
