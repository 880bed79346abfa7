// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/block_caches.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/numeric/bits.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {
namespace {

// A stack's limit after its first miss, and the most blocks that it gets along
// with one that missed, from the second one on.
constexpr uint32_t kFirstLimit = 2;
constexpr uint32_t kFillBlocks = 7;

// Adds to a counter that only one thread writes at a time.
template <typename T>
void Add(std::atomic<T>* counter, T value) {
  counter->store(counter->load(std::memory_order_relaxed) + value,
                 std::memory_order_relaxed);
}

}  // namespace

BlockCaches::BlockCaches(std::vector<uint8_t> heights, EventRecorder* recorder)
    : heights_(std::move(heights)),
      recorder_(recorder),
      caches_(new Cache[kCaches + 1]) {}

BlockCaches::Cache& BlockCaches::MyCache() {
  return caches_[ThisThreadOrdinal() % kCaches];
}

uint32_t BlockCaches::MyRank() {
  Cache& cache = MyCache();
  if (cache.rank == 0) cache.rank = ++last_rank_;
  return cache.rank - 1;
}

template <typename Visit>
void BlockCaches::ForEachUsed(Visit visit) const {
  uint64_t used = used_.load(std::memory_order_acquire);
  for (; used != 0; used &= used - 1) {
    visit(caches_[static_cast<size_t>(absl::countr_zero(used))]);
  }
  if (is_shared()) visit(caches_[kCaches]);
}

BlockCaches::StreamStacks* BlockCaches::FindStacks(Cache* cache,
                                                   uint64_t stream_id) {
  if (cache->last != nullptr && cache->last->stream_id == stream_id) {
    return cache->last;
  }
  for (const std::unique_ptr<StreamStacks>& stacks : cache->streams) {
    if (stacks->stream_id != stream_id) continue;
    cache->last = stacks.get();
    return cache->last;
  }
  return nullptr;
}

BlockCaches::StreamStacks* BlockCaches::MakeStacks(Cache* cache,
                                                   uint64_t stream_id) const {
  if (cache->streams.size() < kMostStreams) {
    cache->streams.push_back(std::make_unique<StreamStacks>());
    cache->streams.back()->by_class.resize(heights_.size());
    cache->last = cache->streams.back().get();
  } else {
    // In the place of one that has nothing parked: it may be gone for good.
    const auto unused =
        std::find_if(cache->streams.begin(), cache->streams.end(),
                     [](const auto& stacks) { return stacks->blocks == 0; });
    if (unused == cache->streams.end()) return nullptr;
    cache->last = unused->get();
  }
  cache->last->stream_id = stream_id;
  return cache->last;
}

DevicePtr BlockCaches::Take(uint64_t stream_id, uint32_t size_class,
                            uint64_t requested_bytes) {
  Cache& cache = MyCache();
  const LightLockHolder lock(&cache.lock);
  StreamStacks* const stacks = FindStacks(&cache, stream_id);
  if (stacks == nullptr) return 0;
  Stack& stack = stacks->by_class[size_class];
  if (stack.height == 0 &&
      !(is_shared() && Withdraw(&cache, stacks, size_class))) {
    return 0;
  }
  const CachedBlock& block = stack.blocks[--stack.height];
  // Next time's: another processor may have freed it.
  if (stack.height > 0) {
    __builtin_prefetch(stack.blocks[stack.height - 1].cell, /*rw=*/1);
  }
  ++stack.hits;
  --stacks->blocks;
  SlotContents contents =
      UnpackSlot(block.cell->load(std::memory_order_relaxed));
  contents.state = BlockState::kLive;
  contents.requested_bytes = requested_bytes;
  block.cell->store(PackSlot(contents), std::memory_order_relaxed);
  Add<uint64_t>(&cache.allocations, 1);
  Add(&cache.live_bytes, static_cast<int64_t>(requested_bytes));
  return block.address;
}

bool BlockCaches::Park(uint64_t stream_id, uint32_t size_class,
                       CachedBlock block, uint32_t epoch, StreamHandle stream) {
  Cache& cache = MyCache();
  const LightLockHolder lock(&cache.lock);
  StreamStacks* const stacks = FindStacks(&cache, stream_id);
  if (stacks == nullptr) return false;
  Stack& stack = stacks->by_class[size_class];
  if (stack.height >= stack.limit &&
      !(is_shared() && Deposit(&cache, stacks, size_class))) {
    return false;
  }
  // Of two threads that free the same block one finds it parked already.
  const std::optional<SlotContents> parked =
      ChangeState(block.cell, BlockState::kLive, BlockState::kParked, epoch);
  if (!parked.has_value()) return false;
  // Before it can be anybody else's.
  if (recorder_ != nullptr) {
    EventRecord record;
    record.kind = HistoryKind::kFree;
    record.address = block.address;
    record.bytes = parked->requested_bytes;
    record.stream = stream;
    recorder_->Record(record);
  }
  stack.blocks[stack.height++] = block;
  ++stacks->blocks;
  Add<uint64_t>(&cache.frees, 1);
  Add(&cache.live_bytes, -static_cast<int64_t>(parked->requested_bytes));
  return true;
}

BlockCaches::StreamStacks* BlockCaches::OwnStacks(Cache* cache,
                                                  uint64_t stream_id) {
  StreamStacks* stacks = FindStacks(cache, stream_id);
  if (stacks != nullptr) return stacks;
  stacks = MakeStacks(cache, stream_id);
  if (stacks != nullptr) {
    used_.fetch_or(uint64_t{1} << (cache - caches_.get()),
                   std::memory_order_release);
  }
  return stacks;
}

bool BlockCaches::Withdraw(Cache* cache, StreamStacks* stacks,
                           uint32_t size_class) {
  Cache& depot = caches_[kCaches];
  const LightLockHolder lock(&depot.lock);
  StreamStacks* const from = FindStacks(&depot, stacks->stream_id);
  if (from == nullptr) return false;
  Stack& source = from->by_class[size_class];
  Stack& stack = stacks->by_class[size_class];
  const uint32_t count =
      std::min(source.height, (heights_[size_class] + 1u) / 2);
  if (count == 0) return false;
  stack.limit = std::max(stack.limit, count);
  source.height -= count;
  from->blocks -= count;
  std::copy_n(source.blocks.begin() + source.height, count,
              stack.blocks.begin());
  stack.height = count;
  stacks->blocks += count;
  Add<uint64_t>(&depot.removed, count);
  Add<uint64_t>(&cache->filled, count);
  return true;
}

bool BlockCaches::Deposit(Cache* cache, StreamStacks* stacks,
                          uint32_t size_class) {
  Cache& depot = caches_[kCaches];
  const LightLockHolder lock(&depot.lock);
  StreamStacks* to = FindStacks(&depot, stacks->stream_id);
  if (to == nullptr) to = MakeStacks(&depot, stacks->stream_id);
  if (to == nullptr) return false;
  Stack& target = to->by_class[size_class];
  Stack& stack = stacks->by_class[size_class];
  const uint32_t count = std::min<uint32_t>(
      (stack.height + 1) / 2, heights_[size_class] - target.height);
  if (count == 0) return false;
  const auto begin = stack.blocks.begin();
  std::copy_n(begin, count, target.blocks.begin() + target.height);
  std::move(begin + count, begin + stack.height, begin);
  target.height += count;
  to->blocks += count;
  stack.height -= count;
  stacks->blocks -= count;
  Add<uint64_t>(&cache->removed, count);
  Add<uint64_t>(&depot.filled, count);
  return true;
}

uint32_t BlockCaches::NoteMiss(uint64_t stream_id, uint32_t size_class) {
  Cache& cache = MyCache();
  const LightLockHolder lock(&cache.lock);
  StreamStacks* const stacks = OwnStacks(&cache, stream_id);
  if (stacks == nullptr) return 0;
  Stack& stack = stacks->by_class[size_class];
  const bool is_first = stack.limit == 0;
  stack.limit = std::min<uint32_t>(std::max(2 * stack.limit, kFirstLimit),
                                   heights_[size_class]);
  return is_first ? 0
                  : std::min({kFillBlocks, stack.limit - 1,
                              stack.limit - stack.height});
}

void BlockCaches::Fill(uint64_t stream_id, uint32_t size_class,
                       std::vector<CachedBlock>* blocks) {
  Cache& cache = MyCache();
  const LightLockHolder lock(&cache.lock);
  StreamStacks* const stacks = FindStacks(&cache, stream_id);
  if (stacks == nullptr) return;
  Stack& stack = stacks->by_class[size_class];
  while (!blocks->empty() && stack.height < stack.limit) {
    stack.blocks[stack.height++] = blocks->back();
    ++stacks->blocks;
    blocks->pop_back();
    Add<uint64_t>(&cache.filled, 1);
  }
}

void BlockCaches::TakeOldest(uint32_t count, Cache* cache, StreamStacks* stacks,
                             Stack* stack, std::vector<CachedBlock>* blocks) {
  const auto begin = stack->blocks.begin();
  blocks->insert(blocks->end(), begin, begin + count);
  std::move(begin + count, begin + stack->height, begin);
  stack->height -= count;
  stacks->blocks -= count;
  Add<uint64_t>(&cache->removed, count);
}

void BlockCaches::TakeSurplus(uint64_t stream_id, uint32_t size_class,
                              std::vector<CachedBlock>* blocks) {
  Cache& cache = MyCache();
  const LightLockHolder lock(&cache.lock);
  StreamStacks* const stacks = OwnStacks(&cache, stream_id);
  if (stacks == nullptr) return;
  if (--stacks->frees_until_look == 0) {
    stacks->frees_until_look = kFreesBetweenLooks;
    for (Stack& stack : stacks->by_class) {
      if (stack.hits == 0) {
        TakeOldest(stack.height, &cache, stacks, &stack, blocks);
        stack.limit = 0;
      }
      stack.hits = 0;
    }
  }
  Stack& stack = stacks->by_class[size_class];
  // A thread may free what others allocate.
  if (stack.limit == 0 && is_shared()) stack.limit = heights_[size_class];
  if (stack.height < stack.limit || stack.limit == 0) return;
  if (stack.hits > 0 && stack.limit < heights_[size_class]) {
    stack.limit = std::min<uint32_t>(2 * stack.limit, heights_[size_class]);
  } else {
    TakeOldest((stack.height + 1) / 2, &cache, stacks, &stack, blocks);
  }
}

void BlockCaches::TakeStacks(Cache* cache, StreamStacks* stacks,
                             std::vector<CachedBlock>* blocks) {
  for (Stack& stack : stacks->by_class) {
    TakeOldest(stack.height, cache, stacks, &stack, blocks);
  }
}

void BlockCaches::TakeStream(uint64_t stream_id,
                             std::vector<CachedBlock>* blocks) {
  ForEachUsed([stream_id, blocks](Cache& cache) {
    const LightLockHolder lock(&cache.lock);
    StreamStacks* const stacks = FindStacks(&cache, stream_id);
    if (stacks != nullptr) TakeStacks(&cache, stacks, blocks);
  });
}

void BlockCaches::TakeAll(std::vector<CachedBlock>* blocks) {
  ForEachUsed([blocks](Cache& cache) {
    const LightLockHolder lock(&cache.lock);
    for (const std::unique_ptr<StreamStacks>& stacks : cache.streams) {
      TakeStacks(&cache, stacks.get(), blocks);
    }
  });
}

CacheTotals BlockCaches::totals() const {
  CacheTotals totals;
  ForEachUsed([&totals](const Cache& cache) {
    totals.allocations += cache.allocations.load(std::memory_order_relaxed);
    totals.frees += cache.frees.load(std::memory_order_relaxed);
    totals.live_bytes += cache.live_bytes.load(std::memory_order_relaxed);
  });
  return totals;
}

uint64_t BlockCaches::parked_blocks() const {
  uint64_t blocks = 0;
  ForEachUsed([&blocks](const Cache& cache) {
    const LightLockHolder lock(&cache.lock);
    blocks += cache.frees.load(std::memory_order_relaxed) +
              cache.filled.load(std::memory_order_relaxed) -
              cache.allocations.load(std::memory_order_relaxed) -
              cache.removed.load(std::memory_order_relaxed);
  });
  return blocks;
}

bool BlockCaches::CheckInvariants() const {
  bool is_good = true;
  ForEachUsed([&is_good](const Cache& cache) {
    const LightLockHolder lock(&cache.lock);
    for (const std::unique_ptr<StreamStacks>& stacks : cache.streams) {
      for (const Stack& stack : stacks->by_class) {
        for (uint32_t i = 0; i < stack.height; ++i) {
          is_good &=
              UnpackSlot(stack.blocks[i].cell->load(std::memory_order_relaxed))
                  .state == BlockState::kParked;
        }
      }
    }
  });
  return is_good;
}

}  // namespace firn
