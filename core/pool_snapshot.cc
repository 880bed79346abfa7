// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of what lies where. The books are copied a slice at a time, and all
// else is done without the lock, so that other threads do not wait for long.
// Addresses do not change while a block lives and a large block is never cut,
// so that slices fit together, whatever happens between them.

#include <algorithm>
#include <vector>

#include "firn/core/block_visits.h"
#include "firn/core/memory_segments.h"
#include "firn/core/pool_impl.h"

namespace firn {
namespace {

// What one slice looks at, at most, but for the end of a virtual granule or of
// a large block: less than a millisecond's worth.
constexpr size_t kBlocksPerSlice = 2048;
constexpr uint32_t kVgsPerSlice = 8192;

}  // namespace

// Copies of a stretch of the books. Its owner holds mutex_ whenever it fills
// it.
class Pool::Impl::SnapshotSlice {
 public:
  explicit SnapshotSlice(Impl* impl) : impl_(impl) {}

  // Copies from `vg` on; returns where the next one begins.
  VgIndex Fill(VgIndex vg) {
    impl_->mutex_.AssertHeld();
    vgs_.clear();
    blocks_.clear();
    const uint32_t count = impl_->address_space_->vg_count();
    const uint32_t end = static_cast<uint32_t>(
        std::min<uint64_t>(uint64_t{vg.value()} + kVgsPerSlice, count));
    bool is_within_block = false;
    while (vg.value() < count &&
           (is_within_block ||
            (vg.value() < end && blocks_.size() < kBlocksPerSlice))) {
      is_within_block = false;
      const VgRecord& record = impl_->VgAt(vg);
      uint32_t vgs = 1;
      if (!record.granule.is_none()) {
        switch (record.role) {
          case VgRole::kWindow:
            AddMapped(vg);
            AddWindow(vg);
            break;
          case VgRole::kRemainder:
          case VgRole::kInterior:
            vgs = AddLarge(vg);
            break;
          case VgRole::kPlaced:
            AddMapped(vg);
            is_within_block = AddPlaced(vg);
            break;
          default:
            AddMapped(vg);
            break;
        }
      }
      vg = vg + vgs;
    }
    return vg;
  }

  // Without the lock.
  void AppendTo(MemorySegmentBuilder* segments) const {
    auto block = blocks_.begin();
    for (const MappedVg& mapped : vgs_) {
      const uint64_t address =
          impl_->base_address_ + mapped.vg.value() * impl_->granule_bytes_;
      const uint64_t end = address + impl_->granule_bytes_;
      segments->AddRange(address, impl_->granule_bytes_, mapped.domain);
      for (; block != blocks_.end() && block->address < end; ++block) {
        segments->AddBlock(*block);
      }
    }
  }

 private:
  struct MappedVg {
    VgIndex vg;
    DomainId domain = DomainId::kDefault;
  };

  void AddMapped(VgIndex vg) {
    impl_->mutex_.AssertHeld();
    MappedVg mapped;
    mapped.vg = vg;
    mapped.domain = impl_->ArenaOf(vg).key.domain;
    vgs_.push_back(mapped);
  }
  void AddBlock(BlockStart start, uint64_t quanta, uint64_t requested_bytes,
                MemoryBlockState state) {
    impl_->mutex_.AssertHeld();
    MemoryBlock block;
    block.address = impl_->AddressOf(start);
    block.bytes = QuantaToBytes(quanta);
    block.requested_bytes = requested_bytes;
    block.state = state;
    if (state == MemoryBlockState::kAllocated) {
      block.tag = impl_->tags_.TagOf(UseKey(start));
    }
    blocks_.push_back(block);
  }
  void AddWindow(VgIndex vg) {
    impl_->mutex_.AssertHeld();
    impl_->ForEachBlockOn(
        vg, [this](BlockStart start, const SlotContents& contents)
                ABSL_NO_THREAD_SAFETY_ANALYSIS {
                  MemoryBlockState state = MemoryBlockState::kAllocated;
                  switch (contents.state) {
                    case BlockState::kLive:
                    case BlockState::kMarked:
                      break;
                    case BlockState::kPending:
                      state = MemoryBlockState::kPendingFree;
                      break;
                    default:
                      return;
                  }
                  AddBlock(start,
                           impl_->ExtentQuanta(start, contents.requested_bytes),
                           contents.requested_bytes, state);
                });
  }
  // The blocks that begin there; whether one goes on beyond it.
  bool AddPlaced(VgIndex vg) {
    impl_->mutex_.AssertHeld();
    uint64_t end = 0;
    impl_->ArenaOf(vg).placed->ForEachBlockOn(
        vg,
        [&](const PlacementAllocator::PlacedBlock& block)
            ABSL_NO_THREAD_SAFETY_ANALYSIS {
              end = impl_->AddressOf(block.start) + QuantaToBytes(block.quanta);
              if (block.start.vg != vg) return;
              AddPlacedBlock(block.start, block.quanta, block.requested_bytes);
            });
    return end > impl_->base_address_ +
                     (uint64_t{vg.value()} + 1) * impl_->granule_bytes_;
  }
  // Returns how many virtual granules the block has.
  uint32_t AddLarge(VgIndex vg) {
    impl_->mutex_.AssertHeld();
    const LargeAllocator::Placed placed = impl_->ArenaOf(vg).large.PlacedAt(vg);
    for (uint32_t i = 0; i < placed.range.count; ++i) {
      AddMapped(placed.range.first + i);
    }
    if (!placed.is_parked) {
      AddPlacedBlock(placed.start, placed.quanta, placed.requested_bytes);
    }
    return placed.range.count;
  }
  void AddPlacedBlock(BlockStart start, uint64_t quanta,
                      uint64_t requested_bytes) {
    if (requested_bytes > 0) {
      AddBlock(start, quanta, requested_bytes, MemoryBlockState::kAllocated);
    } else {
      // What was asked for is not on record any more.
      AddBlock(start, quanta, QuantaToBytes(quanta),
               MemoryBlockState::kPendingFree);
    }
  }

  Impl* const impl_;
  std::vector<MappedVg> vgs_;        // by address
  std::vector<MemoryBlock> blocks_;  // by address
};

MemorySnapshot Pool::Impl::TakeMemorySnapshot() {
  MemorySnapshot snapshot;
  snapshot.device_ordinal = identity_.device_ordinal;
  snapshot.granule_bytes = granule_bytes_;
  MemorySegmentBuilder segments(&snapshot.segments);
  SnapshotSlice slice(this);
  VgIndex next(0);
  for (bool is_more = true; is_more;) {
    {
      MutexLock lock(&mutex_);
      next = slice.Fill(next);
      is_more = next.value() < address_space_->vg_count();
      if (!is_more) snapshot.tag_names = tags_.Names();
    }
    // Meanwhile others have their turn.
    slice.AppendTo(&segments);
  }
  segments.Finish();
  return snapshot;
}

}  // namespace firn
