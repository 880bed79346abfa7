// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Captures and graph-private pools. While one of these is open, a stream may be
// capturing at any time: nothing is waited for or moved then, by no thread, as
// waiting for a device breaks its captures. What was freed in such a pool stays
// in its place, as if it were live (I12), and is no longer on record elsewhere:
// neither in the caches, as all blocks of graph-private pools are marked, nor
// in the queue of those whose stream is not done.
//
// Graphs may be launched on any stream. So once the first pool is opened,
// memory that was freed on a stream reaches a graph only when that stream is
// done with it: streams are many from then on, whatever calls have named.

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/pool_impl.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {

// --- Pools ---

absl::Status Pool::Impl::BeginPool(GraphPoolId id,
                                   absl::Span<const StreamHandle> streams) {
  if (hooks_->ThisThreadIsInside()) {
    return absl::FailedPreconditionError(
        "BeginPool: the calling thread is inside a move hook of this pool");
  }
  const bool is_inside = gate_.ThisThreadIsInside();
  // A pass that goes on lets go of the other lock now and then.
  MutexLock pass(&pass_mutex_);
  MutexLock lock(&mutex_);
  const absl::StatusOr<GraphStreams> named =
      IdentifyAll(streams, streams_, tracker_.get());
  if (!named.ok()) return named.status();
  may_wait_ = !is_inside && !named->is_capturing && !graph_pools_.any_open();
  const absl::Status opened =
      OpenGraphPool(id, named->ids, &streams_, &graph_pools_);
  if (opened.ok()) {
    has_open_graph_pool_.store(true, std::memory_order_relaxed);
  }
  return opened;
}

absl::Status Pool::Impl::EndPool(GraphPoolId id) {
  MutexLock lock(&mutex_);
  const absl::Status ended = graph_pools_.End(id);
  has_open_graph_pool_.store(graph_pools_.any_open(),
                             std::memory_order_relaxed);
  return ended;
}

absl::Status Pool::Impl::ReleasePool(GraphPoolId id) {
  MutexLock lock(&mutex_);
  return graph_pools_.Release(id);
}

// --- Captures ---

absl::Status Pool::Impl::EnterCall(
    StreamHandle stream, bool is_inside,
    std::optional<ScopedRelaxedCapture>* relaxed) {
  bool is_capture = graph_pools_.any_open();
  // The default stream captures nothing.
  may_wait_ = !is_inside && !is_capture && stream == nullptr;
  if (!is_capture) {
    if (stream == nullptr) return absl::OkStatus();
    const absl::StatusOr<bool> capturing = streams_.IsCapturing(stream);
    if (!capturing.ok()) return capturing.status();
    is_capture = *capturing;
  }
  may_wait_ = !is_inside && !is_capture;
  if (!is_capture) return absl::OkStatus();
  relaxed->emplace(driver_);
  return (*relaxed)->status();
}

bool Pool::Impl::MayNoteWait(StreamHandle stream) const {
  // Waits for nothing, or the default stream, which captures nothing.
  if (streams_.are_many() || stream == nullptr) return true;
  const absl::StatusOr<bool> capturing = streams_.IsCapturing(stream);
  return capturing.ok() && !*capturing;
}

bool Pool::Impl::MayCallBack(StreamHandle stream) const {
  if (gate_.ThisThreadIsInside() || hooks_->ThisThreadIsInside() ||
      has_open_graph_pool_.load(std::memory_order_relaxed)) {
    return false;
  }
  // The default stream captures nothing.
  if (stream == nullptr) return true;
  const absl::StatusOr<bool> capturing = streams_.IsCapturing(stream);
  return capturing.ok() && !*capturing;
}

absl::Status Pool::Impl::ExplainCapture(const absl::Status& failure) const {
  if (!absl::IsResourceExhausted(failure)) return failure;
  return absl::ResourceExhaustedError(absl::StrCat(
      failure.message(),
      " Nothing could be waited for or moved because of a capture: ",
      graph_pools_.any_open()
          ? absl::StrCat(graph_pools_.OpenPools(), " is open.")
          : "the stream is capturing."));
}

absl::Status Pool::Impl::RefuseOpenGraphPools() const {
  if (!graph_pools_.any_open()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("nothing moves while a graph-private pool is open: ",
                   graph_pools_.OpenPools(), "; call EndPool first"));
}

// --- Their blocks ---

absl::Status Pool::Impl::SetGraphOwner(StreamHandle stream, Request* request) {
  if (!graph_pools_.any_open()) return absl::OkStatus();
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  request->graph_owner =
      graph_pools_.OwnerFor(identity->id, ThisThreadOrdinal());
  return absl::OkStatus();
}

std::optional<BlockStart> Pool::Impl::TakeKept(const Request& request) {
  // Others may hold on to it (I13).
  if (arenas_[request.arena]->is_exportable()) return std::nullopt;
  const uint64_t quanta =
      IsSmall(request) ? ShapeOf(request).quanta : request.quanta;
  const std::optional<BlockStart> start =
      graph_pools_.Take(*request.graph_owner, request.arena, quanta,
                        QuantaToBytes(request.alignment_quanta), request.bytes);
  if (start.has_value()) {
    FreedBlock block;
    block.start = *start;
    block.bytes = request.bytes;
    SetLive(block);
  }
  return start;
}

void Pool::Impl::AddGraphBlock(const Request& request, BlockStart start) {
  if (!MarkBlock(start) || graph_pools_.Owns(UseKey(start))) return;
  graph_pools_.Add(request.graph_owner->pool, UseKey(start), request.bytes);
}

absl::Status Pool::Impl::FreeInGraphPool(BlockStart start,
                                         StreamHandle stream) {
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  FreedBlock block;
  block.start = start;
  block.bytes = SetPending(start);
  if (block.bytes == 0) return NoBlockAt(AddressOf(start));
  block.quanta = ExtentQuanta(start, block.bytes);
  block.arena = VgAt(start.vg).arena;
  graph_pools_.Keep(UseKey(start), block, AddressOf(start), identity->id);
  // All work is waited for before the block is anybody else's.
  uses_.erase(UseKey(start));
  Record(HistoryKind::kFree, AddressOf(start), block.bytes, stream);
  NoteFreed(block);
  return absl::OkStatus();
}

absl::Status Pool::Impl::RecordGraphUse(BlockStart start, StreamHandle stream) {
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  // For when the block is freed after its pool is gone. A capturing stream gets
  // no token: what it does is done by the graph.
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (token.ok()) {
    AddUse(*token, &uses_[UseKey(start)]);
  } else if (!absl::IsFailedPrecondition(token.status())) {
    return token.status();
  }
  graph_pools_.NoteUse(UseKey(start), identity->id);
  return absl::OkStatus();
}

bool Pool::Impl::ReleaseRetired() {
  if (!graph_pools_.has_retired()) return false;
  for (const BlockStart start : graph_pools_.TakeRetired()) Release(start);
  // Large ones are parked by that.
  DissolveParked();
  return true;
}

bool Pool::Impl::HoldsPlace(const FreedBlock& block) const {
  switch (VgAt(block.start.vg).role) {
    case VgRole::kWindow: {
      const SlotDirectory::Slot slot =
          slots_.Find(block.start.vg, block.start.offset_quanta);
      if (slot.cell == nullptr) return false;
      const SlotContents contents =
          UnpackSlot(slot.cell->load(std::memory_order_relaxed));
      return contents.state == BlockState::kPending &&
             contents.epoch == slot.epoch;
    }
    case VgRole::kRemainder:
    case VgRole::kInterior:
    case VgRole::kPlaced:
      // Nothing is parked while this is asked.
      return RequestedBytes(block.start) == 0;
    default:
      return false;
  }
}

absl::Status Pool::Impl::CheckGraphPools() const {
  return graph_pools_.CheckInvariants(
      [this](const FreedBlock& block)
          ABSL_NO_THREAD_SAFETY_ANALYSIS { return HoldsPlace(block); });
}

}  // namespace firn
