// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One block of a pool: allocated and freed in the calling thread's cache where
// that will do, else behind the pool's lock.

#include <algorithm>
#include <optional>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "firn/core/pool_impl.h"
#include "firn/core/pool_spiller.h"

namespace firn {

// --- Without the lock ---

uint64_t Pool::Impl::ReadyStreamId(StreamHandle stream) const {
  // The first scope makes streams many.
  if (gate_.was_used() && !streams_.are_many()) return 0;
  return streams_.ReadyId(stream);
}

CacheKey Pool::Impl::KeyOf(uint64_t bytes,
                           const AllocateOptions& options) const {
  CacheKey key;
  key.size_class = size_classes_.count();
  const uint64_t quanta = BytesToQuanta(bytes);
  if (quanta >= cached_limit_quanta_ || !options.is_ordinary() ||
      options.alignment_bytes > kQuantumBytes ||
      !absl::has_single_bit(options.alignment_bytes) ||
      has_open_graph_pool_.load(std::memory_order_relaxed)) {
    return key;
  }
  key.size_class = size_classes_.ClassOf(static_cast<uint32_t>(quanta));
  if (key.size_class < size_classes_.count()) {
    key.stream_id = ReadyStreamId(options.stream);
  }
  return key;
}

BlockStart Pool::Impl::StartOf(DevicePtr address) const {
  const uint64_t offset_bytes = address - base_address_;
  BlockStart start;
  start.vg = VgIndex(offset_bytes >> granule_shift_);
  start.offset_quanta = static_cast<uint32_t>(
      (offset_bytes & (granule_bytes_ - 1)) / kQuantumBytes);
  return start;
}

bool Pool::Impl::MayBeBlock(DevicePtr address) const {
  return address >= base_address_ && address - base_address_ < address_bytes_ &&
         address % kQuantumBytes == 0;
}

absl::StatusOr<void*> Pool::Impl::Allocate(uint64_t bytes,
                                           const AllocateOptions& options) {
  SettleRecords();
  const CacheKey key = KeyOf(bytes, options);
  if (key.stream_id != 0) {
    const DevicePtr address =
        caches_.Take(key.stream_id, key.size_class, bytes);
    if (address != 0) {
      RecordAllocation(address, bytes, options.stream, Tag::kUntagged);
      return ToPointer(address);
    }
  }
  return AllocateSlowly(bytes, options);
}

absl::Status Pool::Impl::Free(void* ptr, StreamHandle stream) {
  SettleRecords();
  if (ptr == nullptr || FreeToCache(ToAddress(ptr), stream)) {
    return absl::OkStatus();
  }
  return FreeSlowly(ptr, stream);
}

bool Pool::Impl::FreeToCache(DevicePtr address, StreamHandle stream) {
  // Looked up first: the cell arrives while the rest is done.
  if (!MayBeBlock(address)) return false;
  const BlockStart start = StartOf(address);
  const SlotDirectory::Slot slot = slots_.Find(start.vg, start.offset_quanta);
  if (slot.cell == nullptr || slot.size_class == size_classes_.count()) {
    return false;
  }
  const uint64_t stream_id = ReadyStreamId(stream);
  if (stream_id == 0) return false;
  // The default stream captures nothing.
  if (stream != nullptr && !streams_.RefuseCapturing(stream).ok()) return false;
  CachedBlock block;
  block.address = address;
  block.cell = slot.cell;
  return caches_.Park(stream_id, slot.size_class, block, slot.epoch, stream);
}

// --- Behind the lock ---

absl::StatusOr<void*> Pool::Impl::AllocateSlowly(
    uint64_t bytes, const AllocateOptions& options) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("bytes: 0; ask for at least 1");
  }
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  Request request;
  request.bytes = bytes;
  request.quanta = BytesToQuanta(bytes);
  request.alignment_quanta =
      std::max<uint64_t>(1, options.alignment_bytes / kQuantumBytes);
  request.stream = options.stream;
  request.tag = options.tag;
  request.kind = ArenaKeyOf(options);

  const bool is_inside = gate_.ThisThreadIsInside();
  const bool is_exportable = options.memory_class == MemoryClass::kExportable;
  const absl::Status available = CheckMemoryClass(options, is_inside);
  if (!available.ok()) return available;
  // An importer sees all of a granule.
  if (is_exportable) {
    request.quanta = (request.quanta + quanta_per_granule_ - 1) /
                     quanta_per_granule_ * quanta_per_granule_;
  }
  absl::Status failure;
  {
    MutexLock lock(&mutex_);
    absl::Status known = tags_.Check(options.tag);
    if (known.ok() && !(request.kind == ArenaKey())) {
      known = ChooseArena(&request);
    }
    zeroing_failed_ = false;
    if (!known.ok()) return known;
    std::optional<ScopedRelaxedCapture> relaxed;  // in a capture
    failure = EnterCall(options.stream, is_inside, &relaxed);
    if (failure.ok()) {
      failure = streams_.Note(options.stream, gate_.was_used());
    }
    if (failure.ok()) failure = SetGraphOwner(options.stream, &request);
    if (failure.ok() && (!free_queue_.empty() || !retiring_blocks_.empty())) {
      failure = ReleasePending(false);
    }
    // Exportable memory is never used again as it is.
    if (streams_.are_many() && !is_exportable) {
      request.stream_id = ReadyStreamId(options.stream);
    }
    Reach reach = may_wait_ ? Reach::kFreeMemory : Reach::kNoWaiting;
    if (may_wait_ && options_.move_on_failure && MayMovingHelp(request) &&
        !hooks_->ThisThreadIsInside()) {
      reach = Reach::kUntilMoving;
    }
    if (failure.ok()) {
      if (const absl::Status* same = SameFailure(request, reach)) {
        CountFailure(request);
        return *same;
      }
      const absl::StatusOr<BlockStart> start = AllocateLocked(request, reach);
      if (start.ok()) {
        RefillCache(KeyOf(bytes, options));
        return ToPointer(AddressOf(*start));
      }
      failure = start.status();
    }
    if (reach != Reach::kUntilMoving || !absl::IsResourceExhausted(failure)) {
      CountFailure(request);
      RememberFailure(request, reach, failure);
      return relaxed.has_value() ? ExplainCapture(failure) : failure;
    }
  }
  const absl::StatusOr<BlockStart> start = AllocateGated(request, failure);
  if (start.ok()) return ToPointer(AddressOf(*start));
  MutexLock lock(&mutex_);
  CountFailure(request);
  return start.status();
}

CachedBlock Pool::Impl::CachedBlockAt(BlockStart start) const {
  CachedBlock block;
  block.address = AddressOf(start);
  block.cell = slots_.Find(start.vg, start.offset_quanta).cell;
  return block;
}

void Pool::Impl::RefillCache(const CacheKey& key) {
  if (key.stream_id == 0) return;
  const uint32_t count = caches_.NoteMiss(key.stream_id, key.size_class);
  if (count == 0) return;
  done_.clear();
  WindowAllocator& windows = main_arena().windows;
  windows.TakeParked(key.size_class, count, caches_.MyRank(), &done_);
  parked_.clear();
  for (const BlockStart slot : done_) parked_.push_back(CachedBlockAt(slot));
  caches_.Fill(key.stream_id, key.size_class, &parked_);
  for (const CachedBlock& block : parked_) {
    windows.Free(StartOf(block.address));
  }
}

uint64_t Pool::Impl::RequestedBytes(BlockStart start) const {
  const VgRecord& record = VgAt(start.vg);
  const Arena& arena = *arenas_[record.arena];
  switch (record.role) {
    case VgRole::kWindow:
      return arena.windows.RequestedBytes(start);
    case VgRole::kRemainder:
    case VgRole::kInterior:
      return arena.large.RequestedBytes(start);
    case VgRole::kPlaced:
      return arena.placed->RequestedBytes(start);
    default:
      return 0;
  }
}

absl::StatusOr<BlockStart> Pool::Impl::FindBlock(const void* ptr) const {
  const DevicePtr address = ToAddress(ptr);
  if (address < base_address_ || address - base_address_ >= address_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ptr: 0x", absl::Hex(address), " is not an address of this pool"));
  }
  const BlockStart start = StartOf(address);
  if (!MayBeBlock(address) || RequestedBytes(start) == 0) {
    return NoBlockAt(address);
  }
  return start;
}

absl::Status Pool::Impl::NoBlockAt(DevicePtr address) {
  return absl::InvalidArgumentError(
      absl::StrCat("ptr: no live block starts at 0x", absl::Hex(address),
                   ": freed before, or an address inside a block"));
}

absl::Status Pool::Impl::FreeSlowly(const void* ptr, StreamHandle stream) {
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside && MayNoteWait(stream);
  const absl::Status status = FreeLocked(ptr, stream);
  if (!status.ok()) ++stats_.refused_frees;
  return status;
}

absl::Status Pool::Impl::FreeLocked(const void* ptr, StreamHandle stream) {
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) return start.status();
  if (!pins_->empty()) {
    const std::string pinned_by = pins_->ReasonsOf(UseKey(*start));
    if (!pinned_by.empty()) return PinnedError(ptr, pinned_by);
  }
  if (graph_pools_.Owns(UseKey(*start))) return FreeInGraphPool(*start, stream);
  absl::Status status = streams_.Note(stream, gate_.was_used());
  // Its memory is unmapped or zeroed when the token says that nothing uses it.
  const bool is_exportable = ArenaOf(start->vg).is_exportable();
  // Earlier frees would have to be waited for, and may not: this one at least
  // gets a token.
  const bool is_spilled = Spiller(this).IsSpilled(*start);
  const bool must_wait = !status.ok() && absl::IsResourceExhausted(status);
  if (must_wait) status = absl::OkStatus();
  const bool with_token =
      must_wait || streams_.are_many() || is_exportable || is_spilled;
  // The default stream captures nothing.
  if (status.ok() && stream != nullptr) {
    status = streams_.RefuseCapturing(stream);
  }
  if (!status.ok()) return status;
  FreedBlock block;
  block.start = *start;
  block.bytes = SetPending(*start);
  // Another thread was faster.
  if (block.bytes == 0) return NoBlockAt(ToAddress(ptr));
  // Nobody is given host memory.
  block.quanta = is_spilled ? 0 : ExtentQuanta(*start, block.bytes);
  block.arena = VgAt(start->vg).arena;
  block.address = ToAddress(ptr);
  block.stream = stream;
  HistoryKind kind = HistoryKind::kFree;
  if (declared_.IsIdle(UseKey(*start)) && !is_exportable) {
    // Nothing has used it since what did was done.
    uses_.erase(UseKey(*start));
    Release(*start);
  } else {
    if (with_token || (!uses_.empty() && uses_.contains(UseKey(*start)))) {
      kind = HistoryKind::kFreeRequested;
    }
    status = ReleaseWithOlder(block, with_token, stream);
  }
  if (!status.ok()) {
    SetLive(block);
    return status;
  }
  Record(kind, block.address, block.bytes, stream);
  NoteFreed(block);
  // The block is freed, whatever comes of this.
  if (is_exportable) ReleasePending(false).IgnoreError();
  if (is_spilled) Spiller(this).ReleaseLeft();
  return absl::OkStatus();
}

void Pool::Impl::NoteFreed(const FreedBlock& block) {
  const uint64_t key = UseKey(block.start);
  tags_.Remove(key, block.bytes);
  if (!announced_.empty()) announced_.erase(key);
  declared_.Remove(key);
  if (block.arena != 0) {
    UncountDomainBlock(*arenas_[block.arena], block.bytes);
  }
  ++stats_.frees;
  --stats_.live_allocations;
  stats_.live_bytes -= block.bytes;
  if (store_.held_granules() > limit_.soft) ShrinkToSoftLimit();
}

absl::Status Pool::Impl::ReleaseWithOlder(const FreedBlock& block,
                                          bool with_token,
                                          StreamHandle stream) {
  // What the cache gives up was freed on this stream before this block, so that
  // it is done when this one is.
  CacheKey key;
  key.stream_id = ReadyStreamId(stream);
  key.size_class =
      slots_.Find(block.start.vg, block.start.offset_quanta).size_class;
  const bool is_cached = key.stream_id != 0 && block.arena == 0 &&
                         VgAt(block.start.vg).role == VgRole::kWindow &&
                         key.size_class < size_classes_.count();
  parked_.clear();
  if (is_cached) {
    caches_.TakeSurplus(key.stream_id, key.size_class, &parked_);
  }
  freed_.clear();
  for (const CachedBlock& parked : parked_) {
    FreedBlock older;
    older.start = StartOf(parked.address);
    older.bytes = UnpackSlot(parked.cell->load(std::memory_order_relaxed))
                      .requested_bytes;
    older.quanta = ExtentQuanta(older.start, older.bytes);
    freed_.push_back(older);
  }
  const auto uses =
      uses_.empty() ? uses_.end() : uses_.find(UseKey(block.start));
  if (uses == uses_.end()) freed_.push_back(block);
  if (with_token && !freed_.empty()) {
    const absl::Status pushed = free_queue_.Push(freed_, stream);
    if (!pushed.ok()) {
      // They need no place in the cache to be found again.
      unreleased_.insert(unreleased_.end(), parked_.begin(), parked_.end());
      return pushed;
    }
  }
  if (uses != uses_.end()) {
    const absl::Status pushed =
        free_queue_.PushUsed(block, stream, uses->second);
    if (!pushed.ok()) return pushed;
    uses_.erase(uses);
  }
  if (!with_token) {
    for (const FreedBlock& freed : freed_) Release(freed.start);
    has_unconfirmed_frees_ = true;
  }
  return absl::OkStatus();
}

uint64_t Pool::Impl::SetPending(BlockStart start) {
  Arena& arena = ArenaOf(start.vg);
  switch (VgAt(start.vg).role) {
    case VgRole::kWindow:
      return arena.windows.SetPending(start);
    case VgRole::kPlaced:
      return arena.placed->SetPending(start);
    default:
      return arena.large.SetPending(start);
  }
}

void Pool::Impl::SetLive(const FreedBlock& block) {
  const VgRecord& record = VgAt(block.start.vg);
  Arena& arena = *arenas_[record.arena];
  if (record.role == VgRole::kPlaced) {
    arena.placed->SetLive(block.start, block.bytes);
    return;
  }
  if (record.role != VgRole::kWindow) {
    arena.large.SetLive(block.start, block.bytes);
    return;
  }
  arena.windows.SetLive(block.start, block.bytes);
  const uint64_t key = UseKey(block.start);
  if (record.arena != 0 || uses_.contains(key) || tags_.Has(key) ||
      announced_.contains(key) || declared_.Contains(key)) {
    arena.windows.Mark(block.start);
  }
}

void Pool::Impl::Release(BlockStart start) {
  const VgRecord& record = VgAt(start.vg);
  Arena& arena = *arenas_[record.arena];
  Spiller(this).NoteReleased(start);
  if (record.role == VgRole::kWindow) {
    arena.windows.Free(start);
    return;
  }
  if (record.role == VgRole::kPlaced) return arena.placed->Free(start);
  if (arena.is_exportable()) return ReleaseExportable(&arena, start);
  // Nobody takes it as it is.
  const bool is_unfit =
      !mappings_.lost_vgs().empty() || Spiller(this).IsSpilled(start);
  const GranuleId shared = arena.large.Park(start);
  if (!shared.is_none()) arena.windows.UnblockAll(shared);
  if (is_unfit) DissolveParked(&arena);
}

// --- Streams ---

uint64_t Pool::Impl::ExtentQuanta(BlockStart start, uint64_t bytes) const {
  const SlotDirectory::Slot slot = slots_.Find(start.vg, start.offset_quanta);
  return slot.cell != nullptr && slot.size_class < size_classes_.count()
             ? size_classes_.slot_quanta(slot.size_class)
             : BytesToQuanta(bytes);
}

std::optional<BlockStart> Pool::Impl::TakeAgain(const Request& request) {
  if (request.graph_owner.has_value()) return TakeKept(request);
  if (request.stream_id == 0 || free_queue_.empty() ||
      request.alignment_quanta > quanta_per_granule_) {
    return std::nullopt;
  }
  const uint64_t quanta =
      IsSmall(request) ? ShapeOf(request).quanta : request.quanta;
  const std::optional<BlockStart> start = free_queue_.TakeAgain(
      request.stream_id, request.arena, quanta, request.alignment_quanta);
  if (start.has_value()) {
    FreedBlock block;
    block.start = *start;
    block.bytes = request.bytes;
    SetLive(block);
  }
  return start;
}

absl::Status Pool::Impl::RecordUse(const void* ptr, StreamHandle stream) {
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside && MayNoteWait(stream);
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) return start.status();
  if (graph_pools_.Owns(UseKey(*start))) return RecordGraphUse(*start, stream);
  const absl::Status noted = streams_.Note(stream, gate_.was_used());
  const absl::StatusOr<StreamToken> token =
      noted.ok() || absl::IsResourceExhausted(noted)
          ? tracker_->Mark(stream)
          : absl::StatusOr<StreamToken>(noted);
  if (!token.ok()) {
    // That work is under way all the same, unless it never was.
    const bool was_refused = absl::IsInvalidArgument(token.status()) ||
                             absl::IsFailedPrecondition(token.status());
    if (!was_refused) declared_.NoteUse(UseKey(*start));
    return token.status();
  }
  if (!MarkBlock(*start)) return NoBlockAt(ToAddress(ptr));
  AddUse(*token, &uses_[UseKey(*start)]);
  declared_.NoteUse(UseKey(*start));
  return absl::OkStatus();
}

absl::Status Pool::Impl::ReleaseStream(StreamHandle stream) {
  MutexLock lock(&mutex_);
  // The only stream ever: the next one waits for it.
  if (!streams_.are_many()) return absl::OkStatus();
  parked_.clear();
  caches_.TakeStream(streams_.ReadyId(stream), &parked_);
  freed_.clear();
  for (const CachedBlock& parked : parked_) {
    FreedBlock freed;
    freed.start = StartOf(parked.address);
    freed_.push_back(freed);
  }
  if (freed_.empty()) return absl::OkStatus();
  const absl::Status pushed = free_queue_.Push(freed_, stream);
  if (!pushed.ok()) {
    unreleased_.insert(unreleased_.end(), parked_.begin(), parked_.end());
  }
  return pushed;
}

// --- Parked blocks ---

bool Pool::Impl::ReleaseParked(bool is_idle) {
  bool has_parked = false;
  for (const auto& arena : arenas_) has_parked |= arena->large.has_parked();
  DissolveParked();
  if (streams_.are_many() && !is_idle) return has_parked;
  CollectParked();
  return ReleaseCollected(is_idle) || has_parked;
}

void Pool::Impl::CollectParked() { caches_.TakeAll(&unreleased_); }

bool Pool::Impl::ReleaseCollected(bool is_idle) {
  const bool had_retired = is_idle && ReleaseRetired();
  if (unreleased_.empty()) return had_retired;
  for (const CachedBlock& block : unreleased_) {
    main_arena().windows.Free(StartOf(block.address));
  }
  unreleased_.clear();
  if (!is_idle) has_unconfirmed_frees_ = true;
  return true;
}

void Pool::Impl::DissolveParked(Arena* arena) {
  shared_.clear();
  arena->large.DissolveParked(&shared_);
  for (const GranuleId granule : shared_) arena->windows.UnblockAll(granule);
}

void Pool::Impl::DissolveParked() {
  for (const auto& arena : arenas_) DissolveParked(arena.get());
}

void Pool::Impl::IsolateLost() {
  DissolveParked();
  for (const auto& arena : arenas_) arena->backing.IsolateLost();
}

}  // namespace firn
