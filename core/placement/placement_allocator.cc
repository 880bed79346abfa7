// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/placement_allocator.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// The largest alignment of AllocateOptions.
constexpr uint64_t kMostAlignmentBytes = uint64_t{1} << 30;

VgRange MakeRange(VgIndex first, uint32_t count) {
  VgRange range;
  range.first = first;
  range.count = count;
  return range;
}

}  // namespace

PlacementAllocator::PlacementAllocator(Backing* backing,
                                       std::unique_ptr<Placement> structure)
    : backing_(backing),
      books_(&backing->books()),
      structure_(std::move(structure)),
      granule_bytes_(backing->address_space().granule_bytes()),
      base_bytes_(backing->address_space().base() % kMostAlignmentBytes) {
  backing_->set_on_leaving([this](VgIndex vg) { Close(vg); });
}

PlacementAllocator::~PlacementAllocator() = default;

// --- Addresses ---

BlockStart PlacementAllocator::StartOf(uint64_t quantum) const {
  BlockStart start;
  start.vg = VgIndex(quantum / books_->quanta_per_granule());
  start.offset_quanta =
      static_cast<uint32_t>(quantum % books_->quanta_per_granule());
  return start;
}

FreeRange PlacementAllocator::AddressesOf(uint64_t first_quantum,
                                          uint64_t quanta) const {
  FreeRange addresses;
  addresses.start = base_bytes_ + QuantaToBytes(first_quantum);
  addresses.bytes = QuantaToBytes(quanta);
  return addresses;
}

FreeRange PlacementAllocator::AddressesOf(VgRange vgs) const {
  return AddressesOf(FirstQuantum(vgs.first),
                     uint64_t{vgs.count} * books_->quanta_per_granule());
}

uint64_t PlacementAllocator::QuantumAt(uint64_t address) const {
  return (address - base_bytes_) / kQuantumBytes;
}

VgRange PlacementAllocator::VgsOf(uint64_t first_quantum,
                                  uint64_t quanta) const {
  const VgIndex first = StartOf(first_quantum).vg;
  const VgIndex last = StartOf(first_quantum + quanta - 1).vg;
  return MakeRange(first, last - first + 1);
}

template <typename Call>
void PlacementAllocator::ForEachPart(uint64_t first_quantum, uint64_t quanta,
                                     Call call) const {
  const uint64_t end = first_quantum + quanta;
  for (uint64_t at = first_quantum; at < end;) {
    const BlockStart start = StartOf(at);
    OffsetInterval part;
    part.lo = start.offset_quanta;
    part.hi = static_cast<uint32_t>(
        std::min<uint64_t>(books_->quanta_per_granule(), part.lo + (end - at)));
    call(start.vg, part);
    at += part.quanta();
  }
}

// --- Growth ---

std::optional<VgRange> PlacementAllocator::FindAddresses(
    uint32_t vgs, uint64_t alignment_bytes) const {
  const VgRangeSet& free = backing_->address_space().free();
  // Whether a range holds an aligned address depends on where it lies.
  for (std::optional<VgRange> range = free.BestFit(vgs); range.has_value();
       range = free.NextByLength(*range)) {
    const uint64_t start = AddressesOf(*range).start;
    const uint64_t skip_bytes =
        (alignment_bytes - start % alignment_bytes) % alignment_bytes;
    const uint64_t skip = skip_bytes / granule_bytes_;
    if (skip + vgs > range->count) continue;
    return MakeRange(range->first + static_cast<uint32_t>(skip), vgs);
  }
  return std::nullopt;
}

absl::Status PlacementAllocator::Grow(uint64_t bytes,
                                      uint64_t alignment_bytes) {
  const Placement::Growth growth =
      structure_->GrowthFor(bytes, alignment_bytes);
  const uint64_t wanted = growth.bytes / granule_bytes_;
  const uint32_t available = backing_->available_granules();
  if (wanted > available) {
    return absl::ResourceExhaustedError(
        absl::StrCat(wanted - available, " of ", wanted, " granules missing"));
  }
  const std::optional<VgRange> addresses =
      FindAddresses(static_cast<uint32_t>(wanted), growth.alignment_bytes);
  if (!addresses.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no ", wanted, " neighbouring granules of addresses are free"));
  }
  const absl::Status mapped = backing_->MapRun(*addresses);
  if (!mapped.ok()) return mapped;
  for (uint32_t i = 0; i < addresses->count; ++i) {
    vgs_[addresses->first + i].is_open = true;
  }
  structure_->Give(AddressesOf(*addresses), bytes);
  return absl::OkStatus();
}

void PlacementAllocator::Close(VgIndex vg) {
  const auto state = vgs_.find(vg);
  if (state == vgs_.end() || !state->second.is_open) return;
  structure_->Withdraw(AddressesOf(MakeRange(vg, 1)));
  state->second.is_open = false;
  if (state->second.live_quanta == 0) vgs_.erase(state);
}

void PlacementAllocator::CloseAllOn(GranuleId granule) {
  for (VgIndex at = books_->granule(granule).first; !at.is_none();
       at = books_->vg(at).next) {
    Close(at);
  }
}

// --- Blocks ---

absl::StatusOr<BlockStart> PlacementAllocator::Allocate(
    uint64_t quanta, uint64_t alignment_quanta, uint64_t requested_bytes) {
  const uint64_t bytes = QuantaToBytes(quanta);
  const uint64_t alignment_bytes = QuantaToBytes(alignment_quanta);
  std::optional<FreeRange> extent = structure_->Take(bytes, alignment_bytes);
  if (!extent.has_value()) {
    const absl::Status grown = Grow(bytes, alignment_bytes);
    if (!grown.ok()) return grown;
    extent = structure_->Take(bytes, alignment_bytes);
    if (!extent.has_value()) {
      return absl::InternalError(absl::StrCat(structure_->name(),
                                              ": no room for ", bytes,
                                              " bytes where it was made"));
    }
  }
  Block block;
  block.quanta = extent->bytes / kQuantumBytes;
  block.requested_bytes = requested_bytes;
  const uint64_t first_quantum = QuantumAt(extent->start);
  const absl::Status own =
      backing_->MakeOwn(VgsOf(first_quantum, block.quanta));
  if (!own.ok()) {
    structure_->Free(*extent);
    return own;
  }
  OffsetInterval whole;
  whole.hi = books_->quanta_per_granule();
  ForEachPart(first_quantum, block.quanta,
              [&](VgIndex vg, OffsetInterval part) {
                VgState& state = vgs_[vg];
                assert(state.is_open);
                if (state.live_quanta == 0) {
                  backing_->TakeEmptyRun(MakeRange(vg, 1));
                  books_->Activate(vg, VgRole::kPlaced, whole, /*owner=*/0);
                }
                state.live_quanta += part.quanta();
                books_->AddLive(books_->vg(vg).granule, part);
              });
  blocks_.emplace(first_quantum, block);
  return StartOf(first_quantum);
}

uint64_t PlacementAllocator::RequestedBytes(BlockStart start) const {
  const auto block = blocks_.find(QuantumOf(start));
  return block == blocks_.end() ? 0 : block->second.requested_bytes;
}

uint64_t PlacementAllocator::SetPending(BlockStart start) {
  return std::exchange(blocks_.find(QuantumOf(start))->second.requested_bytes,
                       0);
}

void PlacementAllocator::SetLive(BlockStart start, uint64_t requested_bytes) {
  blocks_.find(QuantumOf(start))->second.requested_bytes = requested_bytes;
}

void PlacementAllocator::Free(BlockStart start) {
  const auto found = blocks_.find(QuantumOf(start));
  const uint64_t first_quantum = found->first;
  const uint64_t quanta = found->second.quanta;
  blocks_.erase(found);
  structure_->Free(AddressesOf(first_quantum, quanta));
  ForEachPart(first_quantum, quanta, [&](VgIndex vg, OffsetInterval part) {
    books_->RemoveLive(books_->vg(vg).granule, part);
    const auto state = vgs_.find(vg);
    state->second.live_quanta -= part.quanta();
    if (state->second.live_quanta > 0) return;
    books_->Deactivate(vg);
    if (state->second.is_open) {
      backing_->AddEmptyRun(MakeRange(vg, 1));
    } else {
      vgs_.erase(state);
    }
  });
}

VgRange PlacementAllocator::RangeOf(BlockStart start) const {
  const auto block = blocks_.find(QuantumOf(start));
  return VgsOf(block->first, block->second.quanta);
}

uint32_t PlacementAllocator::GranulesFor(uint64_t quanta,
                                         uint64_t alignment_quanta) const {
  // More than there are addresses is too much, whatever it is.
  const uint64_t most_quanta =
      FirstQuantum(VgIndex(backing_->address_space().vg_count()));
  const Placement::Growth growth =
      structure_->GrowthFor(QuantaToBytes(std::min(quanta, most_quanta)),
                            QuantaToBytes(alignment_quanta));
  return static_cast<uint32_t>(growth.bytes / granule_bytes_);
}

// --- Visits ---

PlacementAllocator::PlacedBlock PlacementAllocator::PlacedAt(
    Blocks::const_iterator block) const {
  PlacedBlock placed;
  placed.start = StartOf(block->first);
  placed.quanta = block->second.quanta;
  placed.requested_bytes = block->second.requested_bytes;
  return placed;
}

PlacementAllocator::Blocks::const_iterator PlacementAllocator::FirstOn(
    VgIndex vg) const {
  const uint64_t first_quantum = FirstQuantum(vg);
  auto block = blocks_.upper_bound(first_quantum);
  if (block == blocks_.begin()) return block;
  const auto before = std::prev(block);
  return before->first + before->second.quanta > first_quantum ? before : block;
}

void PlacementAllocator::ForEachBlock(Visit visit) const {
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    visit(PlacedAt(block));
  }
}

void PlacementAllocator::ForEachBlockOn(VgIndex vg, Visit visit) const {
  const uint64_t end = FirstQuantum(vg + 1);
  for (auto block = FirstOn(vg); block != blocks_.end() && block->first < end;
       ++block) {
    visit(PlacedAt(block));
  }
}

void PlacementAllocator::AppendLiveExtents(
    VgIndex vg, std::vector<OffsetInterval>* extents) const {
  const uint64_t begin = FirstQuantum(vg);
  const size_t first = extents->size();
  ForEachBlockOn(vg, [&](const PlacedBlock& block) {
    const uint64_t from = QuantumOf(block.start);
    OffsetInterval part;
    part.lo = from > begin ? static_cast<uint32_t>(from - begin) : 0;
    part.hi = static_cast<uint32_t>(std::min<uint64_t>(
        books_->quanta_per_granule(), from + block.quanta - begin));
    if (extents->size() > first && extents->back().hi == part.lo) {
      extents->back().hi = part.hi;
    } else {
      extents->push_back(part);
    }
  });
}

uint32_t PlacementAllocator::LiveQuanta(VgIndex vg) const {
  const auto state = vgs_.find(vg);
  return state == vgs_.end() ? 0 : state->second.live_quanta;
}

absl::Status PlacementAllocator::CheckInvariants() const {
  absl::flat_hash_map<VgIndex, uint32_t> live;
  uint64_t end = 0;
  for (const auto& [first_quantum, block] : blocks_) {
    if (first_quantum < end) {
      return absl::InternalError(
          absl::StrCat("I2: blocks overlap at quantum ", first_quantum));
    }
    end = first_quantum + block.quanta;
    ForEachPart(first_quantum, block.quanta,
                [&live](VgIndex vg, OffsetInterval part) {
                  live[vg] += part.quanta();
                });
  }
  for (const auto& [vg, state] : vgs_) {
    const VgRecord& record = books_->vg(vg);
    const auto found = live.find(vg);
    const uint32_t quanta = found == live.end() ? 0 : found->second;
    const VgRole role = quanta > 0 ? VgRole::kPlaced : VgRole::kEmptyRun;
    if (state.live_quanta != quanta || record.role != role ||
        (quanta == 0 && !state.is_open)) {
      return absl::InternalError(absl::StrCat(
          "virtual granule ", vg.value(), " counts ", state.live_quanta,
          " live quanta, has ", quanta, ", or another role"));
    }
    if (state.is_open && books_->granule(record.granule).mappings > 1) {
      return absl::InternalError(absl::StrCat(
          "virtual granule ", vg.value(), " is open, and shares a granule"));
    }
    live.erase(vg);
  }
  if (!live.empty()) {
    return absl::InternalError(absl::StrCat("a block lies on virtual granule ",
                                            live.begin()->first.value(),
                                            ", which is not on record"));
  }
  return absl::OkStatus();
}

}  // namespace firn
