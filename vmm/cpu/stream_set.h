// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contexts of all devices of one driver, with their streams, events and
// graphs: the calls of vmm/driver.h on them, with their rules. What the work
// does is unknown here.

#ifndef FIRN_VMM_CPU_STREAM_SET_H_
#define FIRN_VMM_CPU_STREAM_SET_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "firn/vmm/cpu/capture.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "firn/vmm/cpu/stream_identity.h"
#include "firn/vmm/cpu/stream_queue.h"
#include "firn/vmm/cpu/stream_work.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/cpu/work_in_flight.h"
#include "firn/vmm/cpu/work_queues.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

struct StreamSetOptions {
  int device_count = 1;
  // Work on an idle stream that has nothing to wait for is run by the calling
  // thread at once and leaves the stream idle. No thread is started until some
  // work has to wait. Work with `ready` or `never_inline` set is always queued.
  bool inline_when_idle = false;
  // Drain: how long nothing may happen while everything waits, and how long
  // none of what it waits for may end while something runs.
  absl::Duration parked_timeout = absl::Milliseconds(500);
  absl::Duration deadlock_timeout = absl::Seconds(10);
  // Called whenever work is queued, and by each launch of a graph again; the
  // work is told what it returned. Called with the lock of the streams held,
  // and so is the next: both must be short, and call nothing of this class.
  std::function<uint64_t()> stamp;
  // No clock mentions that stream any more: it is destroyed, and all work to
  // come is ordered after all of its. The latter is taken for granted of the
  // oldest, if many were destroyed whose end the host never saw.
  std::function<void(uint64_t stream_id)> on_retired;
  // Whether host functions queued for that device are not called any more; may
  // be empty. Called by workers, without the lock.
  std::function<bool(int device)> is_lost;
  CpuDefect defect = CpuDefect::kNone;
};

// Order between streams is CUDA's: none, but what events make, and but for the
// legacy default stream of each context (nullptr). What is queued there waits
// for all work queued before on streams of the context that are not
// kStreamNonBlocking, and what is queued on those later waits for it.
//
// `context` is the one that the call is made in, and exists: the device of that
// ordinal has a context of that number from the beginning. Streams and events
// belong to the context that created them. Work goes to any stream of the
// context's device, and is the business of the stream's own context, as the
// legacy stream is of the one that the call is made in. Handles and ids, and
// numbers of contexts, are never used again.
//
// Thread safety: all methods may be called from any thread. No lock is held
// while work is run or destroyed.
class StreamSet {
 public:
  // Most contexts at a time.
  static constexpr int kMaxContexts = 64;

  explicit StreamSet(StreamSetOptions options);
  // Waits for all work: whoever owns it makes every `ready` true first.
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  // --- Contexts ---

  // One more of that device; nothing if there are kMaxContexts.
  absl::optional<int> CreateContext(int device);
  // Ends one that CreateContext made: its streams and events are gone at once,
  // captures that they take part in are over or invalid. Waits for its work.
  void DestroyContext(int context);
  // The context that owns the stream.
  Verdict GetContext(int context, StreamHandle stream, int* owner);

  // --- The calls of vmm/driver.h of these names ---

  Verdict Create(int context, StreamHandle* stream, uint32_t flags);
  Verdict Destroy(StreamHandle stream);
  Verdict Query(int context, StreamHandle stream);
  Verdict Synchronize(int context, StreamHandle stream);
  Verdict GetId(int context, StreamHandle stream, uint64_t* id);
  Verdict IsCapturing(int context, StreamHandle stream, CaptureStatus* status);
  Verdict WaitEvent(int context, StreamHandle stream, EventHandle event,
                    uint32_t flags);
  Verdict EventCreate(int context, EventHandle* event, uint32_t flags);
  Verdict EventDestroy(EventHandle event);
  Verdict EventRecord(int context, EventHandle event, StreamHandle stream);
  Verdict EventQuery(EventHandle event);
  Verdict EventSynchronize(EventHandle event);
  // CtxSynchronize.
  Verdict SynchronizeContext(int context);
  // Waits for the work of all contexts of the device. For calls that a capture
  // would not see.
  Verdict SynchronizeDevice(int device);

  Verdict BeginCapture(int context, StreamHandle stream, CaptureMode mode);
  Verdict EndCapture(int context, StreamHandle stream, GraphHandle* graph);
  static Verdict ExchangeCaptureMode(CaptureMode* mode);
  // The executable graph does not depend on the graph any more.
  Verdict GraphInstantiate(GraphExecHandle* exec, GraphHandle graph,
                           uint64_t flags);
  // Runs what was captured in the order of capture, one after the other: what
  // the capture forked does not run concurrently.
  Verdict GraphLaunch(int context, GraphExecHandle exec, StreamHandle stream);
  Verdict GraphExecDestroy(GraphExecHandle exec);
  Verdict GraphDestroy(GraphHandle graph);

  // --- Work ---

  // kInvalidHandle unless this is a stream of the context's device.
  Verdict CheckStream(int context, StreamHandle stream);
  // Queues work; or records it, if the stream is captured. As all that takes a
  // place in a stream, refused with kOutOfMemory if that needs a thread and the
  // system starts no more.
  Verdict Enqueue(int context, StreamHandle stream, StreamWork work);
  // Whether any stream is captured.
  bool HasCapture() const {
    return ongoing_captures_.load(std::memory_order_relaxed) != 0;
  }
  // InHostFunction() is true while it runs, always on a thread of the stream.
  Verdict EnqueueHostFunction(int context, StreamHandle stream,
                              HostFunction function, void* user_data);
  // Whether the calling thread is running a host function.
  static bool InHostFunction();

  // A call is about to be made that a capture would not see. Where the modes of
  // this thread and of the ongoing captures forbid it, it is refused and
  // invalidates the captures that do.
  Verdict AdmitUnsafeCall() {
    // On the path of every call on memory: most often there are no captures.
    if (!HasCapture()) return Allow();
    return AdmitUnsafeCallInCapture();
  }

  // Whether no work is queued or running.
  bool IsIdle();
  WorkInFlight GetWorkInFlight();
  // Waits for all work queued before, on streams since destroyed as well, but
  // gives up in a deadlock. Returns an empty string, or which streams do not
  // end and what each is at.
  std::string Drain();
  // Likewise, but however long work runs: gives up once all that is left has
  // been waiting for parked_timeout.
  std::string DrainParked();

 private:
  using Nodes = std::vector<StreamWork>;
  struct Context {
    StreamContext identity;
    StreamRef legacy;  // nullptr: the place is free
  };
  struct Event {
    int context = 0;
    // The last record outside of captures; nullptr if there was none.
    PointRef point;
    // Set if the last record was in a capture.
    absl::optional<CapturedPoint> captured;

    const CapturedPoint* capture() const {
      return captured.has_value() ? &*captured : nullptr;
    }
  };
  struct GraphExec {
    std::shared_ptr<const Nodes> nodes;
    // Launches run one after the other.
    PointRef last_launch;
  };

  static Verdict NoThread();
  // With the stream that work goes to. `work` is moved from, or not.
  Verdict EnqueueOn(const StreamRef& stream, StreamWork* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queues_.mutex());
  const Context& Find(int context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queues_.mutex()) {
    return contexts_[static_cast<size_t>(context % kMaxContexts)];
  }
  // nullptr for a bad handle; Own: or for a stream of another device. Stays
  // while the lock is held and no stream or context ends.
  const StreamRef& Find(int context, StreamHandle handle)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queues_.mutex());
  const StreamRef& FindOwn(int context, StreamHandle handle)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queues_.mutex());
  void MakeContext(Context* context, int id, int device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queues_.mutex());
  Event* FindEvent(EventHandle handle)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queues_.mutex());
  Verdict AdmitUnsafeCallInCapture();

  const CpuDefect defect_;
  const absl::Duration deadlock_timeout_;
  const std::function<bool(int device)> is_lost_;
  const StreamRef no_stream_;
  std::atomic<int> ongoing_captures_{0};
  WorkQueues queues_;
  CaptureBook captures_ ABSL_GUARDED_BY(queues_.mutex());
  // By number modulo kMaxContexts.
  std::array<Context, kMaxContexts> contexts_ ABSL_GUARDED_BY(queues_.mutex());
  absl::flat_hash_map<StreamHandle, StreamRef> streams_
      ABSL_GUARDED_BY(queues_.mutex());
  // Of the stream destroyed last; 0 if none was.
  uint64_t last_destroyed_id_ ABSL_GUARDED_BY(queues_.mutex()) = 0;
  absl::flat_hash_map<EventHandle, Event> events_
      ABSL_GUARDED_BY(queues_.mutex());
  absl::flat_hash_map<GraphHandle, std::shared_ptr<const Nodes>> graphs_
      ABSL_GUARDED_BY(queues_.mutex());
  absl::flat_hash_map<GraphExecHandle, GraphExec> graph_execs_
      ABSL_GUARDED_BY(queues_.mutex());
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STREAM_SET_H_
