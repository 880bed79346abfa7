// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of StreamSet that begins and ends captures and launches what they
// recorded.

#include <cstddef>
#include <memory>
#include <utility>

#include "firn/vmm/cpu/stream_set.h"
#include "firn/vmm/cpu/unique_handle.h"

namespace firn::cpu {
namespace {

Verdict BadCaptureStream() {
  return Refuse(DriverResult::kInvalidHandle,
                "a graph is captured from, and launched on, a stream of this "
                "device that was created and not destroyed since");
}
Verdict BadGraph() {
  return RefuseValue(
      "a graph is one that was captured and not destroyed since");
}
Verdict BadGraphExec() {
  return RefuseValue(
      "an executable graph is one that was instantiated and not destroyed "
      "since");
}

}  // namespace

Verdict StreamSet::BeginCapture(int context, StreamHandle handle,
                                CaptureMode mode) {
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = FindOwn(context, handle);
  if (stream == nullptr) return BadCaptureStream();
  return captures_.Begin(stream->identity, mode);
}

Verdict StreamSet::EndCapture(int context, StreamHandle handle,
                              GraphHandle* graph) {
  if (graph == nullptr) {
    return RefuseValue("the graph's handle goes to where a pointer says");
  }
  *graph = nullptr;
  // What makes no graph goes without the lock.
  auto nodes = std::make_shared<Nodes>();
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = FindOwn(context, handle);
  if (stream == nullptr) return BadCaptureStream();
  const Verdict verdict = captures_.End(stream->identity, nodes.get());
  if (!verdict.ok()) return verdict;
  *graph = MakeHandle<GraphHandle>(NextUniqueId());
  graphs_.emplace(*graph, nodes);
  return Allow();
}

Verdict StreamSet::ExchangeCaptureMode(CaptureMode* mode) {
  return CaptureBook::ExchangeThreadMode(mode);
}

Verdict StreamSet::GraphInstantiate(GraphExecHandle* exec, GraphHandle graph,
                                    uint64_t flags) {
  if (exec == nullptr || flags != 0) {
    return RefuseValue(
        "a graph is instantiated without flags, and the handle goes to where "
        "the pointer says");
  }
  std::shared_ptr<const Nodes> nodes;
  {
    MutexLock lock(queues_.mutex());
    const auto it = graphs_.find(graph);
    if (it == graphs_.end()) return BadGraph();
    nodes = it->second;
  }
  // Copied, and without the lock, since work may have a state of its own:
  // executable graphs of one graph may run at the same time.
  GraphExec instance;
  instance.nodes = std::make_shared<const Nodes>(*nodes);
  MutexLock lock(queues_.mutex());
  *exec = MakeHandle<GraphExecHandle>(NextUniqueId());
  graph_execs_.emplace(*exec, std::move(instance));
  return Allow();
}

Verdict StreamSet::GraphLaunch(int context, GraphExecHandle exec,
                               StreamHandle handle) {
  // Maybe the last to go, since the work may be over and the executable graph
  // destroyed by then: not under the lock.
  std::shared_ptr<const Nodes> nodes;
  Nodes work;
  MutexLock lock(queues_.mutex());
  const StreamRef& stream = FindOwn(context, handle);
  if (stream == nullptr) return BadCaptureStream();
  const auto it = graph_execs_.find(exec);
  if (it == graph_execs_.end()) return BadGraphExec();
  const Verdict verdict = captures_.AdmitUncapturable(stream->identity);
  if (!verdict.ok()) return verdict;
  GraphExec& instance = it->second;
  if (instance.last_launch != nullptr &&
      !queues_.AppendWait(stream.get(), instance.last_launch)) {
    return NoThread();
  }
  nodes = instance.nodes;
  work.reserve(nodes->size());
  for (size_t i = 0; i < nodes->size(); ++i) {
    // One node, kept alive with all of them.
    const std::shared_ptr<const StreamWork> node(nodes, &(*nodes)[i]);
    StreamWork piece;
    piece.name = node->name;
    piece.waits_for = node->waits_for;
    piece.tells_host = node->tells_host;
    piece.never_inline = node->never_inline;
    if (node->run != nullptr) {
      piece.run = [node](const WorkOrder& order) { node->run(order); };
    }
    if (node->ready != nullptr) {
      piece.ready = [node](uint64_t stamp) { return node->ready(stamp); };
    }
    work.push_back(std::move(piece));
  }
  // If not, a wait for the launch before may stay behind, which does no harm.
  const bool queued = queues_.Append(stream.get(), absl::MakeSpan(work));
  if (queued) instance.last_launch = stream->PointAtEnd();
  queues_.Kick(stream);
  return queued ? Allow() : NoThread();
}

Verdict StreamSet::GraphExecDestroy(GraphExecHandle exec) {
  // Goes after the lock.
  GraphExec instance;
  MutexLock lock(queues_.mutex());
  const auto it = graph_execs_.find(exec);
  if (it == graph_execs_.end()) return BadGraphExec();
  instance = std::move(it->second);
  graph_execs_.erase(it);
  return Allow();
}

Verdict StreamSet::GraphDestroy(GraphHandle graph) {
  // Goes after the lock.
  std::shared_ptr<const Nodes> nodes;
  MutexLock lock(queues_.mutex());
  const auto it = graphs_.find(graph);
  if (it == graphs_.end()) return BadGraph();
  nodes = std::move(it->second);
  graphs_.erase(it);
  return Allow();
}

}  // namespace firn::cpu
