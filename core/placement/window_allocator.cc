// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/window_allocator.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// A class that has more windows than this gets grown ones from then on.
constexpr uint32_t kWindowsBeforeGrowth = 64;
// Windows tried before a new one is made: more than one only where slots lie
// under live bytes of others.
constexpr int kWindowTries = 16;

bool TestBit(const std::vector<uint64_t>& bits, uint32_t i) {
  return (bits[i / 64] >> (i % 64)) & 1;
}
void SetBit(std::vector<uint64_t>* bits, uint32_t i) {
  (*bits)[i / 64] |= uint64_t{1} << (i % 64);
}
void ClearBit(std::vector<uint64_t>* bits, uint32_t i) {
  (*bits)[i / 64] &= ~(uint64_t{1} << (i % 64));
}

OffsetInterval IntervalAt(uint32_t lo, uint32_t quanta) {
  OffsetInterval interval;
  interval.lo = lo;
  interval.hi = lo + quanta;
  return interval;
}

}  // namespace

WindowAllocator::WindowAllocator(Backing* backing, const SizeClasses* classes,
                                 SlotDirectory* directory)
    : backing_(backing),
      books_(&backing->books()),
      classes_(*classes),
      directory_(*directory),
      lists_(classes_.count()) {}

// --- Lists of windows with free slots ---

void WindowAllocator::Link(uint32_t index) {
  Window& window = windows_[index];
  const uint32_t free = window.slots - window.live;
  if (free == 0 || window.size_class == kNone || window.blocked) return;
  ClassList& list = lists_[window.size_class];
  if (list.heads.size() <= free) {
    list.heads.resize(free + 1, kNone);
    list.occupied.resize(free / 64 + 1, 0);
  }
  window.previous = kNone;
  window.next = list.heads[free];
  if (window.next != kNone) windows_[window.next].previous = index;
  list.heads[free] = index;
  SetBit(&list.occupied, free);
}

void WindowAllocator::Unlink(uint32_t index) {
  Window& window = windows_[index];
  const uint32_t free = window.slots - window.live;
  if (free == 0 || window.size_class == kNone || window.blocked) return;
  ClassList& list = lists_[window.size_class];
  if (window.next != kNone) windows_[window.next].previous = window.previous;
  if (window.previous != kNone) {
    windows_[window.previous].next = window.next;
  } else {
    list.heads[free] = window.next;
    if (window.next == kNone) ClearBit(&list.occupied, free);
  }
  window.next = window.previous = kNone;
}

uint32_t WindowAllocator::FirstWithFewestFree(const ClassList& list) const {
  for (size_t word = 0; word < list.occupied.size(); ++word) {
    if (list.occupied[word] == 0) continue;
    const size_t bit =
        static_cast<size_t>(absl::countr_zero(list.occupied[word]));
    return list.heads[word * 64 + bit];
  }
  return kNone;
}

void WindowAllocator::Block(uint32_t index) {
  Unlink(index);
  windows_[index].blocked = true;
  books_->CountBlockedWindow(books_->vg(windows_[index].vg).granule, 1);
}

void WindowAllocator::UnblockAll(GranuleId granule) {
  const GranuleRecord& record = books_->granule(granule);
  if (record.blocked_windows == 0 || record.is_closed()) return;
  for (VgIndex at = books_->granule(granule).first; !at.is_none();
       at = books_->vg(at).next) {
    const VgRecord& vg = books_->vg(at);
    if (vg.role != VgRole::kWindow || !windows_[vg.owner].blocked) continue;
    windows_[vg.owner].blocked = false;
    books_->CountBlockedWindow(granule, -1);
    Link(vg.owner);
  }
}

// --- Slots ---

OffsetInterval WindowAllocator::SlotInterval(const Window& window,
                                             uint32_t slot) const {
  return IntervalAt(books_->vg(window.vg).window.lo + slot * window.slot_quanta,
                    window.slot_quanta);
}

uint32_t WindowAllocator::SlotAt(const Window& window,
                                 uint32_t offset_quanta) const {
  const uint32_t lo = books_->vg(window.vg).window.lo;
  if (offset_quanta < lo) return kNone;
  const uint32_t slot = (offset_quanta - lo) / window.slot_quanta;
  if (slot >= window.slots || lo + slot * window.slot_quanta != offset_quanta ||
      !TestBit(window.live_slots, slot)) {
    return kNone;
  }
  return slot;
}

uint32_t WindowAllocator::FindSlot(const Window& window, uint32_t rank) const {
  // So many slots' words fill a line of the host's caches.
  constexpr uint32_t kSlotsApart = 8;
  const GranuleRecord& granule = books_->granule(books_->vg(window.vg).granule);
  if (granule.is_closed()) return kNone;
  const bool may_be_blocked = granule.live_quanta > 0;
  // From one slot on, then from the start: free slots, a word at a time.
  const uint32_t first =
      (window.first_slot + rank * kSlotsApart) % window.slots;
  for (const auto& [begin, end] :
       {std::pair(first, window.slots), std::pair(0u, first)}) {
    for (uint32_t slot = begin; slot < end;) {
      const uint64_t free = ~window.live_slots[slot / 64] >> (slot % 64);
      if (free == 0) {
        slot = (slot / 64 + 1) * 64;
        continue;
      }
      slot += static_cast<uint32_t>(absl::countr_zero(free));
      if (slot >= end) break;
      if (!may_be_blocked ||
          !granule.occupancy.AnyIn(SlotInterval(window, slot))) {
        return slot;
      }
      ++slot;
    }
  }
  return kNone;
}

BlockStart WindowAllocator::TakeSlot(uint32_t index, uint32_t slot,
                                     BlockState state,
                                     uint64_t requested_bytes) {
  Unlink(index);
  Window& window = windows_[index];
  SetBit(&window.live_slots, slot);
  SlotContents contents;
  contents.state = state;
  contents.requested_bytes = requested_bytes;
  contents.epoch = window.cells.epoch;
  window.cells.first[slot].store(PackSlot(contents), std::memory_order_relaxed);
  ++window.live;
  const OffsetInterval interval = SlotInterval(window, slot);
  books_->AddLive(books_->vg(window.vg).granule, interval);
  Link(index);
  BlockStart start;
  start.vg = window.vg;
  start.offset_quanta = interval.lo;
  return start;
}

// --- Windows ---

uint32_t WindowAllocator::AddWindow(VgIndex vg, OffsetInterval interval,
                                    uint32_t size_class, uint32_t slot_quanta,
                                    uint32_t slots) {
  uint32_t index;
  if (unused_windows_.empty()) {
    index = static_cast<uint32_t>(windows_.size());
    windows_.emplace_back();
  } else {
    index = unused_windows_.back();
    unused_windows_.pop_back();
  }
  Window& window = windows_[index];
  window.vg = vg;
  window.size_class = size_class;
  window.slot_quanta = slot_quanta;
  window.slots = slots;
  window.live = 0;
  window.first_slot = 0;
  window.blocked = false;
  window.live_slots.assign((slots + 63) / 64, 0);
  SlotGrid grid;
  grid.size_class = size_class == kNone ? classes_.count() : size_class;
  grid.lo_quanta = interval.lo;
  grid.slots = slots;
  window.cells = directory_.Open(vg, grid);
  if (size_class != kNone) {
    ClassList& list = lists_[size_class];
    ++list.windows;
    if (list.windows > kWindowsBeforeGrowth) list.grown = true;
    window.first_slot = list.first_slots.Next(slots);
  }
  books_->Activate(vg, VgRole::kWindow, interval, index);
  Link(index);
  return index;
}

void WindowAllocator::RemoveWindow(uint32_t index) {
  Window& window = windows_[index];
  Unlink(index);
  if (window.blocked) {
    books_->CountBlockedWindow(books_->vg(window.vg).granule, -1);
    window.blocked = false;
  }
  if (window.size_class != kNone) --lists_[window.size_class].windows;
  directory_.Close(window.vg);
  books_->Deactivate(window.vg);
  window.vg = VgIndex();
  unused_windows_.push_back(index);
}

absl::StatusOr<uint32_t> WindowAllocator::NewWindow(uint32_t size_class,
                                                    uint32_t slot_quanta,
                                                    uint32_t slots,
                                                    uint32_t alignment_quanta,
                                                    bool use_empty_granule) {
  const uint32_t quanta = slot_quanta * slots;
  const Gap gap = books_->FindGap(quanta, alignment_quanta);
  if (!gap.granule.is_none()) {
    VgIndex vg = books_->SpareOf(gap.granule);
    if (vg.is_none()) {
      absl::StatusOr<VgIndex> mapped = backing_->MapAlias(gap.granule);
      if (!mapped.ok()) return mapped.status();
      vg = *mapped;
    }
    return AddWindow(vg, gap.interval, size_class, slot_quanta, slots);
  }
  if (!use_empty_granule) {
    return absl::ResourceExhaustedError("no gap is large enough");
  }
  absl::StatusOr<VgIndex> vg = backing_->SpareOnEmptyGranule();
  if (!vg.ok()) return vg.status();
  // The first window of a granule goes to a stripe that no regular pattern of
  // births and deaths can pile up.
  const uint32_t stripe_quanta =
      (quanta + alignment_quanta - 1) & ~(alignment_quanta - 1);
  const uint32_t stripes =
      std::max(1u, books_->quanta_per_granule() / stripe_quanta);
  const uint32_t stripe = first_stripes_.Next(stripes);
  return AddWindow(*vg, IntervalAt(stripe * stripe_quanta, quanta), size_class,
                   slot_quanta, slots);
}

absl::StatusOr<uint32_t> WindowAllocator::NewWindowInHole(
    uint32_t size_class, uint32_t slot_quanta, uint32_t alignment_quanta) {
  const Gap hole = books_->FindHole(slot_quanta, alignment_quanta);
  if (hole.granule.is_none()) {
    return absl::ResourceExhaustedError("no hole is large enough");
  }
  VgIndex vg = books_->SpareOf(hole.granule);
  if (vg.is_none()) {
    absl::StatusOr<VgIndex> mapped = backing_->MapAlias(hole.granule);
    if (!mapped.ok()) return mapped.status();
    vg = *mapped;
  }
  return AddWindow(vg, hole.interval, size_class, slot_quanta, 1);
}

// --- Blocks ---

absl::StatusOr<BlockStart> WindowAllocator::AllocateSlot(
    uint32_t size_class, uint64_t requested_bytes, uint32_t rank,
    Effort effort) {
  ClassList& list = lists_[size_class];
  for (int i = 0; i < kWindowTries; ++i) {
    const uint32_t index = FirstWithFewestFree(list);
    if (index == kNone) break;
    const uint32_t slot = FindSlot(windows_[index], rank);
    if (slot != kNone) {
      return TakeSlot(index, slot, BlockState::kLive, requested_bytes);
    }
    Block(index);
  }
  const uint32_t slot_quanta = classes_.slot_quanta(size_class);
  const uint32_t alignment = classes_.alignment_quanta(size_class);
  absl::StatusOr<uint32_t> index =
      NewWindow(size_class, slot_quanta,
                classes_.slots_per_window(size_class, list.grown), alignment,
                /*use_empty_granule=*/true);
  if (absl::IsResourceExhausted(index.status()) &&
      effort == Effort::kScattered) {
    // Smaller windows, but no smaller than they must be: each is a mapping.
    uint32_t slots = classes_.slots_per_window(size_class, list.grown) / 2;
    for (; slots > 0 && absl::IsResourceExhausted(index.status()); slots /= 2) {
      index = NewWindow(size_class, slot_quanta, slots, alignment,
                        /*use_empty_granule=*/false);
    }
    if (absl::IsResourceExhausted(index.status())) {
      index = NewWindowInHole(size_class, slot_quanta, alignment);
    }
  }
  if (!index.ok()) return index.status();
  return TakeSlot(*index, FindSlot(windows_[*index], rank), BlockState::kLive,
                  requested_bytes);
}

WindowAllocator::Shape WindowAllocator::ShapeOf(
    uint32_t quanta, uint32_t alignment_quanta) const {
  Shape shape;
  if (quanta < classes_.limit_quanta() &&
      alignment_quanta < classes_.limit_quanta()) {
    shape.size_class = classes_.ClassOf(quanta, alignment_quanta);
    // An alignment that would waste as much again gets a window of its own.
    if (shape.size_class < classes_.count() &&
        classes_.slot_quanta(shape.size_class) <= 2 * quanta &&
        classes_.alignment_quanta(shape.size_class) >= alignment_quanta) {
      shape.quanta = classes_.slot_quanta(shape.size_class);
      shape.alignment_quanta = classes_.alignment_quanta(shape.size_class);
      return shape;
    }
  }
  shape.size_class = classes_.count();
  shape.quanta = quanta;
  shape.alignment_quanta = alignment_quanta;
  return shape;
}

absl::StatusOr<BlockStart> WindowAllocator::Allocate(uint32_t quanta,
                                                     uint32_t alignment_quanta,
                                                     uint64_t requested_bytes,
                                                     uint32_t rank,
                                                     Effort effort) {
  const Shape shape = ShapeOf(quanta, alignment_quanta);
  if (shape.size_class < classes_.count()) {
    return AllocateSlot(shape.size_class, requested_bytes, rank, effort);
  }
  absl::StatusOr<uint32_t> index =
      NewWindow(kNone, quanta, 1, alignment_quanta, /*use_empty_granule=*/true);
  if (absl::IsResourceExhausted(index.status()) &&
      effort == Effort::kScattered) {
    index = NewWindowInHole(kNone, quanta, alignment_quanta);
  }
  if (!index.ok()) return index.status();
  return TakeSlot(*index, 0, BlockState::kLive, requested_bytes);
}

uint64_t WindowAllocator::RequestedBytes(BlockStart start) const {
  const Window& window = windows_[books_->vg(start.vg).owner];
  const uint32_t slot = SlotAt(window, start.offset_quanta);
  if (slot == kNone) return 0;
  const SlotContents contents = ContentsOf(window, slot);
  return contents.state == BlockState::kLive ||
                 contents.state == BlockState::kMarked
             ? contents.requested_bytes
             : 0;
}

uint64_t WindowAllocator::SetPending(BlockStart start) {
  const Window& window = windows_[books_->vg(start.vg).owner];
  const uint32_t slot = SlotAt(window, start.offset_quanta);
  if (slot == kNone) return 0;
  SlotCell* const cell = &window.cells.first[slot];
  const uint32_t epoch = window.cells.epoch;
  std::optional<SlotContents> changed =
      ChangeState(cell, BlockState::kLive, BlockState::kPending, epoch);
  if (!changed.has_value()) {
    changed =
        ChangeState(cell, BlockState::kMarked, BlockState::kPending, epoch);
  }
  return changed.has_value() ? changed->requested_bytes : 0;
}

bool WindowAllocator::Mark(BlockStart start) {
  const Window& window = windows_[books_->vg(start.vg).owner];
  const uint32_t slot = SlotAt(window, start.offset_quanta);
  if (slot == kNone) return false;
  return ContentsOf(window, slot).state == BlockState::kMarked ||
         ChangeState(&window.cells.first[slot], BlockState::kLive,
                     BlockState::kMarked, window.cells.epoch)
             .has_value();
}

void WindowAllocator::SetLive(BlockStart start, uint64_t requested_bytes) {
  const Window& window = windows_[books_->vg(start.vg).owner];
  const uint32_t slot = SlotAt(window, start.offset_quanta);
  assert(slot != kNone);
  SlotContents contents = ContentsOf(window, slot);
  contents.state = BlockState::kLive;
  contents.requested_bytes = requested_bytes;
  window.cells.first[slot].store(PackSlot(contents), std::memory_order_relaxed);
}

SlotContents WindowAllocator::ContentsOf(const Window& window,
                                         uint32_t slot) const {
  return UnpackSlot(window.cells.first[slot].load(std::memory_order_relaxed));
}

void WindowAllocator::TakeParked(uint32_t size_class, uint32_t count,
                                 uint32_t rank,
                                 std::vector<BlockStart>* blocks) {
  const ClassList& list = lists_[size_class];
  for (; count > 0; --count) {
    const uint32_t index = FirstWithFewestFree(list);
    if (index == kNone) return;
    const uint32_t slot = FindSlot(windows_[index], rank);
    // One that is blocked is left to the next allocation.
    if (slot == kNone) return;
    blocks->push_back(
        TakeSlot(index, slot, BlockState::kParked, /*requested_bytes=*/0));
  }
}

void WindowAllocator::Free(BlockStart start) {
  const uint32_t index = books_->vg(start.vg).owner;
  const GranuleId granule = books_->vg(start.vg).granule;
  Window& window = windows_[index];
  const uint32_t slot = SlotAt(window, start.offset_quanta);
  assert(slot != kNone);
  Unlink(index);
  books_->RemoveLive(granule, SlotInterval(window, slot));
  ClearBit(&window.live_slots, slot);
  window.cells.first[slot].store(0, std::memory_order_relaxed);
  --window.live;
  Link(index);
  if (window.live == 0) RemoveWindow(index);
  UnblockAll(granule);
}

void WindowAllocator::AppendLiveExtents(
    uint32_t window_index, std::vector<OffsetInterval>* extents) const {
  const Window& window = windows_[window_index];
  const uint32_t lo = books_->vg(window.vg).window.lo;
  // Runs of live slots, a word of the bitmap at a time.
  uint32_t slot = 0;
  while (slot < window.slots) {
    const uint32_t bit = slot % 64;
    const uint64_t rest = window.live_slots[slot / 64] >> bit;
    if ((rest & 1) == 0) {
      slot +=
          rest == 0 ? 64 - bit : static_cast<uint32_t>(absl::countr_zero(rest));
      continue;
    }
    const uint32_t run = static_cast<uint32_t>(absl::countr_one(rest));
    const OffsetInterval interval =
        IntervalAt(lo + slot * window.slot_quanta, run * window.slot_quanta);
    if (slot > 0 && bit == 0 && TestBit(window.live_slots, slot - 1)) {
      extents->back().hi = interval.hi;  // goes on from the word before
    } else {
      extents->push_back(interval);
    }
    slot += run;
  }
}

void WindowAllocator::ForEachBlock(
    absl::FunctionRef<void(const SlotContents&, uint32_t quanta)> visit) const {
  for (const Window& window : windows_) {
    if (window.vg.is_none()) continue;
    for (uint32_t word = 0; word < window.live_slots.size(); ++word) {
      for (uint64_t bits = window.live_slots[word]; bits != 0;
           bits &= bits - 1) {
        const uint32_t bit = static_cast<uint32_t>(absl::countr_zero(bits));
        visit(ContentsOf(window, word * 64 + bit), window.slot_quanta);
      }
    }
  }
}

void WindowAllocator::PrepareMove(uint32_t window_index) {
  Window& window = windows_[window_index];
  if (!window.blocked) return;
  window.blocked = false;
  books_->CountBlockedWindow(books_->vg(window.vg).granule, -1);
  Link(window_index);
}

absl::Status WindowAllocator::CheckInvariants() const {
  for (uint32_t i = 0; i < windows_.size(); ++i) {
    const Window& window = windows_[i];
    if (window.vg.is_none()) continue;
    const VgRecord& vg = books_->vg(window.vg);
    if (vg.role != VgRole::kWindow || vg.owner != i) {
      return absl::InternalError(
          absl::StrCat("window ", i, " does not own its virtual granule"));
    }
    uint32_t live = 0;
    for (uint32_t slot = 0; slot < window.slots; ++slot) {
      const SlotContents contents = ContentsOf(window, slot);
      const bool is_none = contents.state == BlockState::kNone ||
                           contents.epoch != window.cells.epoch;
      if (is_none == TestBit(window.live_slots, slot)) {
        return absl::InternalError(absl::StrCat("I1: the directory and window ",
                                                i, " differ on slot ", slot));
      }
      if (is_none) continue;
      ++live;
      if (!books_->granule(vg.granule)
               .occupancy.AllIn(SlotInterval(window, slot))) {
        return absl::InternalError(absl::StrCat("I1: a live slot of window ", i,
                                                " is free in its granule"));
      }
    }
    if (live != window.live || live == 0) {
      return absl::InternalError(absl::StrCat(
          "window ", i, " counts ", window.live, " live slots, has ", live));
    }
  }
  return absl::OkStatus();
}

}  // namespace firn
