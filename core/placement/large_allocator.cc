// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/large_allocator.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// A remainder that would leave less than this part of its granule takes the
// whole of it: nothing worth having would fit beside it.
constexpr uint32_t kLeastSlackDivisor = 128;
// Runs looked at for one whose neighbour takes the remainder.
constexpr int kRunTries = 8;
// Runs looked at for one with an unmapped neighbour to be mapped to a host.
constexpr int kShareTries = 16;
// Remainders share granules once the whole granules left are less than so many
// times what lies free beside live memory.
constexpr uint64_t kFreeGranulesPerPieces = 3;

VgRange MakeRange(VgIndex first, uint32_t count) {
  VgRange range;
  range.first = first;
  range.count = count;
  return range;
}

MappingChange MakeChange(VgIndex vg, GranuleId to) {
  MappingChange change;
  change.vg = vg;
  change.to = to;
  return change;
}

}  // namespace

LargeAllocator::LargeAllocator(Backing* backing)
    : backing_(backing), books_(&backing->books()) {}

LargeAllocator::Shape LargeAllocator::ShapeOf(uint64_t quanta,
                                              uint64_t alignment_quanta) const {
  const uint32_t per_granule = books_->quanta_per_granule();
  Shape shape;
  // A power of two: a division would be a tenth of taking a parked block.
  shape.interiors =
      static_cast<uint32_t>(quanta >> absl::countr_zero(per_granule));
  shape.remainder_quanta = static_cast<uint32_t>(quanta & (per_granule - 1));
  if (shape.remainder_quanta > per_granule - per_granule / kLeastSlackDivisor) {
    ++shape.interiors;
    shape.remainder_quanta = 0;
  }
  shape.tail_only = alignment_quanta > 1;
  return shape;
}

uint32_t LargeAllocator::GranulesFor(uint64_t quanta) const {
  return ShapeOf(quanta, 1).vgs();
}

OffsetInterval LargeAllocator::RemainderInterval(uint32_t quanta,
                                                 bool first) const {
  OffsetInterval interval;
  interval.lo = first ? books_->quanta_per_granule() - quanta : 0;
  interval.hi = interval.lo + quanta;
  return interval;
}

VgIndex LargeAllocator::RemainderVg(const Block& block) const {
  if (block.remainder_quanta == 0) return VgIndex();
  return block.remainder_first ? block.range.first : block.range.end() - 1;
}

BlockStart LargeAllocator::StartOf(const Block& block) const {
  BlockStart start;
  start.vg = block.range.first;
  if (block.remainder_quanta > 0 && block.remainder_first) {
    start.offset_quanta = books_->quanta_per_granule() - block.remainder_quanta;
  }
  return start;
}

// --- Sites that are mapped already ---

bool LargeAllocator::IsFreeSpare(VgIndex vg, OffsetInterval interval) const {
  const VgRecord& record = books_->vg(vg);
  return record.role == VgRole::kSpare && record.of_large_run &&
         record.arena == books_->arena() &&
         !books_->granule(record.granule).is_closed() &&
         books_->IsUnreserved(record.granule, interval);
}

bool LargeAllocator::IsTimeToShare(const Shape& shape) const {
  if (shape.remainder_quanta == 0) return false;
  const uint64_t free_quanta =
      uint64_t{backing_->available_granules()} * books_->quanta_per_granule();
  return free_quanta <
             kFreeGranulesPerPieces * books_->free_quanta_beside_live() &&
         !books_->FindEdgeGap(shape.remainder_quanta, shape.tail_only)
              .granule.is_none();
}

std::optional<LargeAllocator::Site> LargeAllocator::FindMapped(
    const Shape& shape, bool share) {
  const VgRangeSet& runs = backing_->empty_runs();
  std::optional<VgRange> run = runs.BestFit(shape.interiors);
  if (!run.has_value()) return std::nullopt;
  Site site;
  if (shape.remainder_quanta == 0) {
    site.range = MakeRange(run->first, shape.interiors);
    return site;
  }
  const uint32_t quanta = shape.remainder_quanta;
  std::optional<VgRange> longer;
  for (int i = 0; i < kRunTries && run.has_value();
       ++i, run = runs.NextByLength(*run)) {
    if (IsFreeSpare(run->end(), RemainderInterval(quanta, false))) {
      site.range = MakeRange(run->end() - shape.interiors, shape.interiors + 1);
      site.host = books_->vg(run->end()).granule;
      return site;
    }
    if (!shape.tail_only && run->first.value() > 0 &&
        IsFreeSpare(run->first - 1, RemainderInterval(quanta, true))) {
      site.range = MakeRange(run->first - 1, shape.interiors + 1);
      site.remainder_first = true;
      site.host = books_->vg(run->first - 1).granule;
      return site;
    }
    if (!longer.has_value() && run->count > shape.interiors) longer = run;
  }
  if (share) return std::nullopt;
  if (!longer.has_value()) longer = runs.BestFit(shape.interiors + 1);
  if (!longer.has_value()) return std::nullopt;
  site.range = MakeRange(longer->first, shape.interiors + 1);
  // Heads and tails in turn, so that their granules can be shared.
  site.remainder_first = !shape.tail_only && sides_.Next(2) == 1;
  return site;
}

// --- Sites that have to be mapped ---

VgRange LargeAllocator::ExtendThroughFree(VgRange run, uint32_t wanted) const {
  const VgRangeSet& unmapped = backing_->address_space().free();
  const VgRangeSet& runs = backing_->empty_runs();
  const uint32_t limit = backing_->address_space().vg_count();
  // Upwards, then downwards, through ranges of either kind.
  while (run.count < wanted && run.end().value() < limit) {
    std::optional<VgRange> next = unmapped.Find(run.end());
    if (!next.has_value()) next = runs.Find(run.end());
    if (!next.has_value()) break;
    run.count += std::min(next->count, wanted - run.count);
  }
  while (run.count < wanted && run.first.value() > 0) {
    std::optional<VgRange> next = unmapped.Find(run.first - 1);
    if (!next.has_value()) next = runs.Find(run.first - 1);
    if (!next.has_value()) break;
    const uint32_t more = std::min(next->count, wanted - run.count);
    run = MakeRange(run.first - more, run.count + more);
  }
  return run;
}

std::optional<VgRange> LargeAllocator::FindAddresses(
    uint32_t vgs, uint64_t alignment_granules) const {
  const AddressSpace& space = backing_->address_space();
  if (alignment_granules > 1) {
    // Whether a range holds an aligned address depends on where it lies, so
    // all of them are looked at, shortest first.
    for (std::optional<VgRange> range = space.free().BestFit(vgs);
         range.has_value(); range = space.free().NextByLength(*range)) {
      const uint64_t base =
          space.AddressOf(range->first) / space.granule_bytes();
      const uint64_t skip =
          (alignment_granules - base % alignment_granules) % alignment_granules;
      if (skip + vgs > range->count) continue;
      return MakeRange(range->first + static_cast<uint32_t>(skip), vgs);
    }
    return std::nullopt;
  }
  // Around the longest runs, as the mappings there need not be made again.
  std::optional<VgRange> run = backing_->empty_runs().Longest();
  for (int i = 0; i < kRunTries && run.has_value(); ++i) {
    if (run->count >= vgs) return MakeRange(run->first, vgs);
    const VgRange extended = ExtendThroughFree(*run, vgs);
    if (extended.count == vgs) return extended;
    run = backing_->empty_runs().PreviousByLength(*run);
  }
  const std::optional<VgRange> fresh = space.free().BestFit(vgs);
  if (!fresh.has_value()) return std::nullopt;
  return MakeRange(fresh->first, vgs);
}

std::optional<VgRange> LargeAllocator::FindAddressesToShare(
    const Shape& shape, bool remainder_first) const {
  const VgRangeSet& unmapped = backing_->address_space().free();
  const VgRangeSet& runs = backing_->empty_runs();
  std::optional<VgRange> run = runs.BestFit(shape.interiors);
  std::optional<VgRange> longer;
  for (int i = 0; i < kShareTries && run.has_value();
       ++i, run = runs.NextByLength(*run)) {
    if (remainder_first) {
      if (run->first.value() > 0 && unmapped.Find(run->first - 1).has_value()) {
        return MakeRange(run->first - 1, shape.vgs());
      }
    } else if (unmapped.Find(run->end()).has_value()) {
      return MakeRange(run->end() - shape.interiors, shape.vgs());
    }
    if (!longer.has_value() && run->count >= shape.vgs()) longer = run;
  }
  if (!longer.has_value()) return std::nullopt;
  return MakeRange(longer->first, shape.vgs());
}

void LargeAllocator::ChooseHost(const Shape& shape, Effort effort, Site* site) {
  Gap gap = books_->FindEdgeGap(shape.remainder_quanta, shape.tail_only);
  if (gap.granule.is_none() && effort == Effort::kScattered) {
    gap = books_->FindEdgeHole(shape.remainder_quanta, shape.tail_only);
  }
  site->host = gap.granule;
  // On a granule of its own: heads and tails in turn, so that two remainders
  // can share one later.
  site->remainder_first = gap.granule.is_none()
                              ? !shape.tail_only && sides_.Next(2) == 1
                              : gap.interval.lo > 0;
}

absl::Status LargeAllocator::FillSite(const Site& site, const Shape& shape) {
  std::vector<MappingChange> changes;
  std::vector<VgIndex> unmapped;  // to be mapped to granules of their own
  std::vector<GranuleId> displaced;
  VgIndex hosted;  // the remainder, if it goes to a host
  if (!site.host.is_none()) {
    hosted = site.remainder_first ? site.range.first : site.range.end() - 1;
  }
  for (uint32_t i = 0; i < site.range.count; ++i) {
    const VgIndex vg = site.range.first + i;
    const bool in_run = books_->vg(vg).role == VgRole::kEmptyRun;
    if (vg == hosted) {
      changes.push_back(MakeChange(vg, site.host));
      if (in_run) displaced.push_back(books_->vg(vg).granule);
    } else if (!in_run) {
      unmapped.push_back(vg);
    }
  }
  Acquisition acquisition;
  Harvest harvest;
  const auto missing = [&] {
    const size_t have = displaced.size() + acquisition.granules.size() +
                        harvest.granules.size();
    return unmapped.size() > have
               ? static_cast<uint32_t>(unmapped.size() - have)
               : 0u;
  };
  GranuleStore& store = backing_->store();
  absl::Status status = backing_->AcquireAtMost(missing(), &acquisition);
  if (status.ok() && missing() > 0) {
    harvest = backing_->ChooseHarvest(missing(), site.range);
    if (missing() > 0) {
      status = absl::ResourceExhaustedError(
          absl::StrCat(missing(), " of ", shape.vgs(), " granules missing"));
    }
  }
  if (!status.ok()) {
    store.GiveBack(acquisition);
    return status;
  }
  std::vector<GranuleId> granules = acquisition.granules;
  granules.insert(granules.end(), displaced.begin(), displaced.end());
  granules.insert(granules.end(), harvest.granules.begin(),
                  harvest.granules.end());
  for (size_t i = 0; i < unmapped.size(); ++i) {
    changes.push_back(MakeChange(unmapped[i], granules[i]));
  }
  Backing::AddUnmaps(harvest, &changes);
  status = backing_->Apply(changes);
  if (!status.ok()) {
    store.GiveBack(acquisition);
    return status;
  }

  backing_->CommitHarvest(harvest);
  for (uint32_t i = 0; i < site.range.count; ++i) {
    const VgIndex vg = site.range.first + i;
    if (books_->vg(vg).role == VgRole::kEmptyRun) {
      backing_->TakeEmptyRun(MakeRange(vg, 1));
      if (vg != hosted) continue;
      books_->Detach(vg);
      books_->Attach(vg, site.host, /*of_large_run=*/true);
    } else {
      backing_->address_space().Take(MakeRange(vg, 1));
      books_->Attach(vg, backing_->mappings().granule(vg),
                     /*of_large_run=*/true);
    }
  }
  // A displaced granule that no interior needed.
  for (size_t i = unmapped.size(); i < granules.size(); ++i) {
    store.Put(granules[i]);
  }
  return absl::OkStatus();
}

void LargeAllocator::LeaveEmpty(VgRange range) {
  for (uint32_t i = 0; i < range.count; ++i) {
    const VgIndex vg = range.first + i;
    const GranuleRecord& record = books_->granule(books_->vg(vg).granule);
    if (record.live_quanta == 0 && record.mappings == 1 &&
        !record.is_closed()) {
      backing_->AddEmptyRun(MakeRange(vg, 1));
    }
  }
}

// --- Blocks ---

absl::StatusOr<BlockStart> LargeAllocator::Allocate(uint64_t quanta,
                                                    uint64_t alignment_quanta,
                                                    uint64_t requested_bytes,
                                                    Effort effort) {
  const Shape shape = ShapeOf(quanta, alignment_quanta);
  const uint64_t alignment_granules =
      std::max<uint64_t>(1, alignment_quanta / books_->quanta_per_granule());
  const bool share = alignment_granules == 1 && IsTimeToShare(shape);
  if (alignment_granules == 1) {
    const std::optional<Site> site = FindMapped(shape, share);
    if (site.has_value()) {
      const absl::Status own = backing_->MakeOwn(site->range);
      if (!own.ok()) return own;
      for (uint32_t i = 0; i < site->range.count; ++i) {
        const VgIndex vg = site->range.first + i;
        if (books_->vg(vg).role == VgRole::kEmptyRun) {
          backing_->TakeEmptyRun(MakeRange(vg, 1));
        }
      }
      return Commit(*site, shape, requested_bytes);
    }
  }
  Site site;
  std::optional<VgRange> addresses;
  if (share) {
    ChooseHost(shape, effort, &site);
    addresses = FindAddressesToShare(shape, site.remainder_first);
  }
  if (!addresses.has_value()) {
    addresses = FindAddresses(shape.vgs(), alignment_granules);
  }
  if (!addresses.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no ", shape.vgs(), " neighbouring granules of addresses are free"));
  }
  site.range = *addresses;
  if (shape.remainder_quanta > 0 && !share) ChooseHost(shape, effort, &site);
  const absl::Status filled = FillSite(site, shape);
  if (!filled.ok()) return filled;
  const absl::Status own = backing_->MakeOwn(site.range);
  if (!own.ok()) {
    LeaveEmpty(site.range);
    return own;
  }
  return Commit(site, shape, requested_bytes);
}

BlockStart LargeAllocator::Commit(const Site& site, const Shape& shape,
                                  uint64_t requested_bytes) {
  Block block;
  block.range = site.range;
  block.remainder_quanta = shape.remainder_quanta;
  block.remainder_first = site.remainder_first;
  block.is_used = true;
  block.requested_bytes = requested_bytes;
  const uint32_t index = AddBlock(block);
  const VgIndex remainder = RemainderVg(block);
  for (uint32_t i = 0; i < block.range.count; ++i) {
    const VgIndex vg = block.range.first + i;
    if (vg == remainder) {
      const OffsetInterval interval =
          RemainderInterval(block.remainder_quanta, block.remainder_first);
      books_->Activate(vg, VgRole::kRemainder, interval, index);
      books_->AddLive(books_->vg(vg).granule, interval);
    } else {
      OffsetInterval whole;
      whole.hi = books_->quanta_per_granule();
      books_->Activate(vg, VgRole::kInterior, whole, index);
      books_->FillInterior(vg);
    }
  }
  return StartOf(block);
}

uint32_t LargeAllocator::AddBlock(const Block& block) {
  if (unused_blocks_.empty()) {
    blocks_.push_back(block);
    return static_cast<uint32_t>(blocks_.size() - 1);
  }
  const uint32_t index = unused_blocks_.back();
  unused_blocks_.pop_back();
  blocks_[index] = block;
  return index;
}

uint64_t LargeAllocator::RequestedBytes(BlockStart start) const {
  const Block& block = blocks_[books_->vg(start.vg).owner];
  const BlockStart expected = StartOf(block);
  return expected.vg == start.vg &&
                 expected.offset_quanta == start.offset_quanta
             ? block.requested_bytes
             : 0;
}

void LargeAllocator::ForEachBlock(
    absl::FunctionRef<void(uint64_t requested_bytes, uint64_t quanta)> visit)
    const {
  for (const Block& block : blocks_) {
    if (!block.is_used) continue;
    visit(block.requested_bytes,
          uint64_t{block.interiors()} * books_->quanta_per_granule() +
              block.remainder_quanta);
  }
}

LargeAllocator::Placed LargeAllocator::PlacedAt(VgIndex vg) const {
  const uint32_t index = books_->vg(vg).owner;
  const Block& block = blocks_[index];
  Placed placed;
  placed.range = block.range;
  placed.start = StartOf(block);
  placed.quanta = uint64_t{block.interiors()} * books_->quanta_per_granule() +
                  block.remainder_quanta;
  placed.requested_bytes = block.requested_bytes;
  const auto parked_end = parked_.begin() + parked_count_;
  placed.is_parked =
      std::find(parked_.begin(), parked_end, index) != parked_end;
  return placed;
}

VgRange LargeAllocator::RangeOf(VgIndex vg) const {
  return blocks_[books_->vg(vg).owner].range;
}

uint64_t LargeAllocator::SetPending(BlockStart start) {
  return std::exchange(blocks_[books_->vg(start.vg).owner].requested_bytes, 0);
}

void LargeAllocator::SetLive(BlockStart start, uint64_t requested_bytes) {
  blocks_[books_->vg(start.vg).owner].requested_bytes = requested_bytes;
}

GranuleId LargeAllocator::Park(BlockStart start) {
  GranuleId shared;
  if (parked_count_ == kMostParked) {
    shared = Dissolve(parked_[0]);
    RemoveParked(0);
  }
  const uint32_t index = books_->vg(start.vg).owner;
  Block& block = blocks_[index];
  block.requested_bytes = 0;
  books_->ParkInteriors(block.interiors(), block.range.count);
  const VgIndex remainder = RemainderVg(block);
  if (!remainder.is_none()) {
    books_->RemoveLive(books_->vg(remainder).granule,
                       books_->vg(remainder).window);
  }
  parked_[parked_count_++] = index;
  return shared;
}

absl::Status LargeAllocator::Unmap(BlockStart start) {
  const uint32_t index = books_->vg(start.vg).owner;
  const VgRange range = blocks_[index].range;
  std::vector<MappingChange> changes;
  for (uint32_t i = 0; i < range.count; ++i) {
    changes.push_back(MakeChange(range.first + i, GranuleId()));
  }
  // Not by way of the backing, which would wait for what else was freed.
  const absl::Status status = backing_->mappings().Apply(changes);
  if (!status.ok()) return status;
  blocks_[index] = Block();
  unused_blocks_.push_back(index);
  for (uint32_t i = 0; i < range.count; ++i) {
    const VgIndex vg = range.first + i;
    const GranuleId granule = books_->vg(vg).granule;
    books_->EmptyInterior(vg);
    books_->Deactivate(vg);
    books_->Detach(vg);
    backing_->CacheIfUnmapped(granule);
  }
  backing_->address_space().Give(range);
  return absl::OkStatus();
}

void LargeAllocator::RemoveParked(uint32_t position) {
  std::copy(parked_.begin() + position + 1, parked_.begin() + parked_count_,
            parked_.begin() + position);
  --parked_count_;
}

std::optional<BlockStart> LargeAllocator::TakeParked(uint64_t quanta,
                                                     uint64_t alignment_quanta,
                                                     uint64_t requested_bytes) {
  if (alignment_quanta > 1) return std::nullopt;
  const Shape shape = ShapeOf(quanta, alignment_quanta);
  // The youngest first.
  for (uint32_t i = parked_count_; i-- > 0;) {
    Block& block = blocks_[parked_[i]];
    if (block.remainder_quanta != shape.remainder_quanta ||
        block.interiors() != shape.interiors) {
      continue;
    }
    const VgIndex remainder = RemainderVg(block);
    if (!remainder.is_none()) {
      const VgRecord& vg = books_->vg(remainder);
      const GranuleRecord& host = books_->granule(vg.granule);
      // A window with slots beneath the remainder may have filled them.
      if (host.is_closed() || host.occupancy.AnyIn(vg.window)) continue;
      books_->AddLive(vg.granule, vg.window);
    }
    books_->UnparkInteriors(block.interiors(), block.range.count);
    block.requested_bytes = requested_bytes;
    RemoveParked(i);
    return StartOf(block);
  }
  return std::nullopt;
}

void LargeAllocator::DissolveParked(std::vector<GranuleId>* shared) {
  for (uint32_t i = 0; i < parked_count_; ++i) {
    const GranuleId granule = Dissolve(parked_[i]);
    if (!granule.is_none()) shared->push_back(granule);
  }
  parked_count_ = 0;
}

GranuleId LargeAllocator::Dissolve(uint32_t index) {
  const Block block = blocks_[index];
  blocks_[index] = Block();
  unused_blocks_.push_back(index);
  books_->UnparkInteriors(block.interiors(), block.range.count);
  const VgIndex remainder = RemainderVg(block);
  VgRange interiors = block.range;
  GranuleId shared;
  if (!remainder.is_none()) {
    --interiors.count;
    if (block.remainder_first) interiors.first = interiors.first + 1;
    const GranuleId granule = books_->vg(remainder).granule;
    shared = granule;
    books_->Deactivate(remainder);
    const GranuleRecord& record = books_->granule(granule);
    if (record.live_quanta == 0 && record.mappings == 1 &&
        !record.is_closed()) {
      backing_->AddEmptyRun(MakeRange(remainder, 1));
    }
  }
  VgRange run = MakeRange(interiors.first, 0);
  for (uint32_t i = 0; i < interiors.count; ++i) {
    const VgIndex vg = interiors.first + i;
    books_->EmptyInterior(vg);
    books_->Deactivate(vg);
    ++run.count;
    // What was spilled or lost is nobody's to use again.
    if (!books_->granule(books_->vg(vg).granule).is_closed()) continue;
    if (--run.count > 0) backing_->AddEmptyRun(run);
    run = MakeRange(vg + 1, 0);
  }
  if (run.count > 0) backing_->AddEmptyRun(run);
  return shared;
}

absl::Status LargeAllocator::CheckInvariants() const {
  if (!backing_->empty_runs().CheckInvariants()) {
    return absl::InternalError("the set of empty runs is inconsistent");
  }
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    if (!block.is_used) continue;
    const VgIndex remainder = RemainderVg(block);
    for (uint32_t n = 0; n < block.range.count; ++n) {
      const VgIndex vg = block.range.first + n;
      const VgRecord& record = books_->vg(vg);
      const VgRole role =
          vg == remainder ? VgRole::kRemainder : VgRole::kInterior;
      if (record.role != role || record.owner != i) {
        return absl::InternalError(absl::StrCat(
            "large block ", i, " does not own virtual granule ", vg.value()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace firn
