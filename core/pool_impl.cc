// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool_impl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "firn/core/driver_choice.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// Mappings of one granule at most: each is an entry of the device's
// translation caches.
constexpr uint32_t kMaxMappingsPerGranule = 48;
// A pass forced by a failing allocation recovers at least so many granules if
// it can: the next failure is then some way off.
constexpr uint64_t kLeastGranulesPerForcedPass = 8;
// What the pool takes by default of what is free.
constexpr uint64_t kDefaultCpuCapacityBytes = uint64_t{8} << 30;

AccessDesc OwnAccess(int device_ordinal) {
  AccessDesc desc;
  desc.location.type = LocationType::kDevice;
  desc.location.id = device_ordinal;
  desc.flags = AccessFlags::kReadWrite;
  return desc;
}

// The granule size, or what is wrong with the one that was asked for.
absl::StatusOr<uint64_t> ChooseGranuleBytes(const PoolOptions& options,
                                            Driver* driver,
                                            const AllocationProp& prop) {
  size_t minimum = 0;
  const DriverResult result = driver->MemGetAllocationGranularity(
      &minimum, &prop, GranularityKind::kMinimum);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemGetAllocationGranularity");
  }
  if (options.granule_bytes == 0) {
    PoolOptions as_granule;
    as_granule.granule_bytes = minimum;
    if (!as_granule.Validate().ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the device's granularity of ", minimum,
                       " bytes makes no granule; give granule_bytes"));
    }
    return uint64_t{minimum};
  }
  if (options.granule_bytes % minimum != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "granule_bytes: ", options.granule_bytes,
        " is not a multiple of the device's granularity of ", minimum));
  }
  return options.granule_bytes;
}

absl::StatusOr<uint64_t> ChooseCapacityBytes(const PoolOptions& options,
                                             Driver* driver) {
  if (options.capacity_bytes > 0) return options.capacity_bytes;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const DriverResult result = driver->MemGetInfo(&free_bytes, &total_bytes);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemGetInfo");
  }
  if (driver->identity().backend == "cpu") {
    return std::min<uint64_t>(free_bytes / 2, kDefaultCpuCapacityBytes);
  }
  return free_bytes - free_bytes / 10;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pool::Impl>> Pool::Impl::Create(
    PoolOptions options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  std::string reason = "given in PoolOptions::driver";
  if (options.driver == nullptr) {
    absl::StatusOr<DriverChoice> choice = ChooseDriver(options.device_ordinal);
    if (!choice.ok()) return choice.status();
    options.driver = std::move(choice->driver);
    reason = std::move(choice->reason);
  }
  Driver* const driver = options.driver.get();
  const AllocationProp prop = MovableProp(driver->identity().device_ordinal);
  const absl::StatusOr<uint64_t> granule_bytes =
      ChooseGranuleBytes(options, driver, prop);
  if (!granule_bytes.ok()) return granule_bytes.status();
  const absl::StatusOr<uint64_t> capacity_bytes =
      ChooseCapacityBytes(options, driver);
  if (!capacity_bytes.ok()) return capacity_bytes.status();
  const uint64_t granules = *capacity_bytes / *granule_bytes;
  if (granules == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity_bytes: ", *capacity_bytes, " is less than one granule of ",
        *granule_bytes, " bytes"));
  }
  // Indexes of virtual granules have 31 bits to spare for sums.
  const uint64_t vgs = granules * options.address_space_factor;
  if (vgs > (uint64_t{1} << 31)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity_bytes: ", *capacity_bytes, " times address_space_factor ",
        options.address_space_factor, " exceeds 2^31 granules of ",
        *granule_bytes, " bytes"));
  }
  absl::StatusOr<std::unique_ptr<AddressSpace>> address_space =
      AddressSpace::Reserve(driver, *granule_bytes, static_cast<uint32_t>(vgs),
                            static_cast<uint32_t>(2 * granules));
  if (!address_space.ok()) return address_space.status();
  auto impl = absl::WrapUnique(
      new Impl(std::move(options), std::move(reason), *granule_bytes,
               static_cast<uint32_t>(granules), std::move(*address_space)));
  const absl::Status created = impl->CreateRelocator();
  if (!created.ok()) return created;
  return impl;
}

Pool::Impl::Impl(PoolOptions options, std::string driver_reason,
                 uint64_t granule_bytes, uint32_t capacity_granules,
                 std::unique_ptr<AddressSpace> address_space)
    : options_(std::move(options)),
      driver_reason_(std::move(driver_reason)),
      identity_(options_.driver->identity()),
      driver_(options_.driver.get()),
      granule_bytes_(granule_bytes),
      quanta_per_granule_(static_cast<uint32_t>(granule_bytes / kQuantumBytes)),
      address_space_(std::move(address_space)),
      store_(driver_, MovableProp(identity_.device_ordinal), granule_bytes,
             capacity_granules),
      mappings_(driver_, address_space_.get(), &store_,
                {OwnAccess(identity_.device_ordinal)}),
      books_(quanta_per_granule_, kMaxMappingsPerGranule),
      backing_(address_space_.get(), &store_, &mappings_, &books_,
               [this] { return WaitForFreed(); }),
      windows_(&backing_),
      large_(&backing_),
      free_queue_(driver_) {}

absl::Status Pool::Impl::CreateRelocator() {
  MutexLock lock(&mutex_);
  absl::StatusOr<std::unique_ptr<Relocator>> relocator =
      Relocator::Create(driver_, address_space_.get(), &mappings_);
  if (!relocator.ok()) return relocator.status();
  relocator_ = std::move(*relocator);
  compactor_ =
      absl::make_unique<Compactor>(&backing_, &windows_, relocator_.get());
  return absl::OkStatus();
}

Pool::Impl::~Impl() {
  // Unmapping what work in flight still uses would be fatal to the context.
  driver_->CtxSynchronize();
}

// --- Allocation ---

absl::StatusOr<void*> Pool::Impl::Allocate(uint64_t bytes,
                                           const AllocateOptions& options) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("bytes: 0; ask for at least 1");
  }
  const uint64_t alignment = options.alignment_bytes;
  constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 ||
      alignment > kMaxAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment_bytes: ", alignment,
                     "; must be a power of two up to ", kMaxAlignment));
  }
  Request request;
  request.bytes = bytes;
  request.quanta = BytesToQuanta(bytes);
  request.alignment_quanta = std::max<uint64_t>(1, alignment / kQuantumBytes);

  MutexLock lock(&mutex_);
  absl::Status status = free_queue_.NoteStream(options.stream);
  if (status.ok() && !free_queue_.empty()) status = ReleasePending(false);
  if (!status.ok()) {
    ++stats_.failed_allocations;
    return status;
  }
  absl::StatusOr<BlockStart> start = TryPlace(request, Effort::kOrdinary);
  if (absl::IsResourceExhausted(start.status())) {
    start = ClimbLadder(request, start.status());
  }
  if (!start.ok()) {
    ++stats_.failed_allocations;
    backing_.IsolateLost();
    return start.status();
  }
  ++stats_.allocations;
  ++stats_.live_allocations;
  stats_.live_bytes += bytes;
  NotePeaks();
  return AddressOf(*start);
}

absl::StatusOr<BlockStart> Pool::Impl::TryPlace(const Request& request,
                                                Effort effort) {
  // Also keeps counts of granules within their 32 bits.
  if (request.bytes > GranulesToBytes(store_.budget_granules())) {
    return absl::ResourceExhaustedError("more than the capacity");
  }
  if (IsSmall(request)) {
    return windows_.Allocate(static_cast<uint32_t>(request.quanta),
                             static_cast<uint32_t>(request.alignment_quanta),
                             request.bytes, effort);
  }
  return large_.Allocate(
      std::max<uint64_t>(request.quanta, quanta_per_granule_),
      request.alignment_quanta, request.bytes, effort);
}

absl::StatusOr<BlockStart> Pool::Impl::ClimbLadder(const Request& request,
                                                   absl::Status failure) {
  if (request.bytes > GranulesToBytes(store_.budget_granules())) {
    return OutOfMemory(request, failure);
  }
  backing_.IsolateLost();
  // Each rung that changed something is followed by another attempt.
  const auto retry = [&](Effort effort) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::StatusOr<BlockStart> start = TryPlace(request, effort);
    if (!start.ok()) {
      failure = start.status();
      backing_.IsolateLost();
    }
    return start;
  };
  // 1. Freed blocks whose streams are not done: wait for them.
  if (!free_queue_.empty()) {
    const absl::Status status = ReleasePending(true);
    if (!status.ok()) return status;
    absl::StatusOr<BlockStart> start = retry(Effort::kOrdinary);
    if (!absl::IsResourceExhausted(start.status())) return start;
  }
  // 2. Granules there are, but no addresses or mappings: those that hold
  // nothing live have them.
  if (backing_.available_granules() >= large_.GranulesFor(request.quanta)) {
    const absl::StatusOr<uint32_t> spares = backing_.UnmapSpares(0);
    if (!spares.ok()) return spares.status();
    const absl::StatusOr<uint32_t> empty = backing_.UnmapEmpty();
    if (!empty.ok()) return empty.status();
    if (*spares + *empty > 0) {
      absl::StatusOr<BlockStart> start = retry(Effort::kOrdinary);
      if (!absl::IsResourceExhausted(start.status())) return start;
    }
  }
  // 3. Move live memory together, where that is allowed.
  if (options_.move_on_failure && frees_at_empty_pass_ != stats_.frees) {
    const absl::Status status = MakeRoom(request);
    if (!status.ok()) return status;
    absl::StatusOr<BlockStart> start = retry(Effort::kOrdinary);
    if (!absl::IsResourceExhausted(start.status())) return start;
  }
  // 4. Holes that are left between live blocks.
  absl::StatusOr<BlockStart> start = retry(Effort::kScattered);
  if (!absl::IsResourceExhausted(start.status())) return start;
  // 5. A hole of our own making, where no whole granule can be emptied.
  if (options_.move_on_failure && IsSmall(request)) {
    const absl::Status status = MakeHole(request);
    if (!status.ok()) return status;
    start = retry(Effort::kScattered);
    if (!absl::IsResourceExhausted(start.status())) return start;
  }
  return OutOfMemory(request, failure);
}

absl::Status Pool::Impl::MakeRoom(const Request& request) {
  CompactOptions options;
  options.wanted_granules = std::max<uint64_t>(
      large_.GranulesFor(request.quanta) + 1, kLeastGranulesPerForcedPass);
  CompactionReport report;
  const absl::Status status = CompactLocked(options, &report);
  if (!status.ok()) return status;
  if (report.granules_recovered == 0) frees_at_empty_pass_ = stats_.frees;
  return absl::OkStatus();
}

absl::Status Pool::Impl::MakeHole(const Request& request) {
  const WindowAllocator::Shape shape =
      windows_.ShapeOf(static_cast<uint32_t>(request.quanta),
                       static_cast<uint32_t>(request.alignment_quanta));
  if (frees_at_failed_hole_ == stats_.frees &&
      shape.quanta >= failed_hole_.quanta &&
      shape.alignment_quanta >= failed_hole_.alignment_quanta) {
    return absl::OkStatus();
  }
  absl::Status status = WaitUntilIdle();
  if (!status.ok()) return status;
  CompactionReport report;
  status = compactor_->OpenHole(shape.quanta, shape.alignment_quanta, &report);
  CountPass(status, report);
  if (status.ok() && report.moves == 0) {
    frees_at_failed_hole_ = stats_.frees;
    failed_hole_ = shape;
  }
  return status;
}

// --- Free ---

void* Pool::Impl::AddressOf(BlockStart start) const {
  return reinterpret_cast<void*>(
      static_cast<uintptr_t>(address_space_->AddressOf(start.vg) +
                             QuantaToBytes(start.offset_quanta)));
}

uint64_t Pool::Impl::RequestedBytes(BlockStart start) const {
  switch (books_.vg(start.vg).role) {
    case VgRole::kWindow:
      return windows_.RequestedBytes(start);
    case VgRole::kRemainder:
    case VgRole::kInterior:
      return large_.RequestedBytes(start);
    default:
      return 0;
  }
}

absl::StatusOr<BlockStart> Pool::Impl::FindBlock(const void* ptr) const {
  const DevicePtr address = reinterpret_cast<uintptr_t>(ptr);
  const std::optional<VgIndex> vg = address_space_->VgOf(address);
  if (!vg.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ptr: 0x", absl::Hex(address), " is not an address of this pool"));
  }
  const uint64_t offset_bytes = address - address_space_->AddressOf(*vg);
  BlockStart start;
  start.vg = *vg;
  start.offset_quanta = static_cast<uint32_t>(offset_bytes / kQuantumBytes);
  if (offset_bytes % kQuantumBytes != 0 || RequestedBytes(start) == 0 ||
      free_queue_.IsPending(start)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ptr: no live block starts at 0x", absl::Hex(address),
                     ": freed before, or an address inside a block"));
  }
  return start;
}

absl::Status Pool::Impl::Free(void* ptr, StreamHandle stream) {
  if (ptr == nullptr) return absl::OkStatus();
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) {
    ++stats_.refused_frees;
    return start.status();
  }
  const uint64_t bytes = RequestedBytes(*start);
  absl::Status status = free_queue_.NoteStream(stream);
  // The default stream captures nothing.
  if (status.ok() && stream != nullptr) {
    status = free_queue_.RefuseCapturing(stream);
  }
  if (status.ok() && free_queue_.is_recording()) {
    status = free_queue_.Push(*start, bytes, stream);
  }
  if (!status.ok()) {
    ++stats_.refused_frees;
    return status;
  }
  ++stats_.frees;
  --stats_.live_allocations;
  stats_.live_bytes -= bytes;
  if (!free_queue_.is_recording()) {
    Release(*start);
    has_unconfirmed_frees_ = true;
  }
  return absl::OkStatus();
}

void Pool::Impl::Release(BlockStart start) {
  if (books_.vg(start.vg).role == VgRole::kWindow) {
    windows_.Free(start);
  } else {
    const GranuleId shared = large_.Free(start);
    if (!shared.is_none()) windows_.UnblockAll(shared);
  }
}

absl::Status Pool::Impl::WaitForFreed() {
  // Reached through Backing, which is used under the lock only.
  mutex_.AssertHeld();
  if (!has_unconfirmed_frees_) return absl::OkStatus();
  const absl::Status idle =
      ToStatus(driver_->CtxSynchronize(), "cuCtxSynchronize");
  if (idle.ok()) has_unconfirmed_frees_ = false;
  return idle;
}

absl::Status Pool::Impl::ReleasePending(bool wait) {
  done_.clear();
  const absl::Status status =
      wait ? free_queue_.Drain(&done_) : free_queue_.Poll(&done_);
  for (const BlockStart start : done_) Release(start);
  return status;
}

// --- Compaction and trim ---

absl::Status Pool::Impl::WaitUntilIdle() {
  // Level 0: nobody launches meanwhile; what was launched is waited for.
  const absl::Status idle =
      ToStatus(driver_->CtxSynchronize(), "cuCtxSynchronize");
  if (!idle.ok()) return idle;
  has_unconfirmed_frees_ = false;
  return ReleasePending(true);
}

void Pool::Impl::CountPass(const absl::Status& status,
                           const CompactionReport& report) {
  ++stats_.compaction_passes;
  if (!status.ok()) ++stats_.failed_passes;
  stats_.granules_moved += report.moves;
  stats_.granules_recovered += report.granules_recovered;
  stats_.bytes_copied += report.bytes_copied;
}

absl::Status Pool::Impl::CompactLocked(const CompactOptions& options,
                                       CompactionReport* report) {
  if (options.dry_run) return compactor_->Run(options, report);
  const absl::Status idle = WaitUntilIdle();
  if (!idle.ok()) return idle;
  const absl::Status status = compactor_->Run(options, report);
  CountPass(status, *report);
  return status;
}

absl::StatusOr<CompactionReport> Pool::Impl::Compact(
    const CompactOptions& options) {
  MutexLock lock(&mutex_);
  CompactionReport report;
  const absl::Status status = CompactLocked(options, &report);
  if (!status.ok()) {
    backing_.IsolateLost();
    return status;
  }
  return report;
}

absl::StatusOr<uint64_t> Pool::Impl::Trim(uint64_t keep_bytes) {
  MutexLock lock(&mutex_);
  const absl::Status status = ReleasePending(false);
  if (!status.ok()) return status;
  const uint64_t keep_granules =
      std::min<uint64_t>(keep_bytes / granule_bytes_, store_.budget_granules());
  const absl::StatusOr<uint32_t> released =
      backing_.Trim(static_cast<uint32_t>(keep_granules));
  if (!released.ok()) {
    backing_.IsolateLost();
    return released.status();
  }
  return GranulesToBytes(*released);
}

void Pool::Impl::NotePeaks() {
  stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, stats_.live_bytes);
  stats_.peak_used_bytes =
      std::max(stats_.peak_used_bytes, GranulesToBytes(books_.used_granules()));
  stats_.peak_held_bytes =
      std::max(stats_.peak_held_bytes, GranulesToBytes(store_.held_granules()));
  stats_.peak_mapped_vgs =
      std::max<uint64_t>(stats_.peak_mapped_vgs, mappings_.mapped_vgs());
}

}  // namespace firn
