// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/debug_impl.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// More than any device has; what is larger is refused beneath.
constexpr uint64_t kMostBytes = uint64_t{1} << 56;

DevicePtr ToAddress(const void* ptr) {
  return reinterpret_cast<uintptr_t>(ptr);
}

void* ToPointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

}  // namespace

// --- Creation and end ---

absl::StatusOr<std::unique_ptr<Pool::DebugImpl>> Pool::DebugImpl::Create(
    std::unique_ptr<AnyImpl> beneath, std::shared_ptr<Driver> driver,
    DebugOptions options, bool move_on_failure) {
  absl::StatusOr<std::unique_ptr<GuardBands>> bands =
      GuardBands::Create(driver.get());
  if (!bands.ok()) return bands.status();
  return absl::WrapUnique(new DebugImpl(std::move(beneath), std::move(driver),
                                        *std::move(bands), std::move(options),
                                        move_on_failure));
}

Pool::DebugImpl::DebugImpl(std::unique_ptr<AnyImpl> beneath,
                           std::shared_ptr<Driver> driver,
                           std::unique_ptr<GuardBands> bands,
                           DebugOptions options, bool move_on_failure)
    : AnyImpl(/*recorder=*/nullptr),
      options_(std::move(options)),
      move_on_failure_(move_on_failure),
      driver_(std::move(driver)),
      bands_(std::move(bands)),
      stream_(bands_->stream()),
      beneath_(std::move(beneath)) {}

Pool::DebugImpl::~DebugImpl() {
  WaitForDevice().IgnoreError();
  Reports reports;
  {
    MutexLock lock(&mutex_);
    // It cannot be looked at any more if that fails.
    if (CheckAll(&reports).ok()) EmptyQuarantine(false, &reports);
    books_.ForEach([this](DebugBlock* block) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      DestroyEvents(block);
    });
  }
  Deliver(reports);
}

// --- Allocation ---

absl::StatusOr<void*> Pool::DebugImpl::Allocate(
    uint64_t bytes, const AllocateOptions& options) {
  // Importers see whole granules: no place for guards.
  if (bytes == 0 || bytes > kMostBytes || !options.Validate().ok() ||
      options.memory_class == MemoryClass::kExportable) {
    return beneath_->Allocate(bytes, options);
  }
  const bool may_wait = !launch_gate()->ThisThreadIsInside();
  bool is_in_capture = IsCapturing(options.stream);
  Reports reports;
  DebugBlock block;
  block.bytes = bytes;
  block.tag = options.tag;
  block.domain = options.domain;
  block.allocated = ThisCallSite(options_.stacks);
  // Keeps the alignment.
  const uint64_t front_bytes =
      std::max(options_.guard_bytes, options.alignment_bytes);
  block.held_bytes = front_bytes + bytes + options_.guard_bytes;
  {
    MutexLock lock(&mutex_);
    is_in_capture = is_in_capture || open_graph_pools_ > 0;
    if (!is_in_capture) Settle(&reports);
  }
  Deliver(reports);
  // What a graph uses is reused in its own way, and nothing may be waited for.
  if (is_in_capture) block.held_bytes = bytes;
  const absl::StatusOr<void*> start =
      AllocateOrEmpty(block.held_bytes, options, may_wait && !is_in_capture);
  if (is_in_capture) return start;
  if (absl::IsResourceExhausted(start.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "debug: ", bytes, " bytes and guard bands of ",
        front_bytes + options_.guard_bytes, ": ", start.status().message()));
  }
  if (!start.ok()) return start;
  block.start = ToAddress(*start);
  block.address = block.start + front_bytes;
  {
    MutexLock lock(&mutex_);
    if (!has_ordered_frees_) return HandOut(std::move(block), may_wait);
    // Where that cannot be waited for, it stays as it is.
    if (!may_wait) {
      return ToPointer(books_.Add(std::move(block))->address);
    }
  }
  const absl::Status idle = WaitForStream(options.stream);
  MutexLock lock(&mutex_);
  if (idle.ok()) return HandOut(std::move(block), may_wait);
  Undo(std::move(block), options.stream);
  return idle;
}

absl::StatusOr<void*> Pool::DebugImpl::AllocateOrEmpty(
    uint64_t bytes, const AllocateOptions& options, bool may_wait) {
  absl::StatusOr<void*> start = AllocateBeneath(bytes, options);
  if (!absl::IsResourceExhausted(start.status())) return start;
  if (may_wait) WaitForDevice().IgnoreError();
  Reports reports;
  bool is_any_free = false;
  {
    MutexLock lock(&mutex_);
    is_any_free = EmptyQuarantine(may_wait, &reports);
    if (is_any_free) ++retries_;
  }
  Deliver(reports);
  return is_any_free ? AllocateBeneath(bytes, options) : start;
}

absl::StatusOr<void*> Pool::DebugImpl::AllocateBeneath(
    uint64_t bytes, const AllocateOptions& options) {
  if (!move_on_failure_) return beneath_->Allocate(bytes, options);
  {
    MutexLock lock(&mutex_);
    ++moving_allocations_;
  }
  absl::StatusOr<void*> start = beneath_->Allocate(bytes, options);
  MutexLock lock(&mutex_);
  --moving_allocations_;
  changed_.SignalAll();
  return start;
}

absl::StatusOr<void*> Pool::DebugImpl::HandOut(DebugBlock block,
                                               bool may_wait) {
  if (MayTouch(may_wait)) {
    const absl::Status filled = FillNew(block);
    if (!filled.ok()) {
      Undo(std::move(block), stream_);
      return filled;
    }
    block.has_guards = true;
  }
  return ToPointer(books_.Add(std::move(block))->address);
}

void Pool::DebugImpl::Undo(DebugBlock block, StreamHandle stream) {
  ++undone_;
  if (beneath_->Free(ToPointer(block.start), stream).ok()) return;
  // It is freed when that can be done.
  block.freed = block.allocated;
  books_.SetFreed(books_.Add(std::move(block)));
}

absl::Status Pool::DebugImpl::FillNew(const DebugBlock& block) {
  absl::Status status =
      bands_->Fill(block.start, kGuardPattern, block.front_bytes());
  if (status.ok()) {
    status = bands_->Fill(block.address, kFreshPattern, block.bytes);
  }
  if (status.ok()) {
    status = bands_->Fill(block.end(), kGuardPattern, block.back_bytes());
  }
  return status.ok() ? bands_->Finish() : status;
}

// --- Looking up ---

absl::StatusOr<DebugBlock*> Pool::DebugImpl::FindLive(const void* ptr) const {
  const DevicePtr address = ToAddress(ptr);
  DebugBlock* const block = books_.Find(address);
  if (block == nullptr) return nullptr;
  const bool is_start = address == block->address;
  if (is_start && block->state == DebugBlock::State::kLive) return block;
  return absl::InvalidArgumentError(absl::StrCat(
      "ptr: no live block starts at 0x", absl::Hex(address),
      is_start ? ": freed before: " : ": inside, or in the guard bands of, ",
      DescribeBlock(*block, NameOf(block->tag))));
}

absl::StatusOr<void*> Pool::DebugImpl::AddressBeneath(const void* ptr) const {
  MutexLock lock(&mutex_);
  const absl::StatusOr<DebugBlock*> block = FindLive(ptr);
  if (!block.ok()) return block.status();
  return *block == nullptr ? const_cast<void*>(ptr)
                           : ToPointer((*block)->start);
}

absl::string_view Pool::DebugImpl::NameOf(Tag tag) const {
  const auto name = tag_names_.find(tag);
  return name == tag_names_.end() ? absl::string_view() : name->second;
}

// --- Free ---

absl::Status Pool::DebugImpl::Free(void* ptr, StreamHandle stream) {
  if (ptr == nullptr) return absl::OkStatus();
  Reports reports;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = FreeLocked(ptr, stream);
    Settle(&reports);
  }
  Deliver(reports);
  return status;
}

absl::Status Pool::DebugImpl::FreeLocked(void* ptr, StreamHandle stream) {
  const absl::StatusOr<DebugBlock*> found = FindLive(ptr);
  if (!found.ok()) {
    ++refused_frees_;
    return found.status();
  }
  DebugBlock* const block = *found;
  if (block == nullptr) {
    absl::Status status = beneath_->Free(ptr, stream);
    if (status.ok()) has_ordered_frees_ = true;
    return status;
  }
  const std::string pinned_by = ReasonsOfPins(block);
  if (!pinned_by.empty()) {
    ++refused_frees_;
    return PinnedError(ptr, pinned_by);
  }
  if (open_graph_pools_ == 0 && block->is_tracked && !IsCapturing(stream) &&
      NoteUse(block, stream)) {
    block->freed = ThisCallSite(options_.stacks);
    books_.SetFreed(block);
    return absl::OkStatus();
  }
  // Nothing can tell here when its work is done: it is freed beneath at once.
  const absl::Status status = beneath_->Free(ToPointer(block->start), stream);
  if (!status.ok()) return status;
  has_ordered_frees_ = true;
  DestroyEvents(block);
  books_.Remove(block);
  return absl::OkStatus();
}

std::string Pool::DebugImpl::ReasonsOfPins(DebugBlock* block) const {
  while (!block->pins.empty()) {
    std::string reasons = pins_->ReasonsOfPin(block->pins.back());
    if (!reasons.empty()) return reasons;
    block->pins.pop_back();
  }
  return "";
}

bool Pool::DebugImpl::NoteUse(DebugBlock* block, StreamHandle stream) {
  const ScopedRelaxedCapture relaxed(driver_.get());
  if (!relaxed.status().ok()) return false;
  uint64_t id = 0;
  const DriverResult identified = driver_->StreamGetId(stream, &id);
  if (identified == DriverResult::kNotSupported) {
    id = 0;
  } else if (identified != DriverResult::kSuccess) {
    return false;
  }
  // A later event of the same stream stands for the earlier one.
  const auto use = std::find_if(block->uses.begin(), block->uses.end(),
                                [id](const DebugBlock::Use& use) {
                                  return id != 0 && use.stream_id == id;
                                });
  if (use != block->uses.end()) {
    return driver_->EventRecord(use->event, stream) == DriverResult::kSuccess;
  }
  DebugBlock::Use added;
  added.stream_id = id;
  if (driver_->EventCreate(&added.event, kEventDisableTiming) !=
      DriverResult::kSuccess) {
    return false;
  }
  block->uses.push_back(added);
  return driver_->EventRecord(added.event, stream) == DriverResult::kSuccess;
}

bool Pool::DebugImpl::AreUsesDone(DebugBlock* block) {
  if (block->uses.empty()) return true;
  const ScopedRelaxedCapture relaxed(driver_.get());
  if (!relaxed.status().ok()) return false;
  for (const DebugBlock::Use& use : block->uses) {
    if (driver_->EventQuery(use.event) != DriverResult::kSuccess) return false;
  }
  DestroyEvents(block);
  return true;
}

void Pool::DebugImpl::DestroyEvents(DebugBlock* block) {
  if (block->uses.empty()) return;
  const ScopedRelaxedCapture relaxed(driver_.get());
  for (const DebugBlock::Use& use : block->uses) {
    // Once more, so that one failure leaves nothing behind.
    if (driver_->EventDestroy(use.event) != DriverResult::kSuccess) {
      driver_->EventDestroy(use.event);
    }
  }
  block->uses.clear();
}

// --- Other calls that take a block ---

absl::Status Pool::DebugImpl::RecordUse(const void* ptr, StreamHandle stream) {
  const absl::StatusOr<void*> beneath = AddressBeneath(ptr);
  if (!beneath.ok()) return beneath.status();
  const absl::Status status = beneath_->RecordUse(*beneath, stream);
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  const absl::StatusOr<DebugBlock*> block = FindLive(ptr);
  if (!block.ok() || *block == nullptr) return absl::OkStatus();
  if (IsCapturing(stream) || !NoteUse(*block, stream)) {
    (*block)->is_tracked = false;
  }
  return absl::OkStatus();
}

absl::Status Pool::DebugImpl::Declare(const void* ptr, StreamHandle stream,
                                      Declaration what) {
  const absl::StatusOr<void*> beneath = AddressBeneath(ptr);
  return beneath.ok() ? beneath_->Declare(*beneath, stream, what)
                      : beneath.status();
}

absl::Status Pool::DebugImpl::MarkActive(const void* ptr) {
  const absl::StatusOr<void*> beneath = AddressBeneath(ptr);
  return beneath.ok() ? beneath_->MarkActive(*beneath) : beneath.status();
}

absl::StatusOr<ExportedBlock> Pool::DebugImpl::Export(const void* ptr) {
  const absl::StatusOr<void*> beneath = AddressBeneath(ptr);
  if (!beneath.ok()) return beneath.status();
  return beneath_->Export(*beneath);
}

absl::StatusOr<uint64_t> Pool::DebugImpl::Generation(const void* ptr) const {
  const absl::StatusOr<void*> beneath = AddressBeneath(ptr);
  if (!beneath.ok()) return beneath.status();
  return beneath_->Generation(*beneath);
}

absl::StatusOr<Pin> Pool::DebugImpl::PinBlock(const void* ptr,
                                              absl::string_view reason) {
  // Held meanwhile: a free finds the pin or is found.
  MutexLock lock(&mutex_);
  const absl::StatusOr<DebugBlock*> block = FindLive(ptr);
  if (!block.ok()) return block.status();
  if (*block == nullptr) return beneath_->PinBlock(ptr, reason);
  absl::StatusOr<Pin> pin =
      beneath_->PinBlock(ToPointer((*block)->start), reason);
  if (!pin.ok()) return pin;
  pin->ptr_ = const_cast<void*>(ptr);
  pins_ = pin->pins_;
  ReasonsOfPins(*block);  // forgets those given up
  (*block)->pins.push_back(pin->id_);
  return pin;
}

}  // namespace firn
