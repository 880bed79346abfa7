// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/capture.h"

#include <algorithm>
#include <utility>

#include "firn/vmm/cpu/unique_handle.h"

namespace firn::cpu {
namespace {

thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

// Unlike the system's ids, never used again.
uint64_t ThisThread() {
  thread_local const uint64_t id = NextUniqueId();
  return id;
}

bool IsMode(CaptureMode mode) {
  return mode == CaptureMode::kGlobal || mode == CaptureMode::kThreadLocal ||
         mode == CaptureMode::kRelaxed;
}

void Extend(SeenWork* reach, uint64_t stream_id, uint64_t count) {
  uint64_t& known = (*reach)[stream_id];
  known = std::max(known, count);
}

constexpr char kInvalidatedRule[] =
    "a stream of an invalidated capture is used again after the capture was "
    "ended on the stream where it began";

}  // namespace

CaptureBook::CaptureBook(std::atomic<int>* ongoing,
                         bool ignores_forbidden_calls)
    : ongoing_(ongoing), ignores_forbidden_calls_(ignores_forbidden_calls) {}

Verdict CaptureBook::ExchangeThreadMode(CaptureMode* mode) {
  if (mode == nullptr || !IsMode(*mode)) {
    return RefuseValue("a capture mode is global, thread-local or relaxed");
  }
  std::swap(*mode, thread_mode);
  return Allow();
}

Verdict CaptureBook::Begin(const StreamIdentity& stream, CaptureMode mode) {
  if (!IsMode(mode)) {
    return RefuseValue("a capture mode is global, thread-local or relaxed");
  }
  if (stream.legacy) {
    return Refuse(DriverResult::kStreamCaptureUnsupported,
                  "the legacy default stream cannot be captured");
  }
  const Verdict use = AdmitUse(stream);
  if (!use.ok()) return use;
  if (FindByStream(stream.id) != nullptr) {
    return Refuse(DriverResult::kIllegalState,
                  "a capture begins on a stream that is not captured yet");
  }
  const uint64_t capture_id = NextUniqueId();
  auto capture = std::make_unique<Capture>();
  capture->mode = mode;
  capture->thread = ThisThread();
  capture->origin_id = stream.id;
  captures_.emplace(capture_id, std::move(capture));
  AddMember(capture_id, stream);
  ongoing_->fetch_add(1, std::memory_order_relaxed);
  return Allow();
}

Verdict CaptureBook::End(const StreamIdentity& stream,
                         std::vector<StreamWork>* nodes) {
  Capture* const capture = FindByStream(stream.id);
  if (capture == nullptr) {
    return Refuse(DriverResult::kIllegalState,
                  "a capture ends on a stream that is captured");
  }
  if (capture->origin_id != stream.id) {
    return Refuse(DriverResult::kStreamCaptureUnmatched,
                  "a capture ends on the stream where it began");
  }
  if (capture->mode != CaptureMode::kRelaxed &&
      capture->thread != ThisThread()) {
    return Refuse(DriverResult::kStreamCaptureWrongThread,
                  "a capture that is not relaxed ends on the thread that began "
                  "it");
  }
  Verdict verdict = Allow();
  if (capture->invalidated) {
    verdict = Refuse(DriverResult::kStreamCaptureInvalidated,
                     "only a capture during which no call was refused makes a "
                     "graph");
  } else {
    SeenWork reach = capture->members[stream.id].reach;
    for (const auto& [id, member] : capture->members) {
      if (id == stream.id || reach[id] >= member.count) continue;
      verdict = Refuse(DriverResult::kStreamCaptureUnjoined,
                       "every stream that joined a capture is waited for by "
                       "the stream where it began before it ends");
      break;
    }
  }
  *nodes = std::move(capture->nodes);
  Erase(capture_ids_[stream.id]);
  return verdict;
}

Verdict CaptureBook::GetStatus(const StreamIdentity& stream,
                               CaptureStatus* status) const {
  *status = CaptureStatus::kNone;
  if (stream.legacy) {
    for (const auto& [id, capture] : captures_) {
      for (const auto& [member_id, member] : capture->members) {
        if (!member.stream.blocking ||
            member.stream.context.id != stream.context.id) {
          continue;
        }
        return Refuse(DriverResult::kStreamCaptureImplicit,
                      "the legacy default stream is not asked while a blocking "
                      "stream of its context is captured");
      }
    }
    return Allow();
  }
  const Capture* const capture = FindByStream(stream.id);
  if (capture != nullptr) {
    *status = capture->invalidated ? CaptureStatus::kInvalidated
                                   : CaptureStatus::kActive;
  }
  return Allow();
}

Verdict CaptureBook::AdmitUse(const StreamIdentity& stream) {
  if (captures_.empty()) return Allow();
  if (stream.legacy) {
    return RefuseFor(
        [&](const Capture& capture) {
          return std::any_of(capture.members.begin(), capture.members.end(),
                             [&](const auto& entry) {
                               const StreamIdentity& member =
                                   entry.second.stream;
                               return member.blocking &&
                                      member.context.id == stream.context.id;
                             });
        },
        DriverResult::kStreamCaptureImplicit,
        "the legacy default stream is not used while a blocking stream of its "
        "context is captured");
  }
  const Capture* const capture = FindByStream(stream.id);
  if (capture != nullptr && capture->invalidated) {
    return Refuse(DriverResult::kStreamCaptureInvalidated, kInvalidatedRule);
  }
  return Allow();
}

Verdict CaptureBook::AdmitStreamQuery(const StreamIdentity& stream) {
  if (captures_.empty()) return Allow();
  const Verdict use = AdmitUse(stream);
  if (!use.ok()) return use;
  Capture* const capture = FindByStream(stream.id);
  if (capture != nullptr) {
    return Forbid(DriverResult::kStreamCaptureUnsupported,
                  "a stream is not waited for and not asked whether it is done "
                  "while it is captured",
                  capture);
  }
  return AdmitUnsafeCall();
}

Verdict CaptureBook::AdmitEventQuery(const CapturedPoint* captured) {
  if (captured != nullptr) {
    return Forbid(DriverResult::kCapturedEvent,
                  "an event last recorded in a capture is not waited for and "
                  "not asked whether it is done",
                  FindById(captured->capture_id));
  }
  return AdmitUnsafeCall();
}

Verdict CaptureBook::AdmitContextWait(int context) {
  if (captures_.empty()) return Allow();
  const Verdict wait = RefuseFor(
      [&](const Capture& capture) {
        return std::any_of(capture.members.begin(), capture.members.end(),
                           [&](const auto& entry) {
                             return entry.second.stream.context.id == context;
                           });
      },
      DriverResult::kStreamCaptureUnsupported,
      "a context is not waited for while a stream of it is captured");
  return wait.ok() ? AdmitUnsafeCall() : wait;
}

Verdict CaptureBook::AdmitUnsafeCall() {
  if (captures_.empty() || thread_mode == CaptureMode::kRelaxed) return Allow();
  const uint64_t thread = ThisThread();
  return RefuseFor(
      [&](const Capture& capture) {
        if (capture.thread == thread) {
          return capture.mode != CaptureMode::kRelaxed;
        }
        return thread_mode == CaptureMode::kGlobal &&
               capture.mode == CaptureMode::kGlobal;
      },
      DriverResult::kStreamCaptureUnsupported,
      "a potentially unsafe call is made while no capture forbids it: none of "
      "this thread's that is not relaxed, none of another thread's that is "
      "global");
}

Verdict CaptureBook::AdmitUncapturable(const StreamIdentity& stream) {
  const Verdict use = AdmitUse(stream);
  Capture* const capture = FindByStream(stream.id);
  if (!use.ok() || capture == nullptr) return use;
  return Forbid(DriverResult::kStreamCaptureUnsupported,
                "a graph is launched on a stream that is not captured",
                capture);
}

Verdict CaptureBook::AdmitDestroy(const StreamIdentity& stream,
                                  std::vector<StreamWork>* nodes) {
  Capture* const capture = FindByStream(stream.id);
  if (capture == nullptr) return Allow();
  if (!capture->invalidated) {
    const Verdict verdict =
        Forbid(DriverResult::kStreamCaptureUnsupported,
               "a stream is destroyed after its capture was ended", capture);
    if (!verdict.ok()) return verdict;
  }
  // Nothing can come of the capture any more, and cleaning up after it must be
  // possible without an end.
  Remove(stream, nodes);
  return Allow();
}

void CaptureBook::Abandon(const StreamIdentity& stream,
                          std::vector<StreamWork>* nodes) {
  Capture* const capture = FindByStream(stream.id);
  if (capture == nullptr) return;
  capture->invalidated = true;
  Remove(stream, nodes);
}

void CaptureBook::Remove(const StreamIdentity& stream,
                         std::vector<StreamWork>* nodes) {
  Capture* const capture = FindByStream(stream.id);
  if (capture->origin_id == stream.id) {
    *nodes = std::move(capture->nodes);
    Erase(capture_ids_[stream.id]);
  } else {
    capture->members.erase(stream.id);
    capture_ids_.erase(stream.id);
  }
}

bool CaptureBook::IsRecording(uint64_t stream_id) const {
  return FindByStream(stream_id) != nullptr;
}

void CaptureBook::Record(uint64_t stream_id, StreamWork work) {
  Capture* const capture = FindByStream(stream_id);
  ++capture->members[stream_id].count;
  capture->nodes.push_back(std::move(work));
}

CapturedPoint CaptureBook::RecordEvent(uint64_t stream_id) {
  const Member& member = FindByStream(stream_id)->members[stream_id];
  CapturedPoint point;
  point.capture_id = capture_ids_[stream_id];
  point.reach = member.reach;
  Extend(&point.reach, stream_id, member.count);
  return point;
}

Verdict CaptureBook::WaitEvent(const StreamIdentity& stream,
                               const CapturedPoint* captured,
                               bool ever_recorded, bool* in_capture) {
  Capture* const own = FindByStream(stream.id);
  *in_capture = own != nullptr;
  if (captured == nullptr) {
    if (own == nullptr || !ever_recorded) return Allow();
    return Forbid(DriverResult::kStreamCaptureIsolation,
                  "a captured stream waits only for events recorded in its own "
                  "capture",
                  own);
  }
  Capture* const capture = FindById(captured->capture_id);
  if (capture == nullptr) {
    return Forbid(DriverResult::kStreamCaptureIsolation,
                  "an event recorded in a capture is waited for only before "
                  "the capture ends",
                  own);
  }
  if (own != nullptr && own != capture) {
    return Forbid(DriverResult::kStreamCaptureMerge,
                  "a stream of one capture does not wait for an event of "
                  "another",
                  own, capture);
  }
  if (capture->invalidated) {
    return Refuse(DriverResult::kStreamCaptureInvalidated, kInvalidatedRule);
  }
  if (stream.legacy) {
    return Forbid(DriverResult::kStreamCaptureUnsupported,
                  "the legacy default stream does not wait for an event of a "
                  "capture",
                  capture);
  }
  if (own == nullptr) AddMember(captured->capture_id, stream);
  *in_capture = true;
  // Counted as work is, so that a fork without any work has to be joined too.
  Member& member = capture->members[stream.id];
  ++member.count;
  for (const auto& [id, count] : captured->reach) {
    Extend(&member.reach, id, count);
  }
  return Allow();
}

CaptureBook::Capture* CaptureBook::FindByStream(uint64_t stream_id) const {
  if (captures_.empty()) return nullptr;
  const auto it = capture_ids_.find(stream_id);
  return it == capture_ids_.end() ? nullptr : FindById(it->second);
}

CaptureBook::Capture* CaptureBook::FindById(uint64_t capture_id) const {
  const auto it = captures_.find(capture_id);
  return it == captures_.end() ? nullptr : it->second.get();
}

void CaptureBook::AddMember(uint64_t capture_id, const StreamIdentity& stream) {
  captures_[capture_id]->members[stream.id].stream = stream;
  capture_ids_[stream.id] = capture_id;
}

void CaptureBook::Erase(uint64_t capture_id) {
  for (const auto& [id, member] : captures_[capture_id]->members) {
    capture_ids_.erase(id);
  }
  captures_.erase(capture_id);
  ongoing_->fetch_sub(1, std::memory_order_relaxed);
}

Verdict CaptureBook::RefuseFor(
    absl::FunctionRef<bool(const Capture&)> conflicts, DriverResult result,
    const char* rule) {
  Verdict verdict = Allow();
  for (const auto& [id, capture] : captures_) {
    if (conflicts(*capture)) verdict = Forbid(result, rule, capture.get());
  }
  return verdict;
}

Verdict CaptureBook::Forbid(DriverResult result, const char* rule,
                            Capture* first, Capture* second) const {
  if (ignores_forbidden_calls_) return Allow();
  if (first != nullptr) first->invalidated = true;
  if (second != nullptr) second->invalidated = true;
  return Refuse(result, rule);
}

}  // namespace firn::cpu
