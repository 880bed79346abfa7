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
  uint64_t allocated_bytes = 0;  // requested
  uint64_t freed_bytes = 0;
};

// One cache for each of 64 threads; beyond that threads share them. A cache has
// a stack of blocks, of bounded height, for each of a few streams and each size
// class. Blocks
// in it are live to all behind the pool's lock, so they stay where they are and
// are moved like others; their memory is used again on the stream they were
// freed on alone.
//
// A thread that ends leaves its cache to the thread that shares it next, and to
// whoever empties all of them.
//
// Thread safety: all methods may be called from any thread.
class BlockCaches {
 public:
  // `heights`: most blocks of each size class in one stack, at most
  // kMostHeight.
  explicit BlockCaches(std::vector<uint8_t> heights);
  BlockCaches(const BlockCaches&) = delete;
  BlockCaches& operator=(const BlockCaches&) = delete;

  static constexpr uint8_t kMostHeight = 32;

  // Hands out a block of the calling thread's cache: 0 if it has none.
  DevicePtr Take(uint64_t stream_id, uint32_t size_class,
                 uint64_t requested_bytes);
  // Parks a live block. False, and nothing has changed, if the stack is full or
  // the block is not live.
  bool Park(uint64_t stream_id, uint32_t size_class, CachedBlock block);
  // Pushes blocks that are parked already onto the calling thread's stack, and
  // takes them off the end of `blocks`; those that find no room stay there.
  // From then on the thread's cache serves that stream, unless it serves
  // kMostStreams others.
  void Fill(uint64_t stream_id, uint32_t size_class,
            std::vector<CachedBlock>* blocks);
  // Takes the older half of a stack, appending it to `blocks`.
  void TakeOlderHalf(uint64_t stream_id, uint32_t size_class,
                     std::vector<CachedBlock>* blocks);
  // Takes all blocks of all threads, appending them to `blocks`.
  void TakeAll(std::vector<CachedBlock>* blocks);

  CacheTotals totals() const;
  // Blocks in all caches now.
  uint64_t parked_blocks() const;
  // Whether every block in a cache is parked.
  bool CheckInvariants() const;

 private:
  struct Stack {
    uint32_t height = 0;
    std::array<CachedBlock, kMostHeight> blocks;
  };
  struct StreamStacks {
    uint64_t stream_id = 0;
    uint64_t blocks = 0;  // in all stacks
    std::vector<Stack> by_class;
  };
  // Counters are written under the lock, and read without it.
  struct alignas(128) Cache {
    mutable LightLock lock;
    std::atomic<uint64_t> allocations{0};
    std::atomic<uint64_t> frees{0};
    std::atomic<uint64_t> allocated_bytes{0};
    std::atomic<uint64_t> freed_bytes{0};
    std::atomic<uint64_t> filled{0};   // blocks pushed by Fill
    std::atomic<uint64_t> removed{0};  // blocks taken by TakeOlderHalf, TakeAll
    std::vector<std::unique_ptr<StreamStacks>> streams ABSL_GUARDED_BY(lock);
    StreamStacks* last ABSL_GUARDED_BY(lock) = nullptr;  // of `streams`
  };
  static constexpr size_t kCaches = 64;
  static constexpr size_t kMostStreams = 8;

  Cache& MyCache();
  // The stacks of a stream; null if it has none in this cache.
  static StreamStacks* FindStacks(Cache* cache, uint64_t stream_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  // Makes room for one more; null if the cache serves too many.
  StreamStacks* MakeStacks(Cache* cache, uint64_t stream_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache->lock);
  // Calls `visit` with each cache that any thread has used.
  template <typename Visit>
  void ForEachUsed(Visit visit) const;

  const std::vector<uint8_t> heights_;  // by size class
  const std::unique_ptr<Cache[]> caches_;
  std::atomic<uint64_t> used_{0};  // bit i: caches_[i] has been used
};

}  // namespace firn

#endif  // FIRN_CORE_BLOCK_CACHES_H_
