// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Captures and graph-private pools where memory never moves: as in
// core/pool_graphs.cc, with blocks named by their numbers.

#include <optional>

#include "absl/strings/str_cat.h"
#include "firn/core/fixed_impl.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {

absl::Status Pool::FixedImpl::BeginPool(
    GraphPoolId id, absl::Span<const StreamHandle> streams) {
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  const absl::StatusOr<GraphStreams> named =
      IdentifyAll(streams, streams_, tracker_.get());
  if (!named.ok()) return named.status();
  may_wait_ = !is_inside && !named->is_capturing && !graph_pools_.any_open();
  return OpenGraphPool(id, named->ids, &streams_, &graph_pools_);
}

absl::Status Pool::FixedImpl::EndPool(GraphPoolId id) {
  MutexLock lock(&mutex_);
  return graph_pools_.End(id);
}

absl::Status Pool::FixedImpl::ReleasePool(GraphPoolId id) {
  MutexLock lock(&mutex_);
  return graph_pools_.Release(id);
}

absl::StatusOr<bool> Pool::FixedImpl::IsInCapture(StreamHandle stream) const {
  if (graph_pools_.any_open()) return true;
  return streams_.IsCapturing(stream);
}

bool Pool::FixedImpl::MayCallBack(StreamHandle stream) const {
  MutexLock lock(&mutex_);
  const absl::StatusOr<bool> in_capture = IsInCapture(stream);
  return !gate_.ThisThreadIsInside() && in_capture.ok() && !*in_capture;
}

bool Pool::FixedImpl::MayNoteWait(StreamHandle stream) const {
  if (streams_.are_many()) return true;  // for nothing
  const absl::StatusOr<bool> in_capture = IsInCapture(stream);
  return in_capture.ok() && !*in_capture;
}

absl::Status Pool::FixedImpl::ExplainCapture(
    const absl::Status& failure) const {
  if (!absl::IsResourceExhausted(failure)) return failure;
  return absl::ResourceExhaustedError(absl::StrCat(
      failure.message(), " Nothing could be waited for because of a capture: ",
      graph_pools_.any_open()
          ? absl::StrCat(graph_pools_.OpenPools(), " is open.")
          : "the stream is capturing."));
}

absl::Status Pool::FixedImpl::SetGraphOwner(StreamHandle stream,
                                            Request* request) {
  if (!graph_pools_.any_open()) return absl::OkStatus();
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  request->graph_owner =
      graph_pools_.OwnerFor(identity->id, ThisThreadOrdinal());
  return absl::OkStatus();
}

std::optional<Pool::FixedImpl::BlockNumber> Pool::FixedImpl::TakeKept(
    const Request& request) {
  if (!request.graph_owner.has_value()) return std::nullopt;
  const std::optional<BlockStart> start = graph_pools_.Take(
      *request.graph_owner, /*arena=*/0, BytesToQuanta(request.bytes),
      QuantaToBytes(request.alignment_quanta), request.bytes);
  if (!start.has_value()) return std::nullopt;
  const BlockNumber block = start->vg.value();
  pending_.erase(block);
  heap_.SetRequestedBytes(block, request.bytes);
  return block;
}

void Pool::FixedImpl::AddGraphBlock(const Request& request, BlockNumber block) {
  if (!request.graph_owner.has_value() || graph_pools_.Owns(block)) return;
  graph_pools_.Add(request.graph_owner->pool, block, request.bytes);
}

absl::Status Pool::FixedImpl::FreeInGraphPool(BlockNumber block, uint64_t bytes,
                                              StreamHandle stream) {
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  FreedBlock freed;
  freed.start.vg = VgIndex(block);
  freed.bytes = bytes;
  freed.quanta = BytesToQuanta(bytes);
  graph_pools_.Keep(block, freed, heap_.AddressOf(block), identity->id);
  pending_.insert(block);
  // All work is waited for before the block is anybody else's.
  uses_.erase(block);
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::RecordGraphUse(BlockNumber block,
                                             StreamHandle stream) {
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (token.ok()) {
    AddUse(*token, &uses_[block]);
  } else if (!absl::IsFailedPrecondition(token.status())) {
    return token.status();
  }
  graph_pools_.NoteUse(block, identity->id);
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::ReleaseRetired() {
  if (!graph_pools_.has_retired()) return absl::OkStatus();
  const absl::Status idle =
      ToStatus(driver_->CtxSynchronize(), "cuCtxSynchronize", driver_->loss());
  if (!idle.ok()) return idle;
  for (const BlockStart start : graph_pools_.TakeRetired()) {
    pending_.erase(start.vg.value());
    heap_.Free(start.vg.value());
  }
  return absl::OkStatus();
}

absl::Status Pool::FixedImpl::CheckGraphPools() const {
  return graph_pools_.CheckInvariants(
      [this](const FreedBlock& block) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const BlockNumber number = block.start.vg.value();
        return heap_.RequestedBytes(number) == block.bytes &&
               pending_.contains(number);
      });
}

}  // namespace firn
