// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Freed small blocks, kept ready in front of the pool's lock: what a thread
// freed last on a stream it gets again first.

#ifndef FIRN_CORE_BLOCK_CACHES_H_
#define FIRN_CORE_BLOCK_CACHES_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "firn/core/event_recorder.h"
#include "firn/core/placement/slot_directory.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/light_lock.h"

namespace firn {

// A block by its address and its slot.
struct CachedBlock {
  DevicePtr address = 0;
  SlotCell* cell = nullptr;
};

// What went through the caches, since creation.
struct CacheTotals {
  uint64_t allocations = 0;
  uint64_t frees = 0;
  // Requested bytes handed out less those taken back: below 0 where more was
  // allocated elsewhere and freed here.
  int64_t live_bytes = 0;
};

// One cache for each of 64 threads; beyond that threads share them. A cache has
// a stack of blocks for each of a few streams and each size class, which grows
// as allocations miss and frees overflow, and is given up when nobody takes
// from it: what is parked for nothing keeps a granule from becoming free.
// Blocks in it are live to all behind the pool's lock, so they stay where they
// are and are moved like others; their memory is used again on the stream they
// were freed on alone.
//
// Where several threads use the pool, what one has too much of goes to a depot
// that all take from when they have none: what a thread frees for others costs
// the pool's lock as little as what it frees for itself.
//
// A thread that ends leaves its cache to the thread that shares it next, and to
// whoever empties all of them.
//
// Thread safety: all methods may be called from any thread.
class BlockCaches {
 public:
  // `heights`: most blocks of each size class in one stack, at most
  // kMostHeight. `recorder`, which is told of blocks that are parked, may be
  // null; it must outlive the caches.
  explicit BlockCaches(std::vector<uint8_t> heights,
                       EventRecorder* recorder = nullptr);
  BlockCaches(const BlockCaches&) = delete;
  BlockCaches& operator=(const BlockCaches&) = delete;

  static constexpr uint8_t kMostHeight = 32;

  // Hands out a block of the calling thread's cache: 0 if it has none.
  DevicePtr Take(uint64_t stream_id, uint32_t size_class,
                 uint64_t requested_bytes);
  // Parks a live block of a window of `epoch`. False, and nothing has changed,
  // if the stack is full or no such block is live. `stream` is for the record.
  bool Park(uint64_t stream_id, uint32_t size_class, CachedBlock block,
            uint32_t epoch, StreamHandle stream = nullptr);
  // An allocation of this class has missed: more may be parked from now on, if
  // the calling thread's cache serves the stream, or has room for one more.
  // Returns how many blocks should be put in its cache at once.
  uint32_t NoteMiss(uint64_t stream_id, uint32_t size_class);
  // Pushes blocks that are parked already onto that stack, and takes them off
  // the end of `blocks`; those that find no room stay there.
  void Fill(uint64_t stream_id, uint32_t size_class,
            std::vector<CachedBlock>* blocks);
  // A free of this class was not parked. Appends to `blocks` what its stack
  // should give up for others: the older half if it is as high as it may be,
  // now and then all blocks of classes that nobody takes from.
  void TakeSurplus(uint64_t stream_id, uint32_t size_class,
                   std::vector<CachedBlock>* blocks);
  // Takes a stream's blocks out of all caches, appending them to `blocks`.
  void TakeStream(uint64_t stream_id, std::vector<CachedBlock>* blocks);
  // Takes all blocks of all threads, appending them to `blocks`.
  void TakeAll(std::vector<CachedBlock>* blocks);

  // Which of the pool's threads is calling, from 0 on, in the order of their
  // first calls of this; threads that share a cache count as one. Under the
  // owner's lock.
  uint32_t MyRank();

  // While other threads allocate and free, what passes meanwhile may be counted
  // in part.
  CacheTotals totals() const;
  // Blocks in all caches now.
  uint64_t parked_blocks() const;
  // Whether every block in a cache is parked.
  bool CheckInvariants() const;

 private:
  // Frees that were not parked between two looks at a stream's idle stacks.
  static constexpr uint32_t kFreesBetweenLooks = 64;

  struct Stack {
    uint32_t height = 0;
    uint32_t limit = 0;  // of the height
    uint32_t hits = 0;   // since the last look at idle stacks
    std::array<CachedBlock, kMostHeight> blocks;
  };
  struct StreamStacks {
    uint64_t stream_id = 0;
    uint64_t blocks = 0;  // in all stacks
    uint32_t frees_until_look = kFreesBetweenLooks;
    std::vector<Stack> by_class;
  };
  // Counters are written under the lock, and read without it.
  struct alignas(128) Cache {
    mutable LightLock lock;
    uint32_t rank = 0;  // from 1 on; 0: not asked for yet
    std::atomic<uint64_t> allocations{0};
    std::atomic<uint64_t> frees{0};
    std::atomic<int64_t> live_bytes{0};
    std::atomic<uint64_t> filled{0};   // blocks pushed by Fill
    std::atomic<uint64_t> removed{0};  // blocks given up
    std::vector<std::unique_ptr<StreamStacks>> streams ABSL_GUARDED_BY(lock);
    StreamStacks* last ABSL_GUARDED_BY(lock) = nullptr;  // of `streams`
  };
  // Of threads; the depot comes behind them.
  static constexpr size_t kCaches = 64;
  static constexpr size_t kMostStreams = 8;

  Cache& MyCache();
  // The stacks of a stream; null if it has none in this cache.
  static StreamStacks* FindStacks(Cache* cache, uint64_t stream_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  // Makes room for one more; null if the cache serves too many.
  StreamStacks* MakeStacks(Cache* cache, uint64_t stream_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  static void TakeStacks(Cache* cache, StreamStacks* stacks,
                         std::vector<CachedBlock>* blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  // Whether more than one thread has a cache.
  bool is_shared() const {
    const uint64_t used = used_.load(std::memory_order_relaxed);
    return (used & (used - 1)) != 0;
  }
  // Moves blocks from the depot onto an empty stack, and the older half of a
  // full one to the depot. False if there were none, or no room for any.
  bool Withdraw(Cache* cache, StreamStacks* stacks, uint32_t size_class)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  bool Deposit(Cache* cache, StreamStacks* stacks, uint32_t size_class)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  // The stacks of a stream in the calling thread's cache, made where there are
  // none; null if it serves too many.
  StreamStacks* OwnStacks(Cache* cache, uint64_t stream_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  // Takes the `count` oldest blocks of a stack.
  static void TakeOldest(uint32_t count, Cache* cache, StreamStacks* stacks,
                         Stack* stack, std::vector<CachedBlock>* blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  // Calls `visit` with each cache that any thread has used.
  template <typename Visit>
  void ForEachUsed(Visit visit) const;

  const std::vector<uint8_t> heights_;  // by size class
  EventRecorder* const recorder_;
  const std::unique_ptr<Cache[]> caches_;
  uint32_t last_rank_ = 0;
  std::atomic<uint64_t> used_{0};  // bit i: caches_[i] has been used
};

}  // namespace firn

#endif  // FIRN_CORE_BLOCK_CACHES_H_
