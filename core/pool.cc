// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/core/any_impl.h"
#include "firn/core/memory_segments.h"
#include "firn/core/reclaimers.h"

namespace firn {

Pool::Pool(std::unique_ptr<AnyImpl> impl, bool moving,
           std::string moving_reason)
    : reclaimers_(std::make_shared<Reclaimers>()),
      impl_(std::move(impl)),
      moving_(moving),
      moving_reason_(std::move(moving_reason)) {}
Pool::~Pool() = default;

absl::StatusOr<void*> Pool::Allocate(uint64_t bytes,
                                     const AllocateOptions& options) {
  absl::StatusOr<void*> block = impl_->Allocate(bytes, options);
  if (block.ok() || reclaimers_->empty() ||
      !absl::IsResourceExhausted(block.status()) ||
      reclaimers_->ThisThreadIsInside() ||
      !impl_->MayCallBack(options.stream)) {
    return block;
  }
  return AskCallbacks(bytes, options);
}

absl::StatusOr<void*> Pool::AskCallbacks(uint64_t bytes,
                                         const AllocateOptions& options) {
  ReclaimRequest request;
  request.bytes = bytes;
  request.alignment_bytes = options.alignment_bytes;
  request.stream = options.stream;
  request.domain = options.domain;
  request.tag = options.tag;
  return reclaimers_->Rescue(
      request, [&] { return impl_->Allocate(bytes, options); },
      [this] { return impl_->GetUsage().live_bytes; });
}

absl::Status Pool::Free(void* ptr, StreamHandle stream) {
  return impl_->Free(ptr, stream);
}

absl::Status Pool::RecordUse(const void* ptr, StreamHandle stream) {
  return impl_->RecordUse(ptr, stream);
}

absl::Status Pool::MarkIdle(const void* ptr, StreamHandle stream) {
  return impl_->Declare(ptr, stream, Declaration::kIdle);
}

absl::Status Pool::MarkReadOnly(const void* ptr, StreamHandle stream) {
  return impl_->Declare(ptr, stream, Declaration::kReadOnly);
}

absl::Status Pool::AllowSpill(const void* ptr, StreamHandle stream) {
  return impl_->Declare(ptr, stream, Declaration::kSpillable);
}

absl::Status Pool::MarkActive(const void* ptr) {
  return impl_->MarkActive(ptr);
}

absl::Status Pool::ReleaseStream(StreamHandle stream) {
  return impl_->ReleaseStream(stream);
}

absl::StatusOr<Pin> Pool::PinBlock(const void* ptr, absl::string_view reason) {
  return impl_->PinBlock(ptr, reason);
}

absl::StatusOr<ExportedBlock> Pool::Export(const void* ptr) {
  return impl_->Export(ptr);
}

absl::StatusOr<MoveHookRegistration> Pool::AddMoveHook(MoveHook hook) {
  return impl_->AddMoveHook(std::move(hook));
}

absl::StatusOr<Domain> Pool::CreateDomain(DomainOptions options) {
  return impl_->CreateDomain(options);
}

absl::Status Pool::SetLimit(MemoryLimit limit) {
  return impl_->SetLimit(limit);
}

absl::Status Pool::SetDomainLimit(DomainId domain, MemoryLimit limit) {
  return impl_->SetDomainLimit(domain, limit);
}

std::vector<DomainStats> Pool::GetDomainStats() const {
  return impl_->GetDomainStats();
}

absl::StatusOr<Tag> Pool::RegisterTag(absl::string_view name) {
  return impl_->RegisterTag(name);
}

absl::StatusOr<ReclaimRegistration> Pool::AddReclaimCallback(
    ReclaimCallback callback) {
  if (!callback) {
    return absl::InvalidArgumentError(
        "callback: empty; give something to call");
  }
  return ReclaimRegistration(reclaimers_,
                             reclaimers_->Add(std::move(callback)));
}

absl::StatusOr<CompactionReport> Pool::Compact(CompactOptions options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  if (!moving_ && !options.dry_run) {
    return absl::FailedPreconditionError(
        absl::StrCat("Compact: live memory does not move: ", moving_reason_));
  }
  return impl_->Compact(options);
}

absl::StatusOr<CompactionReport> Pool::Safepoint(SafepointOptions options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  CompactionReport nothing;
  if (!moving_) return nothing;
  const PoolUsage usage = GetUsage();
  // On the device.
  const uint64_t live_bytes =
      usage.live_bytes - std::min(usage.live_bytes, usage.spilled_bytes);
  const uint64_t waste_bytes =
      usage.used_bytes - std::min(usage.used_bytes, live_bytes);
  // No more than can be wasted, as a share may be any number.
  const double tolerated_share_bytes = std::min(
      static_cast<double>(usage.used_bytes),
      static_cast<double>(live_bytes) / 100 * options.tolerated_waste_percent);
  const uint64_t tolerated_bytes =
      std::max(options.tolerated_waste_bytes,
               static_cast<uint64_t>(tolerated_share_bytes));
  if (waste_bytes <= tolerated_bytes) {
    unrecoverable_bytes_.store(0, std::memory_order_relaxed);
    return nothing;
  }
  const uint64_t unrecoverable_bytes =
      unrecoverable_bytes_.load(std::memory_order_relaxed);
  if (unrecoverable_bytes > 0 &&
      waste_bytes <= unrecoverable_bytes + unrecoverable_bytes / 8) {
    return nothing;
  }
  CompactOptions pass;
  pass.max_duration = options.max_duration;
  pass.max_bytes = options.max_bytes;
  pass.wanted_granules =
      (waste_bytes - tolerated_bytes + usage.granule_bytes - 1) /
      usage.granule_bytes;
  const absl::StatusOr<CompactionReport> report = impl_->Compact(pass);
  if (report.ok()) {
    unrecoverable_bytes_.store(
        report->granules_recovered == 0 ? waste_bytes : 0,
        std::memory_order_relaxed);
  }
  return report;
}

absl::StatusOr<uint64_t> Pool::Trim(uint64_t keep_bytes) {
  return impl_->Trim(keep_bytes);
}

absl::Status Pool::BeginPool(GraphPoolId id,
                             absl::Span<const StreamHandle> streams) {
  return impl_->BeginPool(id, streams);
}

absl::Status Pool::EndPool(GraphPoolId id) { return impl_->EndPool(id); }

absl::Status Pool::ReleasePool(GraphPoolId id) {
  return impl_->ReleasePool(id);
}

PoolStats Pool::GetStats() const {
  PoolStats stats = impl_->GetStats();
  stats.moving = moving_;
  stats.moving_reason = moving_reason_;
  return stats;
}

std::vector<TagStats> Pool::GetTagStats() const { return impl_->GetTagStats(); }

PoolUsage Pool::GetUsage() const { return impl_->GetUsage(); }

FragmentationStats Pool::GetFragmentation() const {
  return impl_->GetFragmentation();
}

absl::StatusOr<uint64_t> Pool::Generation(const void* ptr) const {
  return impl_->Generation(ptr);
}

History Pool::GetHistory() const { return impl_->GetHistory(); }

MemorySnapshot Pool::TakeMemorySnapshot() const {
  MemorySnapshot snapshot = impl_->TakeMemorySnapshot();
  snapshot.history = impl_->GetHistory();
  AddStreams(&snapshot);
  return snapshot;
}

LaunchGate* Pool::launch_gate() { return impl_->launch_gate(); }

absl::Status Pool::CheckInvariants() const { return impl_->CheckInvariants(); }

LadderStats Pool::GetLadderStats() const {
  LadderStats stats = impl_->GetLadderStats();
  stats[static_cast<size_t>(Rung::kCallbacks)] = reclaimers_->stats();
  for (size_t i = 0; i < kRungCount; ++i) {
    stats[i].name = std::string(RungName(static_cast<Rung>(i)));
  }
  return stats;
}

}  // namespace firn
