// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/stream_set.h"

#include <cstddef>
#include <utility>

#include "firn/vmm/cpu/unique_handle.h"

namespace firn::cpu {
namespace {

// CU_EVENT_BLOCKING_SYNC: how a host thread waits, of no concern here.
constexpr uint32_t kEventBlockingSync = 1;

thread_local bool in_host_function = false;

class HostFunctionScope {
 public:
  explicit HostFunctionScope(bool marked) : before_(in_host_function) {
    in_host_function = marked;
  }
  ~HostFunctionScope() { in_host_function = before_; }
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;

 private:
  const bool before_;
};

WorkQueuesOptions QueuesOptions(const StreamSetOptions& options) {
  WorkQueuesOptions queues;
  queues.inline_when_idle = options.inline_when_idle;
  queues.parked_timeout = options.parked_timeout;
  queues.stamp = options.stamp;
  queues.on_retired = options.on_retired;
  return queues;
}

Verdict BadStream() {
  return Refuse(DriverResult::kInvalidHandle,
                "a stream is one that was created and not destroyed since");
}
Verdict BadOwnStream() {
  return Refuse(DriverResult::kInvalidHandle,
                "work goes to a stream of this device that was created and not "
                "destroyed since");
}
Verdict BadEvent() {
  return Refuse(DriverResult::kInvalidHandle,
                "an event is one that was created and not destroyed since");
}
// Not an error, and no misuse.
Verdict ReadyIf(bool done) {
  return done ? Allow() : Refuse(DriverResult::kNotReady, nullptr);
}

}  // namespace

StreamSet::StreamSet(StreamSetOptions options)
    : defect_(options.defect),
      deadlock_timeout_(options.deadlock_timeout),
      is_lost_(options.is_lost),
      queues_(QueuesOptions(options)),
      captures_(&ongoing_captures_,
                options.defect == CpuDefect::kCaptureIgnoresForbiddenCalls) {
  MutexLock lock(queues_.mutex());
  for (int device = 0; device < options.device_count; ++device) {
    MakeContext(&contexts_[static_cast<size_t>(device)], device, device);
  }
}

StreamSet::~StreamSet() { queues_.Finish(); }

Verdict StreamSet::Create(int context, StreamHandle* stream, uint32_t flags) {
  if (stream == nullptr || (flags & ~kStreamNonBlocking) != 0) {
    return RefuseValue(
        "a stream is created with no flags but CU_STREAM_NON_BLOCKING, and its "
        "handle goes to where the pointer says");
  }
  StreamIdentity identity;
  identity.id = NextUniqueId();
  identity.blocking = (flags & kStreamNonBlocking) == 0;
  MutexLock lock(queues_.mutex());
  identity.context = Find(context).identity;
  const bool reuse =
      defect_ == CpuDefect::kStreamIdReused && last_destroyed_id_ != 0;
  *stream = MakeHandle<StreamHandle>(identity.id);
  streams_.emplace(
      *stream,
      queues_.AddStream(identity, reuse ? last_destroyed_id_ : identity.id));
  return Allow();
}

Verdict StreamSet::Destroy(StreamHandle handle) {
  // What a capture recorded goes without the lock.
  Nodes abandoned;
  MutexLock lock(queues_.mutex());
  const auto it = streams_.find(handle);
  if (it == streams_.end()) return BadStream();
  const StreamRef stream = it->second;
  const Verdict verdict = captures_.AdmitDestroy(stream->identity, &abandoned);
  if (!verdict.ok()) return verdict;
  last_destroyed_id_ = stream->shown_id;
  streams_.erase(it);
  queues_.Close(stream.get());
  return Allow();
}

Verdict StreamSet::Query(int context, StreamHandle handle) {
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = Find(context, handle);
  if (stream == nullptr) return BadStream();
  const Verdict verdict = captures_.AdmitStreamQuery(stream->identity);
  return verdict.ok() ? ReadyIf(queues_.QueryStream(stream.get())) : verdict;
}

Verdict StreamSet::Synchronize(int context, StreamHandle handle) {
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = Find(context, handle);
  if (stream == nullptr) return BadStream();
  const Verdict verdict = captures_.AdmitStreamQuery(stream->identity);
  if (verdict.ok()) queues_.WaitForStream(stream.get());
  return verdict;
}

Verdict StreamSet::GetId(int context, StreamHandle handle, uint64_t* id) {
  if (id == nullptr) return RefuseValue("the id goes to where a pointer says");
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = Find(context, handle);
  if (stream == nullptr) return BadStream();
  *id = stream->shown_id;
  return Allow();
}

Verdict StreamSet::GetContext(int context, StreamHandle handle, int* owner) {
  if (owner == nullptr) {
    return RefuseValue("the context's number goes to where a pointer says");
  }
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = Find(context, handle);
  if (stream == nullptr) return BadStream();
  *owner = stream->identity.context.id;
  return Allow();
}

Verdict StreamSet::IsCapturing(int context, StreamHandle handle,
                               CaptureStatus* status) {
  if (status == nullptr) {
    return RefuseValue("the status goes to where a pointer says");
  }
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = Find(context, handle);
  if (stream == nullptr) return BadStream();
  return captures_.GetStatus(stream->identity, status);
}

Verdict StreamSet::WaitEvent(int context, StreamHandle handle,
                             EventHandle event_handle, uint32_t flags) {
  if (flags != 0) return RefuseValue("a wait for an event has no flags");
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = FindOwn(context, handle);
  if (stream == nullptr) return BadOwnStream();
  const Event* const event = FindEvent(event_handle);
  if (event == nullptr) return BadEvent();
  Verdict verdict = captures_.AdmitUse(stream->identity);
  if (!verdict.ok()) return verdict;
  bool in_capture = false;
  verdict = captures_.WaitEvent(stream->identity, event->capture(),
                                event->point != nullptr, &in_capture);
  if (!verdict.ok() || in_capture || event->point == nullptr) return verdict;
  if (!queues_.AppendWait(stream.get(), event->point)) return NoThread();
  queues_.Kick(stream);
  return Allow();
}

Verdict StreamSet::EventCreate(int context, EventHandle* event,
                               uint32_t flags) {
  if (event == nullptr ||
      (flags & ~(kEventBlockingSync | kEventDisableTiming)) != 0) {
    return RefuseValue(
        "an event is created with no flags but CU_EVENT_BLOCKING_SYNC and "
        "CU_EVENT_DISABLE_TIMING, and its handle goes to where the pointer "
        "says");
  }
  MutexLock lock(queues_.mutex());
  *event = MakeHandle<EventHandle>(NextUniqueId());
  events_[*event].context = context;
  return Allow();
}

Verdict StreamSet::EventDestroy(EventHandle event) {
  MutexLock lock(queues_.mutex());
  return events_.erase(event) != 0 ? Allow() : BadEvent();
}

Verdict StreamSet::EventRecord(int context, EventHandle event_handle,
                               StreamHandle handle) {
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = FindOwn(context, handle);
  if (stream == nullptr) return BadOwnStream();
  Event* const event = FindEvent(event_handle);
  if (event == nullptr) return BadEvent();
  if (event->context != stream->identity.context.id) {
    return Refuse(DriverResult::kInvalidHandle,
                  "an event is recorded on a stream of its own context");
  }
  const Verdict verdict = captures_.AdmitUse(stream->identity);
  if (!verdict.ok()) return verdict;
  if (captures_.IsRecording(stream->identity.id)) {
    event->captured = captures_.RecordEvent(stream->identity.id);
    return Allow();
  }
  PointRef point = queues_.RecordPoint(stream.get());
  if (point == nullptr) return NoThread();
  event->captured.reset();
  event->point = std::move(point);
  queues_.Kick(stream);
  return Allow();
}

Verdict StreamSet::EventQuery(EventHandle handle) {
  MutexLock lock(queues_.mutex());
  const Event* const event = FindEvent(handle);
  if (event == nullptr) return BadEvent();
  const Verdict verdict = captures_.AdmitEventQuery(event->capture());
  if (!verdict.ok() || event->point == nullptr) return verdict;
  return ReadyIf(queues_.QueryPoint(event->point));
}

Verdict StreamSet::EventSynchronize(EventHandle handle) {
  MutexLock lock(queues_.mutex());
  const Event* const event = FindEvent(handle);
  if (event == nullptr) return BadEvent();
  const Verdict verdict = captures_.AdmitEventQuery(event->capture());
  if (!verdict.ok() || event->point == nullptr) return verdict;
  // A copy: the event may be recorded again or destroyed meanwhile.
  const PointRef point = event->point;
  queues_.WaitForPoint(point);
  return Allow();
}

Verdict StreamSet::SynchronizeContext(int context) {
  MutexLock lock(queues_.mutex());
  const Verdict verdict = captures_.AdmitContextWait(context);
  if (verdict.ok()) queues_.WaitForContext(context);
  return verdict;
}

Verdict StreamSet::SynchronizeDevice(int device) {
  const Verdict verdict = AdmitUnsafeCall();
  if (!verdict.ok()) return verdict;
  MutexLock lock(queues_.mutex());
  queues_.WaitForDevice(device);
  return verdict;
}

Verdict StreamSet::CheckStream(int context, StreamHandle stream) {
  if (stream == nullptr) return Allow();
  MutexLock lock(queues_.mutex());
  return FindOwn(context, stream) != nullptr ? Allow() : BadOwnStream();
}

Verdict StreamSet::Enqueue(int context, StreamHandle handle, StreamWork work) {
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = FindOwn(context, handle);
  return stream != nullptr ? EnqueueOn(stream, &work) : BadOwnStream();
}

Verdict StreamSet::EnqueueOn(const StreamRef& stream, StreamWork* work) {
  const Verdict verdict = captures_.AdmitUse(stream->identity);
  if (!verdict.ok()) return verdict;
  if (captures_.IsRecording(stream->identity.id)) {
    captures_.Record(stream->identity.id, std::move(*work));
    return Allow();
  }
  if (!queues_.Append(stream.get(), {work, 1})) return NoThread();
  queues_.Kick(stream);
  return Allow();
}

Verdict StreamSet::EnqueueHostFunction(int context, StreamHandle handle,
                                       HostFunction function, void* user_data) {
  if (function == nullptr) return RefuseValue("a host function is a function");
  const bool marked = defect_ != CpuDefect::kCallsInHostFunctionAllowed;
  StreamWork work;
  work.name = "host function";
  work.tells_host = true;
  work.never_inline = true;
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = FindOwn(context, handle);
  if (stream == nullptr) return BadOwnStream();
  const int device = stream->identity.context.device;
  work.run = [this, device, marked, function, user_data](const WorkOrder&) {
    if (is_lost_ != nullptr && is_lost_(device)) return;
    const HostFunctionScope scope(marked);
    function(user_data);
  };
  return EnqueueOn(stream, &work);
}

bool StreamSet::InHostFunction() { return in_host_function; }

Verdict StreamSet::AdmitUnsafeCallInCapture() {
  MutexLock lock(queues_.mutex());
  return captures_.AdmitUnsafeCall();
}

bool StreamSet::IsIdle() {
  MutexLock lock(queues_.mutex());
  return queues_.idle();
}

WorkInFlight StreamSet::GetWorkInFlight() {
  MutexLock lock(queues_.mutex());
  return queues_.in_flight();
}

std::string StreamSet::Drain() {
  MutexLock lock(queues_.mutex());
  return queues_.Drain(deadlock_timeout_);
}

std::string StreamSet::DrainParked() {
  MutexLock lock(queues_.mutex());
  std::string parked;
  // Work may have queued more.
  do {
    parked = queues_.Drain(absl::InfiniteDuration());
  } while (parked.empty() && !queues_.idle());
  return parked;
}

Verdict StreamSet::NoThread() {
  return Refuse(DriverResult::kOutOfMemory,
                "a stream is given work while the system can start the thread "
                "that works it off");
}

const StreamRef& StreamSet::Find(int context, StreamHandle handle) {
  if (handle == nullptr) return Find(context).legacy;
  const auto it = streams_.find(handle);
  return it == streams_.end() ? no_stream_ : it->second;
}

const StreamRef& StreamSet::FindOwn(int context, StreamHandle handle) {
  const StreamRef& stream = Find(context, handle);
  if (handle == nullptr || stream == nullptr) return stream;
  const bool own =
      stream->identity.context.device == Find(context).identity.device;
  return own ? stream : no_stream_;
}

StreamSet::Event* StreamSet::FindEvent(EventHandle handle) {
  const auto it = events_.find(handle);
  return it == events_.end() ? nullptr : &it->second;
}

}  // namespace firn::cpu
