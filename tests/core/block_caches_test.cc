// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/block_caches.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "firn/core/placement/slot_directory.h"
#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kStream = 7;
constexpr size_t kMostStreams = 8;  // that one cache serves
constexpr uint32_t kEpoch = 3;

uint64_t Word(BlockState state, uint64_t bytes) {
  SlotContents contents;
  contents.state = state;
  contents.requested_bytes = bytes;
  contents.epoch = kEpoch;
  return PackSlot(contents);
}

BlockState StateOf(uint64_t word) { return UnpackSlot(word).state; }

class BlockCachesTest : public ::testing::Test {
 protected:
  // A block of its own slot.
  CachedBlock NewBlock(BlockState state, uint64_t bytes = 0) {
    cells_.emplace_back(Word(state, bytes));
    CachedBlock block;
    block.address = DevicePtr{512} * cells_.size();
    block.cell = &cells_.back();
    return block;
  }

  // Makes the calling thread's cache serve a stream, all stacks as high as they
  // may be.
  void Serve(uint64_t stream_id) {
    for (uint32_t size_class = 0; size_class < 3; ++size_class) {
      for (int i = 0; i < 5; ++i) caches_.NoteMiss(stream_id, size_class);
    }
  }
  bool Park(uint64_t stream_id, uint32_t size_class, CachedBlock block) {
    return caches_.Park(stream_id, size_class, block, kEpoch);
  }

  static std::vector<DevicePtr> AddressesOf(
      const std::vector<CachedBlock>& blocks) {
    std::vector<DevicePtr> addresses;
    for (const CachedBlock& block : blocks) addresses.push_back(block.address);
    return addresses;
  }

  std::deque<SlotCell> cells_;
  BlockCaches caches_{{4, 2, BlockCaches::kMostHeight}};
};

TEST_F(BlockCachesTest, GivesTheBlockParkedLastFirst) {
  Serve(kStream);
  const CachedBlock first = NewBlock(BlockState::kLive, 100);
  const CachedBlock second = NewBlock(BlockState::kLive, 200);
  EXPECT_TRUE(Park(kStream, 0, first));
  EXPECT_TRUE(Park(kStream, 0, second));
  EXPECT_EQ(StateOf(first.cell->load()), BlockState::kParked);
  EXPECT_EQ(caches_.parked_blocks(), 2u);
  EXPECT_TRUE(caches_.CheckInvariants());
  EXPECT_EQ(caches_.Take(kStream, 0, 300), second.address);
  EXPECT_EQ(second.cell->load(), Word(BlockState::kLive, 300));
  EXPECT_EQ(caches_.Take(kStream, 0, 400), first.address);
  EXPECT_EQ(caches_.Take(kStream, 0, 500), 0u);
  EXPECT_EQ(caches_.parked_blocks(), 0u);
}

TEST_F(BlockCachesTest, CountsWhatWentThrough) {
  Serve(kStream);
  ASSERT_TRUE(Park(kStream, 0, NewBlock(BlockState::kLive, 100)));
  ASSERT_TRUE(Park(kStream, 1, NewBlock(BlockState::kLive, 50)));
  ASSERT_NE(caches_.Take(kStream, 0, 30), 0u);
  EXPECT_EQ(caches_.Take(kStream, 0, 40), 0u);  // nothing there: not counted
  const CacheTotals totals = caches_.totals();
  EXPECT_EQ(totals.frees, 2u);
  EXPECT_EQ(totals.allocations, 1u);
  EXPECT_EQ(totals.live_bytes, 30 - 150);
}

TEST_F(BlockCachesTest, StreamsAndClassesAreKeptApart) {
  Serve(kStream);
  Serve(kStream + 1);
  const CachedBlock block = NewBlock(BlockState::kLive, 100);
  ASSERT_TRUE(Park(kStream, 0, block));
  EXPECT_EQ(caches_.Take(kStream + 1, 0, 100), 0u);
  EXPECT_EQ(caches_.Take(kStream, 1, 100), 0u);
  EXPECT_EQ(caches_.Take(kStream, 0, 100), block.address);
}

TEST_F(BlockCachesTest, ParksNothingForAStreamItDoesNotServe) {
  const CachedBlock block = NewBlock(BlockState::kLive, 100);
  EXPECT_FALSE(Park(kStream, 0, block));
  EXPECT_EQ(block.cell->load(), Word(BlockState::kLive, 100));
  EXPECT_EQ(caches_.totals().frees, 0u);
}

TEST_F(BlockCachesTest, ABlockThatIsNotLiveIsNotParked) {
  Serve(kStream);
  for (const BlockState state :
       {BlockState::kNone, BlockState::kParked, BlockState::kPending}) {
    const CachedBlock block = NewBlock(state, 100);
    EXPECT_FALSE(Park(kStream, 0, block));
    EXPECT_EQ(block.cell->load(), Word(state, 100));
  }
  EXPECT_EQ(caches_.parked_blocks(), 0u);
  EXPECT_EQ(caches_.totals().frees, 0u);
}

TEST_F(BlockCachesTest, AFullStackParksNothing) {
  Serve(kStream);
  EXPECT_TRUE(Park(kStream, 1, NewBlock(BlockState::kLive, 1)));
  EXPECT_TRUE(Park(kStream, 1, NewBlock(BlockState::kLive, 2)));
  const CachedBlock third = NewBlock(BlockState::kLive, 3);
  EXPECT_FALSE(Park(kStream, 1, third));
  EXPECT_EQ(third.cell->load(), Word(BlockState::kLive, 3));
  EXPECT_EQ(caches_.totals().frees, 2u);
  // Another class has room.
  EXPECT_TRUE(Park(kStream, 0, third));
}

TEST_F(BlockCachesTest, ABlockOfAnotherWindowIsNotParked) {
  Serve(kStream);
  const CachedBlock block = NewBlock(BlockState::kLive, 100);
  EXPECT_FALSE(caches_.Park(kStream, 0, block, kEpoch + 1));
  EXPECT_EQ(block.cell->load(), Word(BlockState::kLive, 100));
}

TEST_F(BlockCachesTest, AStackGrowsAsAllocationsMiss) {
  EXPECT_EQ(caches_.NoteMiss(kStream, 2), 0u);
  EXPECT_EQ(caches_.NoteMiss(kStream, 2), 3u);
  EXPECT_EQ(caches_.NoteMiss(kStream, 2), 7u);
  EXPECT_EQ(caches_.NoteMiss(kStream, 2), 7u);
  // No more than fit.
  EXPECT_EQ(caches_.NoteMiss(kStream, 1), 0u);
  EXPECT_EQ(caches_.NoteMiss(kStream, 1), 1u);
}

TEST_F(BlockCachesTest, NowAndThenIdleStacksAreGivenUp) {
  Serve(kStream);
  const CachedBlock idle = NewBlock(BlockState::kLive, 100);
  const CachedBlock busy = NewBlock(BlockState::kLive, 100);
  ASSERT_TRUE(Park(kStream, 0, idle));
  ASSERT_TRUE(Park(kStream, 2, busy));
  std::vector<CachedBlock> surplus;
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(caches_.Take(kStream, 2, 100), busy.address);
    ASSERT_TRUE(Park(kStream, 2, busy));
    caches_.TakeSurplus(kStream, 2, &surplus);
  }
  EXPECT_THAT(AddressesOf(surplus), ElementsAre(idle.address));
  // Nothing is parked there until an allocation misses.
  EXPECT_FALSE(Park(kStream, 0, NewBlock(BlockState::kLive, 1)));
  EXPECT_EQ(caches_.Take(kStream, 2, 100), busy.address);
}

TEST_F(BlockCachesTest, TakeStreamLeavesTheOthers) {
  Serve(kStream);
  Serve(kStream + 1);
  const CachedBlock block = NewBlock(BlockState::kLive, 100);
  const CachedBlock other = NewBlock(BlockState::kLive, 100);
  ASSERT_TRUE(Park(kStream, 0, block));
  ASSERT_TRUE(Park(kStream + 1, 0, other));
  std::vector<CachedBlock> taken;
  std::thread([&] { caches_.TakeStream(kStream, &taken); }).join();
  EXPECT_THAT(AddressesOf(taken), ElementsAre(block.address));
  EXPECT_EQ(caches_.parked_blocks(), 1u);
  EXPECT_EQ(caches_.Take(kStream + 1, 0, 1), other.address);
}

TEST_F(BlockCachesTest, FillLeavesWhatFindsNoRoom) {
  Serve(kStream);
  std::vector<CachedBlock> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(NewBlock(BlockState::kParked));
  const std::vector<DevicePtr> addresses = AddressesOf(blocks);
  caches_.Fill(kStream, 0, &blocks);
  EXPECT_THAT(AddressesOf(blocks), ElementsAre(addresses[0], addresses[1]));
  EXPECT_EQ(caches_.parked_blocks(), 4u);
  EXPECT_EQ(caches_.Take(kStream, 0, 9), addresses[2]);
  // Nobody freed those.
  EXPECT_EQ(caches_.totals().frees, 0u);
  EXPECT_EQ(caches_.totals().allocations, 1u);
}

TEST_F(BlockCachesTest, AFullStackGivesUpItsOlderHalf) {
  Serve(kStream);
  std::array<CachedBlock, 4> parked;
  std::vector<CachedBlock> older = {NewBlock(BlockState::kParked)};
  for (CachedBlock& block : parked) {
    caches_.TakeSurplus(kStream, 0, &older);
    ASSERT_THAT(older, SizeIs(1));  // there is room
    block = NewBlock(BlockState::kLive, 100);
    ASSERT_TRUE(Park(kStream, 0, block));
  }
  caches_.TakeSurplus(kStream, 0, &older);
  ASSERT_THAT(older, SizeIs(3));  // appended to what was there
  EXPECT_EQ(older[1].address, parked[0].address);
  EXPECT_EQ(older[2].address, parked[1].address);
  EXPECT_EQ(StateOf(older[1].cell->load()), BlockState::kParked);
  EXPECT_EQ(caches_.parked_blocks(), 2u);
  EXPECT_EQ(caches_.Take(kStream, 0, 1), parked[3].address);
  EXPECT_EQ(caches_.Take(kStream, 0, 1), parked[2].address);
  older.clear();
  caches_.TakeSurplus(kStream + 1, 0, &older);
  EXPECT_THAT(older, IsEmpty());
}

TEST_F(BlockCachesTest, TakeAllEmptiesTheCachesOfThreadsThatEnded) {
  Serve(kStream);
  const CachedBlock own = NewBlock(BlockState::kLive, 1);
  const CachedBlock first = NewBlock(BlockState::kLive, 2);
  const CachedBlock second = NewBlock(BlockState::kLive, 3);
  ASSERT_TRUE(Park(kStream, 0, own));
  std::thread([&] {
    Serve(kStream);
    Serve(kStream + 1);
    EXPECT_TRUE(Park(kStream, 0, first));
    EXPECT_TRUE(Park(kStream + 1, 1, second));
  }).join();
  // Another's blocks are not given out.
  EXPECT_EQ(caches_.Take(kStream + 1, 1, 1), 0u);
  EXPECT_EQ(caches_.parked_blocks(), 3u);
  std::vector<CachedBlock> all;
  caches_.TakeAll(&all);
  EXPECT_THAT(AddressesOf(all),
              UnorderedElementsAre(own.address, first.address, second.address));
  EXPECT_EQ(caches_.parked_blocks(), 0u);
  EXPECT_EQ(caches_.Take(kStream, 0, 1), 0u);
  EXPECT_EQ(caches_.totals().frees, 3u);
  EXPECT_EQ(caches_.totals().live_bytes, -6);
}

TEST_F(BlockCachesTest, OneStreamTooManyIsServedInThePlaceOfAnEmptyOne) {
  for (uint64_t id = 1; id <= kMostStreams; ++id) {
    Serve(id);
    std::vector<CachedBlock> block = {NewBlock(BlockState::kParked)};
    caches_.Fill(id, 0, &block);
    ASSERT_THAT(block, IsEmpty());
  }
  std::vector<CachedBlock> block = {NewBlock(BlockState::kParked)};
  Serve(kMostStreams + 1);
  caches_.Fill(kMostStreams + 1, 0, &block);
  EXPECT_THAT(block, SizeIs(1));  // none is empty
  EXPECT_FALSE(Park(kMostStreams + 1, 0, NewBlock(BlockState::kLive, 1)));

  ASSERT_NE(caches_.Take(5, 0, 1), 0u);
  Serve(kMostStreams + 1);
  caches_.Fill(kMostStreams + 1, 0, &block);
  EXPECT_THAT(block, IsEmpty());
  EXPECT_FALSE(Park(5, 0, NewBlock(BlockState::kLive, 1)));
  EXPECT_TRUE(Park(kMostStreams + 1, 0, NewBlock(BlockState::kLive, 1)));
  for (uint64_t id = 1; id <= kMostStreams; ++id) {
    EXPECT_EQ(caches_.Take(id, 0, 1) != 0, id != 5) << "stream " << id;
  }
}

// --- Threads ---

TEST_F(BlockCachesTest, WhatOneThreadFreesAnotherTakes) {
  Serve(kStream);
  std::vector<CachedBlock> freed;
  std::thread([&] {
    // It never takes anything, so that its first free only makes room.
    EXPECT_FALSE(Park(kStream, 0, NewBlock(BlockState::kLive, 1)));
    std::vector<CachedBlock> surplus;
    caches_.TakeSurplus(kStream, 0, &surplus);
    EXPECT_THAT(surplus, IsEmpty());
    // Four fill its stack, of which the older ones make way; and so until the
    // depot is as full.
    for (int i = 0; i < 8; ++i) {
      freed.push_back(NewBlock(BlockState::kLive, 1));
      EXPECT_TRUE(Park(kStream, 0, freed.back())) << i;
    }
    EXPECT_FALSE(Park(kStream, 0, NewBlock(BlockState::kLive, 1)));
    caches_.TakeSurplus(kStream, 0, &surplus);
    EXPECT_THAT(AddressesOf(surplus),
                ElementsAre(freed[4].address, freed[5].address));
  }).join();
  EXPECT_EQ(caches_.parked_blocks(), 6u);
  EXPECT_TRUE(caches_.CheckInvariants());
  std::vector<DevicePtr> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(caches_.Take(kStream, 0, 1));
  EXPECT_THAT(taken, UnorderedElementsAre(freed[0].address, freed[1].address,
                                          freed[2].address, freed[3].address));
  // The other's own are its own, and those of a stream the stream's.
  EXPECT_EQ(caches_.Take(kStream, 0, 1), 0u);
  EXPECT_EQ(caches_.Take(kStream + 1, 0, 1), 0u);
  EXPECT_EQ(caches_.parked_blocks(), 2u);
  std::vector<CachedBlock> all;
  caches_.TakeAll(&all);
  EXPECT_THAT(all, SizeIs(2));
  EXPECT_EQ(caches_.parked_blocks(), 0u);
}

TEST_F(BlockCachesTest, TakeStreamAndTakeAllEmptyTheDepot) {
  Serve(kStream);
  for (const bool one_stream : {true, false}) {
    std::thread([&] {
      std::vector<CachedBlock> surplus;
      caches_.TakeSurplus(kStream, 0, &surplus);
      for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(Park(kStream, 0, NewBlock(BlockState::kLive, 1)));
      }
    }).join();
    EXPECT_EQ(caches_.parked_blocks(), 6u);
    std::vector<CachedBlock> all;
    if (one_stream) {
      caches_.TakeStream(kStream, &all);
    } else {
      caches_.TakeAll(&all);
    }
    EXPECT_THAT(all, SizeIs(6));
    EXPECT_EQ(caches_.parked_blocks(), 0u);
    EXPECT_EQ(caches_.Take(kStream, 0, 1), 0u);
  }
}

TEST_F(BlockCachesTest, OfTwoThreadsThatParkABlockOneSucceeds) {
  constexpr int kRounds = 5000;
  const CachedBlock block = NewBlock(BlockState::kLive, 100);
  std::atomic<int> round{0};
  std::atomic<int> successes{0};
  std::atomic<int> done{0};
  const auto park = [&] {
    Serve(kStream);
    for (int i = 1; i <= kRounds; ++i) {
      while (round.load() < i) std::this_thread::yield();
      if (Park(kStream, 0, block)) ++successes;
      ++done;
    }
  };
  std::thread first(park);
  std::thread second(park);
  int wrong = 0;
  for (int i = 1; i <= kRounds; ++i) {
    successes = 0;
    done = 0;
    round = i;
    while (done.load() < 2) std::this_thread::yield();
    std::vector<CachedBlock> all;
    caches_.TakeAll(&all);
    if (successes != 1 || all.size() != 1) ++wrong;
    block.cell->store(Word(BlockState::kLive, 100));
  }
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(caches_.totals().frees, uint64_t{kRounds});
}

TEST_F(BlockCachesTest, NoBlockIsGivenToTwoOfManyThreads) {
  constexpr int kThreads = 6;
  constexpr int kSteps = 8000;
  constexpr size_t kBlocks = 64;
  std::vector<CachedBlock> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(NewBlock(BlockState::kLive, 1));
  }
  std::array<std::atomic<bool>, kBlocks> is_held = {};
  const auto index_of = [&](DevicePtr address) { return address / 512 - 1; };
  // Blocks that nobody holds and no cache has.
  Mutex mutex;
  std::vector<CachedBlock> at_large = blocks;
  std::atomic<uint64_t> wrong{0};
  std::atomic<int64_t> balance{0};  // taken less parked
  const auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<CachedBlock> held;
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t stream_id = 1 + random() % 3;
      const uint32_t size_class = static_cast<uint32_t>(random() % 3);
      if (random() % 2 == 0) {
        const DevicePtr address = caches_.Take(stream_id, size_class, 1);
        if (address != 0) {
          ++balance;
          held.push_back(blocks[index_of(address)]);
          if (is_held[index_of(address)].exchange(true)) ++wrong;
        } else {
          Serve(stream_id);
          MutexLock lock(&mutex);
          if (at_large.empty()) continue;
          held.push_back(at_large.back());
          at_large.pop_back();
          if (is_held[index_of(held.back().address)].exchange(true)) ++wrong;
        }
      } else if (!held.empty()) {
        const CachedBlock block = held.back();
        std::atomic<bool>& flag = is_held[index_of(block.address)];
        flag.store(false);  // whoever finds it there may have it
        if (Park(stream_id, size_class, block)) {
          --balance;
          held.pop_back();
        } else {
          flag.store(true);
        }
      }
    }
    MutexLock lock(&mutex);
    for (const CachedBlock& block : held) {
      is_held[index_of(block.address)].store(false);
      at_large.push_back(block);
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  const auto sweep = [&] {
    std::vector<CachedBlock> all;
    caches_.TakeAll(&all);
    for (const CachedBlock& block : all) {
      if (StateOf(block.cell->load()) != BlockState::kParked) ++wrong;
      block.cell->store(Word(BlockState::kLive, 1));
    }
    MutexLock lock(&mutex);
    at_large.insert(at_large.end(), all.begin(), all.end());
  };
  for (int i = 0; i < 200; ++i) {
    sweep();
    if (!caches_.CheckInvariants()) ++wrong;
    if (caches_.parked_blocks() > kBlocks) ++wrong;
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  sweep();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(caches_.parked_blocks(), 0u);
  MutexLock lock(&mutex);
  EXPECT_THAT(at_large, SizeIs(kBlocks));
  const CacheTotals totals = caches_.totals();
  EXPECT_EQ(static_cast<int64_t>(totals.allocations - totals.frees),
            balance.load());
  EXPECT_EQ(totals.live_bytes, balance.load());
}

}  // namespace
}  // namespace firn
