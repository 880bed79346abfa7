// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the calls of two threads cost that use one pool. The figures that count
// are those of real time; google-benchmark's option for that changes names.
// Where there are not two processors to spare they say little.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "bench/core/ghost_pool.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"

namespace firn {
namespace {

constexpr uint64_t kCapacityBytes = uint64_t{8} << 30;
constexpr uint64_t kBlockBytes = 4 * kKiB;
// Iterations after which one thread waits for the other.
constexpr int64_t kBatch = 20'000;

// Spins, and lets others run before long: they may have no processor else.
template <typename Condition>
void WaitUntil(Condition condition) {
  constexpr int kSpins = 1000;
  for (int i = 0; !condition(); ++i) {
    if (i >= kSpins) std::this_thread::yield();
  }
}

// Blocks on their way from one thread to one other, `together` at a time.
class Ring {
 public:
  explicit Ring(uint64_t together) : together_(together) {}

  void Push(void* block) {
    WaitUntil([&] {
      if (pushed_ - known_head_ < kSlots) return true;
      known_head_ = head_.load(std::memory_order_acquire);
      return pushed_ - known_head_ < kSlots;
    });
    slots_[pushed_++ % kSlots] = block;
    if (pushed_ % together_ == 0) Flush();
  }
  // Hands over all that was pushed.
  void Flush() { tail_.store(pushed_, std::memory_order_release); }
  // The oldest block; it stays in the ring until Pop.
  void* Front() {
    WaitUntil([&] {
      if (popped_ != known_tail_) return true;
      known_tail_ = tail_.load(std::memory_order_acquire);
      return popped_ != known_tail_;
    });
    return slots_[popped_ % kSlots];
  }
  void Pop() {
    if (++popped_ == known_tail_) {
      head_.store(popped_, std::memory_order_release);
    }
  }
  // After Flush.
  void WaitUntilEmpty() const {
    WaitUntil([&] { return head_.load(std::memory_order_acquire) == pushed_; });
  }

 private:
  static constexpr size_t kSlots = 1024;
  const uint64_t together_;
  std::array<void*, kSlots> slots_;
  // Written by the taking thread, which looks at the other's side only where
  // what it knows of that is used up; and likewise by the giving thread.
  alignas(128) std::atomic<uint64_t> head_{0};
  uint64_t popped_ = 0;
  uint64_t known_tail_ = 0;
  alignas(128) std::atomic<uint64_t> tail_{0};
  uint64_t pushed_ = 0;
  uint64_t known_head_ = 0;
};

// One iteration: this thread allocates a block, and another frees it. A batch
// is over when all of its blocks are freed.
void CrossThread(benchmark::State& state, uint64_t together) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  Ring ring(together);
  std::atomic<uint64_t> failures{0};
  // What both threads read each time must not lie on a stack that one writes.
  std::thread freeing([&ring, &failures, pool = pool->get()] {
    while (void* const block = ring.Front()) {
      if (!pool->Free(block).ok()) ++failures;
      ring.Pop();  // afterwards: an empty ring means that all are freed
    }
  });
  while (state.KeepRunningBatch(kBatch)) {
    for (int64_t i = 0; i < kBatch; ++i) {
      const absl::StatusOr<void*> block = (*pool)->Allocate(kBlockBytes);
      if (!block.ok()) {
        ++failures;
        break;
      }
      ring.Push(*block);
    }
    ring.Flush();
    ring.WaitUntilEmpty();
  }
  ring.Push(nullptr);
  ring.Flush();
  freeing.join();
  if (failures != 0) state.SkipWithError("an allocation or a free failed");
}

void BM_Pool_CrossThread(benchmark::State& state) { CrossThread(state, 32); }
BENCHMARK(BM_Pool_CrossThread);

// Much of it is the ring: each block's way from one processor to the other is
// waited for.
void BM_Pool_CrossThread_OneByOne(benchmark::State& state) {
  CrossThread(state, 1);
}
BENCHMARK(BM_Pool_CrossThread_OneByOne);

// One iteration: each of two threads allocates and frees a block of its own.
// items_per_second: pairs of both together, in real time.
void BM_Pool_SmallPair_2Threads(benchmark::State& state) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  std::atomic<uint64_t> failures{0};
  // What both threads read each time must not lie on a stack that one writes.
  const auto run_batch = [&failures](Pool* used_pool) {
    for (int64_t i = 0; i < kBatch; ++i) {
      if (!AllocateAndFree(used_pool, kBlockBytes)) ++failures;
    }
  };
  alignas(128) std::atomic<int64_t> asked{0};  // batches; -1: no more
  alignas(128) std::atomic<int64_t> done{0};
  std::thread other([&, pool = pool->get()] {
    for (int64_t batch = 1;; ++batch) {
      WaitUntil([&] {
        const int64_t now = asked.load(std::memory_order_acquire);
        return now == batch || now < 0;
      });
      if (asked.load(std::memory_order_relaxed) < 0) return;
      run_batch(pool);
      done.store(batch, std::memory_order_release);
    }
  });
  int64_t batches = 0;
  const auto start = std::chrono::steady_clock::now();
  while (state.KeepRunningBatch(kBatch)) {
    asked.store(++batches, std::memory_order_release);
    run_batch(pool->get());
    WaitUntil([&] { return done.load(std::memory_order_acquire) == batches; });
  }
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  asked.store(-1, std::memory_order_release);
  other.join();
  if (failures != 0) state.SkipWithError("an allocation or a free failed");
  state.counters["items_per_second"] = benchmark::Counter(
      2 * static_cast<double>(batches * kBatch) / elapsed.count());
}
BENCHMARK(BM_Pool_SmallPair_2Threads);

}  // namespace
}  // namespace firn
