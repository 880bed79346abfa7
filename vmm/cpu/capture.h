// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The captures that are going on: which streams take part, what they recorded,
// and which calls they forbid. Pure bookkeeping about streams named by id.

#ifndef FIRN_VMM_CPU_CAPTURE_H_
#define FIRN_VMM_CPU_CAPTURE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "firn/vmm/cpu/stream_identity.h"
#include "firn/vmm/cpu/stream_work.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/cpu/work_order.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Where a captured event stands: how far into which streams of its capture.
struct CapturedPoint {
  uint64_t capture_id = 0;
  SeenWork reach;
};

// A capture begins on its origin. Streams that wait for an event recorded in it
// become members as well (a fork), and have to be waited for (a join) before it
// ends. A capture that is invalidated goes on until it is ended or its origin
// is destroyed, and still forbids what it forbade.
//
// Thread safety: none, but that the count of captures may be read at any time.
class CaptureBook {
 public:
  // `ongoing` is kept at the number of captures. With `ignores_forbidden_calls`
  // what would be refused and would invalidate does neither.
  CaptureBook(std::atomic<int>* ongoing, bool ignores_forbidden_calls);

  // Gives the calling thread the mode `*mode`, and `*mode` the one it had.
  static Verdict ExchangeThreadMode(CaptureMode* mode);

  Verdict Begin(const StreamIdentity& stream, CaptureMode mode);
  // Where the capture ends, with an error or without, `nodes` receives what it
  // recorded: to go into a graph, or just to go.
  Verdict End(const StreamIdentity& stream, std::vector<StreamWork>* nodes);
  Verdict GetStatus(const StreamIdentity& stream, CaptureStatus* status) const;

  // --- What is asked before a call does anything else ---

  // Of work queued on `stream`, and all else that takes a place in it.
  Verdict AdmitUse(const StreamIdentity& stream);
  // Of a wait for `stream`, or a question whether it is done.
  Verdict AdmitStreamQuery(const StreamIdentity& stream);
  // Of a wait for an event, or a question; nullptr unless its last record was
  // captured.
  Verdict AdmitEventQuery(const CapturedPoint* captured);
  Verdict AdmitContextWait(int context);
  // Of a call that depends on no stream, but that a replay would not repeat.
  Verdict AdmitUnsafeCall();
  // Of a call that has no form as a node.
  Verdict AdmitUncapturable(const StreamIdentity& stream);
  // Of the end of `stream`; `nodes` as for End.
  Verdict AdmitDestroy(const StreamIdentity& stream,
                       std::vector<StreamWork>* nodes);
  // The stream ends, whatever it takes part in; `nodes` as for End.
  void Abandon(const StreamIdentity& stream, std::vector<StreamWork>* nodes);

  // --- Calls on the streams of captures, after AdmitUse ---

  // Whether work on the stream is recorded, not run.
  bool IsRecording(uint64_t stream_id) const;
  void Record(uint64_t stream_id, StreamWork work);
  CapturedPoint RecordEvent(uint64_t stream_id);
  // A wait for an event, whose last record was `captured` or, with nullptr,
  // outside of all captures, if it was ever recorded. `in_capture` receives
  // whether that was all: if not, the wait is one outside of all captures.
  Verdict WaitEvent(const StreamIdentity& stream, const CapturedPoint* captured,
                    bool ever_recorded, bool* in_capture);

 private:
  struct Member {
    StreamIdentity stream;
    // Work and waits on it so far.
    uint64_t count = 0;
    // What of other members comes before what comes next here.
    SeenWork reach;
  };
  struct Capture {
    CaptureMode mode = CaptureMode::kGlobal;
    uint64_t thread = 0;
    uint64_t origin_id = 0;
    bool invalidated = false;
    absl::flat_hash_map<uint64_t, Member> members;
    std::vector<StreamWork> nodes;
  };

  // nullptr if there is none.
  Capture* FindByStream(uint64_t stream_id) const;
  Capture* FindById(uint64_t capture_id) const;
  void AddMember(uint64_t capture_id, const StreamIdentity& stream);
  void Erase(uint64_t capture_id);
  // Takes the stream out of its capture; where that ends the capture, moves
  // what it recorded to `nodes`.
  void Remove(const StreamIdentity& stream, std::vector<StreamWork>* nodes);
  // Invalidates the captures that `conflicts` holds for, and refuses; allows
  // if there are none.
  Verdict RefuseFor(absl::FunctionRef<bool(const Capture&)> conflicts,
                    DriverResult result, const char* rule);
  // A refusal that invalidates no capture or those given.
  Verdict Forbid(DriverResult result, const char* rule,
                 Capture* first = nullptr, Capture* second = nullptr) const;

  std::atomic<int>* const ongoing_;
  const bool ignores_forbidden_calls_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Capture>> captures_;
  // Streams to captures.
  absl::flat_hash_map<uint64_t, uint64_t> capture_ids_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_CAPTURE_H_
