// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/stream_queue.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace firn::cpu {

bool StreamOperation::CanRunAtOnce() const {
  return work.ready == nullptr &&
         std::all_of(waits_for.begin(), waits_for.end(),
                     [](const PointRef& wait) { return wait->complete; });
}

void Stream::Append(std::unique_ptr<StreamOperation> operation) {
  ++enqueued;
  queue.push_back(std::move(operation));
}

PointRef Stream::PointAtEnd() {
  PointRef& point = idle() ? last_point : queue.back()->point;
  if (point == nullptr) {
    point = std::make_shared<StreamPoint>();
    point->stream_id = identity.id;
    point->position = enqueued;
    point->complete = idle();
    if (point->complete) point->seen = seen;
  }
  return point;
}

WorkClock Stream::SeenByFirst() const {
  const StreamOperation& first = *queue.front();
  WorkClock clock = Join(seen, first.seen);
  for (const PointRef& point : first.waits_for) {
    clock = Join(Join(clock, point->seen), point->stream_id, point->position);
  }
  return clock;
}

void Stream::CompleteFirst(WorkClock first_saw) {
  ++completed;
  last_point = std::move(queue.front()->point);
  if (last_point != nullptr) {
    last_point->complete = true;
    last_point->seen = first_saw;
  }
  seen = std::move(first_saw);
  queue.pop_front();
}

bool Stream::IsParked() const {
  switch (head) {
    case OperationState::kNotStarted:
    case OperationState::kRuns:
      return false;
    case OperationState::kWaitsForCondition:
      return true;
    case OperationState::kWaitsInDriver:
    case OperationState::kWaitsForStream:
      break;
  }
  return std::any_of(head_waits_for->begin(), head_waits_for->end(),
                     [](const PointRef& point) { return !point->complete; });
}

const StreamOperation* Stream::FirstNotBegun() const {
  const bool first_began =
      head == OperationState::kRuns || head == OperationState::kWaitsInDriver;
  const size_t begun = first_began ? 1 : 0;
  if (queue.size() <= begun) return nullptr;
  const StreamOperation& first = *queue[begun];
  // Will see all that is complete once its condition holds, and so will what is
  // queued behind it.
  return first.work.ready != nullptr ? nullptr : &first;
}

bool Stream::IsImplicitlyAfter(const Stream& other) const {
  const StreamIdentity& a = other.identity;
  const StreamIdentity& b = identity;
  return &other != this && a.context.id == b.context.id && a.blocking &&
         b.blocking && (a.legacy || b.legacy);
}

}  // namespace firn::cpu
