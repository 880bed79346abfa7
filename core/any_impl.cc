// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/any_impl.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/core/graph_pools.h"
#include "firn/core/move_hook_list.h"
#include "firn/core/seen_streams.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/stream_tracker.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {

Pool::AnyImpl::AnyImpl(std::unique_ptr<EventRecorder> recorder)
    : recorder_(std::move(recorder)) {}
Pool::AnyImpl::~AnyImpl() = default;

History Pool::AnyImpl::GetHistory() const {
  return recorder_ != nullptr ? recorder_->Read() : History();
}

void Pool::AnyImpl::RecordTagged(HistoryKind kind, DevicePtr address,
                                 uint64_t bytes, StreamHandle stream,
                                 Tag tag) const {
  EventRecord record;
  record.kind = kind;
  record.tag = tag;
  record.address = address;
  record.bytes = bytes;
  record.stream = stream;
  recorder_->Record(record);
}

void Pool::AnyImpl::AddGateStats(const LaunchGate& gate, PoolStats* stats) {
  const LaunchGateStats figures = gate.stats();
  stats->gate_closings = figures.closings;
  stats->gate_timeouts = figures.timeouts;
  stats->gate_refusals = figures.refusals;
  stats->blocked_scopes = figures.blocked_scopes;
  stats->scope_tokens = figures.tokens_written;
  stats->device_waits = figures.device_waits;
  stats->unscoped_reports = figures.unscoped_reports;
}

absl::StatusOr<MoveHookRegistration> Pool::AnyImpl::Register(
    MoveHook hook, const std::shared_ptr<MoveHookList>& hooks) {
  if (!hook.before_move && !hook.after_move) {
    return absl::InvalidArgumentError(
        "hook: both before_move and after_move are empty; set one");
  }
  return MoveHookRegistration(hooks, hooks->Add(std::move(hook)));
}

absl::Status Pool::AnyImpl::PinnedError(const void* ptr,
                                        const std::string& reasons) {
  return absl::FailedPreconditionError(absl::StrCat(
      "ptr: the block at 0x", absl::Hex(reinterpret_cast<uintptr_t>(ptr)),
      " is pinned: ", reasons));
}

absl::Status Pool::AnyImpl::OwnedByGraphPool() {
  return absl::FailedPreconditionError(
      "ptr: belongs to a graph-private pool, whose graphs may be launched at "
      "any time");
}

absl::Status Pool::AnyImpl::CheckReason(absl::string_view reason) {
  if (!reason.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "reason: empty; say for whom the block is pinned");
}

absl::StatusOr<Pool::AnyImpl::GraphStreams> Pool::AnyImpl::IdentifyAll(
    absl::Span<const StreamHandle> streams, const SeenStreams& seen,
    StreamTracker* tracker) {
  GraphStreams result;
  for (const StreamHandle stream : streams) {
    const absl::StatusOr<StreamIdentity> identity = tracker->Identify(stream);
    if (!identity.ok()) {
      return absl::Status(
          identity.status().code(),
          absl::StrCat("streams: ", identity.status().message()));
    }
    const absl::StatusOr<bool> capturing = seen.IsCapturing(stream);
    if (!capturing.ok()) return capturing.status();
    result.ids.push_back(identity->id);
    result.is_capturing = result.is_capturing || *capturing;
  }
  return result;
}

absl::Status Pool::AnyImpl::OpenGraphPool(GraphPoolId id,
                                          absl::Span<const uint64_t> stream_ids,
                                          SeenStreams* seen,
                                          GraphPools* pools) {
  const absl::Status begun = pools->Begin(id, stream_ids, ThisThreadOrdinal());
  if (!begun.ok()) return begun;
  const absl::Status idle = seen->NoteMany();
  if (idle.ok()) return idle;
  pools->End(id).IgnoreError();
  pools->Release(id).IgnoreError();
  if (!absl::IsResourceExhausted(idle)) return idle;
  return absl::FailedPreconditionError(absl::StrCat(
      "BeginPool of graph-private pool ", static_cast<uint64_t>(id), ": ",
      idle.message(), "; call it before either begins"));
}

}  // namespace firn
