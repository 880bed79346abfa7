// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of StreamSet that makes and ends contexts.

#include <cstddef>
#include <vector>

#include "firn/vmm/cpu/stream_set.h"
#include "firn/vmm/cpu/unique_handle.h"

namespace firn::cpu {

void StreamSet::MakeContext(Context* context, int id, int device) {
  context->identity.id = id;
  context->identity.device = device;
  StreamIdentity identity;
  identity.id = NextUniqueId();
  identity.context = context->identity;
  identity.legacy = true;
  context->legacy = queues_.AddStream(identity, identity.id);
}

absl::optional<int> StreamSet::CreateContext(int device) {
  MutexLock lock(queues_.mutex());
  for (size_t place = 0; place < contexts_.size(); ++place) {
    Context& context = contexts_[place];
    if (context.legacy != nullptr) continue;
    // The next number of this place: its first, or the one after that of the
    // context that was here.
    const int id = context.identity.id == StreamContext::kNone
                       ? static_cast<int>(place)
                       : context.identity.id + kMaxContexts;
    MakeContext(&context, id, device);
    return id;
  }
  return absl::nullopt;
}

void StreamSet::DestroyContext(int context) {
  // What captures recorded goes without the lock.
  std::vector<Nodes> abandoned;
  MutexLock lock(queues_.mutex());
  std::vector<StreamRef> streams;
  for (auto it = streams_.begin(); it != streams_.end();) {
    const auto current = it++;
    const StreamRef& stream = current->second;
    if (stream->identity.context.id != context) continue;
    abandoned.emplace_back();
    captures_.Abandon(stream->identity, &abandoned.back());
    streams.push_back(stream);
    streams_.erase(current);
  }
  for (auto it = events_.begin(); it != events_.end();) {
    const auto current = it++;
    if (current->second.context == context) events_.erase(current);
  }
  // Nothing can be queued any more.
  queues_.WaitForContext(context);
  Context& place = contexts_[static_cast<size_t>(context % kMaxContexts)];
  streams.push_back(place.legacy);
  place.legacy = nullptr;
  for (const StreamRef& stream : streams) queues_.Close(stream.get());
}

}  // namespace firn::cpu
