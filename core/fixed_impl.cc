// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/fixed_impl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// What is asked of the driver at a time: each call may wait for the device.
constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;
// Drivers give memory in pieces of this size, whatever is asked for.
constexpr uint64_t kSegmentUnitBytes = uint64_t{2} << 20;
// Numbers of quanta are 32 bits wide; half of them are left for the gaps that
// segments of different sizes leave between each other.
constexpr uint64_t kMaxCapacityBytes = uint64_t{1} << 40;
// How long a pool that goes waits for what was launched in scopes.
constexpr absl::Duration kLongestWaitAtEnd = absl::Seconds(10);

BlockStart StartOf(SegmentHeap::BlockNumber block) {
  BlockStart start;
  start.vg = VgIndex(block);
  return start;
}

LaunchGateOptions GateOptions(const PoolOptions& options) {
  LaunchGateOptions gate;
  gate.report_unscoped_work = options.report_unscoped_work;
  return gate;
}

}  // namespace

// --- Creation and end ---

absl::StatusOr<std::unique_ptr<Pool::FixedImpl>> Pool::FixedImpl::Create(
    PoolOptions options, std::string driver_reason, std::string never_moves) {
  if (options.capacity_bytes < kQuantumBytes ||
      options.capacity_bytes > kMaxCapacityBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity_bytes: ", options.capacity_bytes, "; must be from ",
        kQuantumBytes, " to ", kMaxCapacityBytes,
        " where memory does not move (", never_moves, ")"));
  }
  absl::StatusOr<std::unique_ptr<StreamTracker>> tracker =
      StreamTracker::Create({options.driver.get()}, StreamTrackerOptions());
  if (!tracker.ok()) return tracker.status();
  const MemoryLimit limit = options.limit;
  // Late: it may replace a file.
  absl::StatusOr<std::unique_ptr<EventRecorder>> recorder =
      EventRecorder::Create(options);
  if (!recorder.ok()) return recorder.status();
  auto impl = absl::WrapUnique(new FixedImpl(
      std::move(options), std::move(driver_reason), std::move(never_moves),
      *std::move(tracker), *std::move(recorder)));
  const absl::Status limited = impl->SetLimit(limit);
  if (!limited.ok()) return limited;
  return impl;
}

Pool::FixedImpl::FixedImpl(PoolOptions options, std::string driver_reason,
                           std::string never_moves,
                           std::unique_ptr<StreamTracker> tracker,
                           std::unique_ptr<EventRecorder> recorder)
    : AnyImpl(std::move(recorder)),
      options_(std::move(options)),
      driver_reason_(std::move(driver_reason)),
      never_moves_(std::move(never_moves)),
      identity_(options_.driver->identity()),
      driver_(options_.driver.get()),
      capacity_bytes_(QuantaToBytes(options_.capacity_bytes / kQuantumBytes)),
      tracker_(std::move(tracker)),
      gate_({driver_}, tracker_.get(), GateOptions(options_)),
      streams_(driver_, tracker_.get(), [this] { return WaitForFreed(); }),
      pins_(std::make_shared<PinnedBlocks>()),
      hooks_(std::make_shared<MoveHookList>()),
      free_queue_(tracker_.get(), this->recorder()),
      ceiling_bytes_(capacity_bytes_) {
  limit_.hard = limit_.soft = capacity_bytes_;
}

Pool::FixedImpl::~FixedImpl() {
  // Memory must not go while work uses it. Scopes may have named streams that
  // waiting for the device does not cover.
  if (gate_.was_used()) gate_.Close(kLongestWaitAtEnd).IgnoreError();
  const ScopedRelaxedCapture relaxed(driver_);
  driver_->CtxSynchronize();
  MutexLock lock(&mutex_);
  heap_.ForEachSegment([this](DevicePtr address) {
    // Once more, so that one failure leaves nothing behind.
    if (driver_->MemFree(address) != DriverResult::kSuccess) {
      driver_->MemFree(address);
    }
  });
}

// --- Allocation ---

absl::StatusOr<void*> Pool::FixedImpl::Allocate(
    uint64_t bytes, const AllocateOptions& options) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("bytes: 0; ask for at least 1");
  }
  absl::Status valid = options.Validate();
  if (valid.ok() && options.domain != DomainId::kDefault) {
    valid = absl::InvalidArgumentError(
        absl::StrCat("domain: ", static_cast<uint32_t>(options.domain),
                     " is no domain of this pool"));
  }
  if (valid.ok() && options.memory_class == MemoryClass::kExportable) {
    valid = absl::InvalidArgumentError(absl::StrCat(
        "memory_class: kExportable needs virtual memory, which this pool has "
        "not: ",
        never_moves_));
  }
  if (!valid.ok()) return valid;
  Request request;
  request.bytes = bytes;
  request.alignment_quanta =
      std::max<uint64_t>(1, options.alignment_bytes / kQuantumBytes);

  SettleRecords();
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  const absl::Status known = tags_.Check(options.tag);
  if (!known.ok()) return known;
  const absl::StatusOr<bool> in_capture = IsInCapture(options.stream);
  may_wait_ = !is_inside && in_capture.ok() && !*in_capture;
  absl::Status failure = in_capture.status();
  if (failure.ok()) failure = streams_.Note(options.stream, gate_.was_used());
  if (failure.ok()) failure = SetGraphOwner(options.stream, &request);
  if (failure.ok() && !free_queue_.empty()) failure = ReleasePending(false);
  if (failure.ok()) {
    const absl::StatusOr<BlockNumber> block = AllocateLocked(request);
    if (block.ok()) {
      ++stats_.allocations;
      ++stats_.live_allocations;
      stats_.live_bytes += bytes;
      if (options.tag != Tag::kUntagged) tags_.Add(*block, options.tag, bytes);
      AddGraphBlock(request, *block);
      NotePeaks();
      const DevicePtr address = heap_.AddressOf(*block);
      RecordAllocation(address, bytes, options.stream, options.tag);
      return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
    }
    failure = block.status();
  }
  RecordFailure(bytes, options.stream, options.tag);
  ++stats_.failed_allocations;
  return in_capture.ok() && *in_capture ? ExplainCapture(failure) : failure;
}

absl::StatusOr<Pool::FixedImpl::BlockNumber> Pool::FixedImpl::AllocateLocked(
    const Request& request) {
  const absl::StatusOr<BlockNumber> block =
      AllocateWithin(limit_.soft, request);
  if (!absl::IsResourceExhausted(block.status()) ||
      limit_.soft == limit_.hard) {
    return block;
  }
  return AllocateWithin(limit_.hard, request);
}

absl::StatusOr<Pool::FixedImpl::BlockNumber> Pool::FixedImpl::AllocateWithin(
    uint64_t limit_bytes, const Request& request) {
  const auto place = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return heap_.Allocate(request.bytes, request.alignment_quanta);
  };
  // 1. Room that there is.
  std::optional<BlockNumber> block = TakeKept(request);
  if (!block.has_value()) block = place();
  if (block.has_value()) return *block;
  if (request.bytes > limit_bytes) {
    return OutOfMemory(
        request, absl::ResourceExhaustedError(request.bytes > capacity_bytes_
                                                  ? "more than the capacity"
                                                  : "more than the limit"));
  }
  // 2. More of the driver's memory.
  absl::StatusOr<BlockNumber> in_new =
      AllocateInNewSegment(limit_bytes, request);
  if (!absl::IsResourceExhausted(in_new.status())) return in_new;
  if (!may_wait_) return OutOfMemory(request, in_new.status());
  // 3. Freed blocks whose streams are not done: wait for them.
  if (!free_queue_.empty() || graph_pools_.has_retired()) {
    absl::Status status = ReleasePending(true);
    if (status.ok()) status = ReleaseRetired();
    if (!status.ok()) return status;
    block = place();
    if (block.has_value()) return *block;
  }
  // 4. Segments that are empty, and too short: one that is not.
  uint64_t released_bytes = 0;
  const absl::Status status = ReleaseEmpty(/*keep_bytes=*/0, &released_bytes);
  if (!status.ok()) return status;
  if (released_bytes != 0) {
    in_new = AllocateInNewSegment(limit_bytes, request);
    if (!absl::IsResourceExhausted(in_new.status())) return in_new;
  }
  return OutOfMemory(request, in_new.status());
}

absl::StatusOr<Pool::FixedImpl::BlockNumber>
Pool::FixedImpl::AllocateInNewSegment(uint64_t limit_bytes,
                                      const Request& request) {
  // Where the driver's own alignment does for the block, nothing need be added.
  const uint64_t bytes = QuantaToBytes(BytesToQuanta(request.bytes));
  for (const uint64_t slack_bytes :
       {uint64_t{0}, QuantaToBytes(request.alignment_quanta)}) {
    const absl::StatusOr<DevicePtr> address =
        AddSegment(limit_bytes, bytes + slack_bytes);
    if (!address.ok()) return address.status();
    const std::optional<BlockNumber> block =
        heap_.Allocate(request.bytes, request.alignment_quanta);
    if (block.has_value()) return *block;
    const absl::Status released = ReleaseSegment(*address);
    if (!released.ok()) return released;
  }
  return absl::ResourceExhaustedError("a new segment has no room for it");
}

absl::StatusOr<DevicePtr> Pool::FixedImpl::AddSegment(uint64_t limit_bytes,
                                                      uint64_t least_bytes) {
  const uint64_t held_bytes = heap_.held_bytes();
  const uint64_t room_bytes =
      limit_bytes > held_bytes ? limit_bytes - held_bytes : 0;
  if (least_bytes > room_bytes) {
    return absl::ResourceExhaustedError(
        "the limit has no room for another segment");
  }
  const uint64_t unit_mask = kSegmentUnitBytes - 1;
  uint64_t bytes =
      std::max(kSegmentBytes, (least_bytes + unit_mask) & ~unit_mask);
  bytes = std::min(bytes, room_bytes);
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  DevicePtr address = 0;
  while (true) {
    const DriverResult result = driver_->MemAlloc(&address, bytes);
    if (result == DriverResult::kSuccess) break;
    // The device may have room for less.
    if (result != DriverResult::kOutOfMemory || bytes == least_bytes) {
      return ToStatus(result, "cuMemAlloc", absl::StrCat(bytes, " bytes"));
    }
    bytes = std::max(least_bytes, QuantaToBytes(bytes / 2 / kQuantumBytes));
  }
  ++stats_.handles_created;
  if (heap_.AddSegment(address, bytes)) {
    Record(HistoryKind::kMap, address, bytes);
    return address;
  }
  ++stats_.handles_released;
  driver_->MemFree(address);
  return absl::ResourceExhaustedError("no numbers are left for a segment");
}

absl::Status Pool::FixedImpl::ReleaseSegment(DevicePtr address) {
  // The call waits for the device by itself.
  if (!may_wait_) {
    return absl::ResourceExhaustedError(
        "a segment cannot be given back inside a LaunchScope or a capture");
  }
  const absl::Status idle = WaitForFreed();
  if (!idle.ok()) return idle;
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  const uint64_t held_before_bytes = heap_.held_bytes();
  const DriverResult result = driver_->MemFree(address);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemFree", driver_->loss());
  }
  heap_.RemoveSegment(address);
  Record(HistoryKind::kUnmap, address, held_before_bytes - heap_.held_bytes());
  ceiling_bytes_ =
      std::max(limit_.hard, std::min(ceiling_bytes_, heap_.held_bytes()));
  ++stats_.handles_released;
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::ReleaseEmpty(uint64_t keep_bytes,
                                           uint64_t* released_bytes) {
  const uint64_t before = heap_.held_bytes();
  absl::Status status;
  while (heap_.held_bytes() - heap_.used_bytes() > keep_bytes) {
    status = ReleaseSegment(*heap_.EmptySegment());
    if (!status.ok()) break;
  }
  *released_bytes += before - heap_.held_bytes();
  return status;
}

// --- Free ---

absl::StatusOr<Pool::FixedImpl::BlockNumber> Pool::FixedImpl::FindBlock(
    const void* ptr) const {
  const DevicePtr address = reinterpret_cast<uintptr_t>(ptr);
  if (!heap_.Contains(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ptr: 0x", absl::Hex(address), " is not an address of this pool"));
  }
  const std::optional<BlockNumber> block = heap_.FindBlock(address);
  if (!block.has_value() || pending_.contains(*block)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ptr: no live block starts at 0x", absl::Hex(address),
                     ": freed before, or an address inside a block"));
  }
  return *block;
}

absl::Status Pool::FixedImpl::Free(void* ptr, StreamHandle stream) {
  if (ptr == nullptr) return absl::OkStatus();
  SettleRecords();
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside && MayNoteWait(stream);
  const absl::StatusOr<BlockNumber> block = FindBlock(ptr);
  if (!block.ok()) {
    ++stats_.refused_frees;
    return block.status();
  }
  const uint64_t bytes = heap_.RequestedBytes(*block);
  const absl::Status status = FreeLocked(*block, bytes, stream);
  if (!status.ok()) {
    ++stats_.refused_frees;
    return status;
  }
  // What its graph-private pool keeps is recorded as free, too.
  const bool is_queued =
      pending_.contains(*block) && !graph_pools_.Owns(*block);
  Record(is_queued ? HistoryKind::kFreeRequested : HistoryKind::kFree,
         reinterpret_cast<uintptr_t>(ptr), bytes, stream);
  tags_.Remove(*block, bytes);
  ++stats_.frees;
  --stats_.live_allocations;
  stats_.live_bytes -= bytes;
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::FreeLocked(BlockNumber block, uint64_t bytes,
                                         StreamHandle stream) {
  const std::string pinned_by = pins_->ReasonsOf(block);
  if (!pinned_by.empty()) {
    return PinnedError(reinterpret_cast<const void*>(
                           static_cast<uintptr_t>(heap_.AddressOf(block))),
                       pinned_by);
  }
  if (graph_pools_.Owns(block)) return FreeInGraphPool(block, bytes, stream);
  absl::Status status = streams_.Note(stream, gate_.was_used());
  // Earlier frees would have to be waited for, and may not: this one at least
  // gets a token.
  const bool is_queued =
      absl::IsResourceExhausted(status) || streams_.are_many();
  if (absl::IsResourceExhausted(status)) status = absl::OkStatus();
  // The default stream captures nothing.
  if (status.ok() && stream != nullptr) {
    status = streams_.RefuseCapturing(stream);
  }
  if (!status.ok()) return status;
  if (!is_queued) {
    heap_.Free(block);
    has_unconfirmed_frees_ = true;
    return absl::OkStatus();
  }
  FreedBlock freed;
  freed.start = StartOf(block);
  freed.bytes = bytes;
  freed.address = heap_.AddressOf(block);
  freed.stream = stream;
  const auto uses = uses_.find(block);
  status = uses == uses_.end()
               ? free_queue_.Push({freed}, stream)
               : free_queue_.PushUsed(freed, stream, uses->second);
  if (!status.ok()) return status;
  if (uses != uses_.end()) uses_.erase(uses);
  pending_.insert(block);
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::RecordUse(const void* ptr, StreamHandle stream) {
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside && MayNoteWait(stream);
  const absl::StatusOr<BlockNumber> block = FindBlock(ptr);
  if (!block.ok()) return block.status();
  if (graph_pools_.Owns(*block)) return RecordGraphUse(*block, stream);
  const absl::Status noted = streams_.Note(stream, gate_.was_used());
  if (!noted.ok()) return noted;
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (!token.ok()) return token.status();
  AddUse(*token, &uses_[*block]);
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::Declare(const void* ptr, StreamHandle stream,
                                      Declaration /*what*/) {
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockNumber> block = FindBlock(ptr);
  if (!block.ok()) return block.status();
  if (graph_pools_.Owns(*block)) return OwnedByGraphPool();
  return tracker_->Mark(stream).status();
}

absl::Status Pool::FixedImpl::MarkActive(const void* ptr) {
  MutexLock lock(&mutex_);
  return FindBlock(ptr).status();
}

absl::Status Pool::FixedImpl::ReleaseStream(StreamHandle /*stream*/) {
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::WaitForFreed() {
  // Reached through the queue as well, which is used under the lock only.
  mutex_.AssertHeld();
  if (!has_unconfirmed_frees_) return absl::OkStatus();
  if (!may_wait_) {
    return absl::ResourceExhaustedError(
        "freed memory would have to be waited for, inside a LaunchScope or a "
        "capture");
  }
  const absl::Status idle =
      ToStatus(driver_->CtxSynchronize(), "cuCtxSynchronize", driver_->loss());
  if (idle.ok()) has_unconfirmed_frees_ = false;
  return idle;
}

absl::Status Pool::FixedImpl::ReleasePending(bool wait) {
  done_.clear();
  const absl::Status status =
      wait ? free_queue_.Drain(&done_) : free_queue_.Poll(&done_);
  ReleaseDone();
  return status;
}

void Pool::FixedImpl::ReleaseDone() {
  for (const BlockStart start : done_) {
    pending_.erase(start.vg.value());
    heap_.Free(start.vg.value());
  }
}

// --- The rest ---

absl::StatusOr<CompactionReport> Pool::FixedImpl::Compact(
    const CompactOptions& options) {
  if (options.dry_run) return CompactionReport();
  return absl::FailedPreconditionError(
      absl::StrCat("Compact: live memory cannot move: ", never_moves_));
}

absl::StatusOr<uint64_t> Pool::FixedImpl::Trim(uint64_t keep_bytes) {
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside && !graph_pools_.any_open();
  done_.clear();
  absl::Status status = free_queue_.PollAll(&done_);
  ReleaseDone();
  uint64_t released_bytes = 0;
  // Giving memory back waits.
  if (status.ok() && may_wait_) status = ReleaseRetired();
  if (status.ok() && may_wait_)
    status = ReleaseEmpty(keep_bytes, &released_bytes);
  if (!status.ok()) return status;
  return released_bytes;
}

void Pool::FixedImpl::NotePeaks() {
  stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, stats_.live_bytes);
  stats_.peak_used_bytes = std::max(stats_.peak_used_bytes, heap_.used_bytes());
  stats_.peak_held_bytes = std::max(stats_.peak_held_bytes, heap_.held_bytes());
}

}  // namespace firn
