// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a capture recorded, launched.

#include <atomic>
#include <vector>

#include "absl/time/clock.h"
#include "tests/contract/capture_scene.h"
#include "tests/contract/contract_device.h"
#include "tests/contract/gate.h"

namespace firn::contract {
namespace {

constexpr DriverResult kBusy = DriverResult::kNotReady;

FIRN_CONTRACT(graph, launch_runs_what_was_captured,
              Documented("cuda.h, cuGraphLaunch")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(b, 0));
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    const DriverResult result = device.MemsetD8Async(a, 0x91, 64, captured);
    if (result != DriverResult::kSuccess) return result;
    return device.MemcpyDtoDAsync(b, a, 64, captured);
  }));
  FIRN_HOLDS(device.AllBytesAre(b, 0, 64));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(b, 0x91, 64));
}

FIRN_CONTRACT(graph, launches_again_and_again,
              Documented("cuda.h, cuGraphLaunch")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const StreamHandle stream = device.NewStream();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    return device.MemcpyDtoDAsync(b, a, 64, captured);
  }));
  for (const uint8_t value : {1, 2, 3}) {
    FIRN_WORKS(device.FillGranule(a, value));
    FIRN_WORKS(device.GraphLaunch(exec, stream));
    FIRN_WORKS(device.StreamSynchronize(stream));
    FIRN_HOLDS(device.AllBytesAre(b, value, 64));
  }
}

FIRN_CONTRACT(graph, launch_is_in_stream_order,
              Documented("cuda.h, cuGraphLaunch: behind previous work in the "
                         "stream")) {
  const DevicePtr a = device.MapRow();
  const StreamHandle stream = device.NewStream();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    return device.MemsetD8Async(a, 2, 64, captured);
  }));
  FIRN_WORKS(device.FillGranule(a, 0));
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.MemsetD8Async(a + 32, 3, 32, stream));
  FIRN_HOLDS(device.AllBytesAre(a, 0, 64));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(a, 2, 32));
  FIRN_HOLDS(device.AllBytesAre(a + 32, 3, 32));
}

FIRN_CONTRACT(graph, launches_of_one_graph_do_not_overlap,
              Documented("cuda.h, cuGraphLaunch: behind previous launches")) {
  const DevicePtr a = device.MapRow();
  const StreamHandle one = device.NewStream();
  const StreamHandle two = device.NewStream();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    return device.MemsetD8Async(a, 2, 64, captured);
  }));
  Gate gate(&device);
  FIRN_WORKS(gate.Park(one));
  FIRN_WORKS(device.GraphLaunch(exec, one));
  FIRN_WORKS(device.GraphLaunch(exec, two));
  FIRN_GIVES(kBusy, device.StreamQuery(two));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(two));
}

FIRN_CONTRACT(graph, runs_both_branches_of_a_fork,
              Documented("CUDA programming guide, stream capture: cross-stream "
                         "dependencies")) {
  const DevicePtr a = device.MapRow();
  const DevicePtr b = device.MapRow();
  const DevicePtr c = device.MapRow();
  const StreamHandle forked = device.NewStream();
  const EventHandle fork = device.NewEvent();
  const EventHandle join = device.NewEvent();
  const uint64_t bytes = device.granule_bytes();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    const DriverResult results[] = {
        device.MemsetD8Async(a, 7, bytes, captured),
        device.EventRecord(fork, captured),
        device.StreamWaitEvent(forked, fork, 0),
        device.MemcpyDtoDAsync(b, a, bytes, forked),
        device.EventRecord(join, forked),
        device.StreamWaitEvent(captured, join, 0),
        device.MemcpyDtoDAsync(c, b, bytes, captured)};
    for (const DriverResult result : results) {
      if (result != DriverResult::kSuccess) return result;
    }
    return DriverResult::kSuccess;
  }));
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(c, 7));
}

FIRN_CONTRACT(graph, holds_host_functions,
              Documented("CUDA programming guide, graphs: host nodes")) {
  static std::atomic<int> calls;
  calls = 0;
  const StreamHandle stream = device.NewStream();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    return device.LaunchHostFunc(
        captured, [](void*) { ++calls; }, nullptr);
  }));
  FIRN_EQUALS(0, calls.load());
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_EQUALS(2, calls.load());
}

FIRN_CONTRACT(graph, may_be_instantiated_twice,
              Documented("cuda.h, cuGraphLaunch: to execute concurrently")) {
  const DevicePtr a = device.MapRow();
  const StreamHandle stream = device.NewStream();
  GraphHandle graph = nullptr;
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_WORKS(device.MemsetD8Async(a, 4, 64, stream));
  FIRN_WORKS(device.StreamEndCapture(stream, &graph));
  GraphExecHandle one = nullptr;
  GraphExecHandle two = nullptr;
  FIRN_WORKS(device.GraphInstantiate(&one, graph, 0));
  FIRN_WORKS(device.GraphInstantiate(&two, graph, 0));
  FIRN_HOLDS(one != two);
  FIRN_WORKS(device.GraphLaunch(one, stream));
  FIRN_WORKS(device.GraphLaunch(two, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
}

FIRN_CONTRACT(graph, executable_form_outlives_it,
              Inferred("cuda.h, cuGraphInstantiate: a graph of its own")) {
  const DevicePtr a = device.MapRow();
  const StreamHandle stream = device.NewStream();
  GraphHandle graph = nullptr;
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_WORKS(device.MemsetD8Async(a, 5, 64, stream));
  FIRN_WORKS(device.StreamEndCapture(stream, &graph));
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(device.GraphInstantiate(&exec, graph, 0));
  FIRN_WORKS(device.GraphDestroy(graph));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(a, 5, 64));
}

FIRN_CONTRACT(graph, outlives_the_streams_it_was_captured_from,
              Inferred("cuda.h, cuStreamEndCapture: returns a graph")) {
  const DevicePtr a = device.MapRow();
  const StreamHandle captured = device.NewStream();
  const StreamHandle stream = device.NewStream();
  GraphHandle graph = nullptr;
  FIRN_WORKS(device.StreamBeginCapture(captured, CaptureMode::kRelaxed));
  FIRN_WORKS(device.MemsetD8Async(a, 6, 64, captured));
  FIRN_WORKS(device.StreamEndCapture(captured, &graph));
  FIRN_WORKS(device.StreamDestroy(captured));
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(device.GraphInstantiate(&exec, graph, 0));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(a, 6, 64));
}

FIRN_CONTRACT(graph, may_be_destroyed_in_flight,
              Documented("cuda.h, cuGraphExecDestroy: freed on completion")) {
  const DevicePtr a = device.MapRow();
  const StreamHandle stream = device.NewStream();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    return device.MemsetD8Async(a, 8, 64, captured);
  }));
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.GraphExecDestroy(exec));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(a, 8, 64));
}

FIRN_CONTRACT(graph, finds_new_memory_at_its_addresses,
              Observed("XLA and torch_memory_saver replay graphs over remapped "
                       "addresses")) {
  const DevicePtr a = device.MapRow();
  const StreamHandle stream = device.NewStream();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    return device.MemsetD8Async(a, 9, device.granule_bytes(), captured);
  }));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_WORKS(device.Unmap(a));
  FIRN_WORKS(device.Map(a, device.Create()));
  FIRN_WORKS(device.SetAccess(a, 1));
  FIRN_WORKS(device.FillGranule(a, 0));
  FIRN_WORKS(device.GraphLaunch(exec, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(a, 9));
}

FIRN_CONTRACT(graph, over_unmapped_memory_is_an_error,
              Strict("an access to what is not mapped, whenever it is found"),
              kOwnProcess) {
  const DevicePtr a = device.MapRow();
  const StreamHandle stream = device.NewStream();
  GraphExecHandle exec = nullptr;
  FIRN_WORKS(MakeGraph(device, &exec, [&](StreamHandle captured) {
    return device.MemsetD8Async(a, 9, 64, captured);
  }));
  FIRN_WORKS(device.Unmap(a));
  const DriverResult launched = device.GraphLaunch(exec, stream);
  const DriverResult waited = device.StreamSynchronize(stream);
  FIRN_HOLDS(launched != DriverResult::kSuccess ||
             waited == DriverResult::kIllegalAddress);
}

FIRN_CONTRACT(graph, null_handles_are_refused,
              Documented("cuda.h, cuGraphInstantiate and cuGraphLaunch: "
                         "INVALID_VALUE")) {
  GraphExecHandle exec = nullptr;
  FIRN_REFUSES(device.GraphInstantiate(&exec, nullptr, 0));
  FIRN_REFUSES(device.GraphLaunch(nullptr, device.NewStream()));
}

}  // namespace
}  // namespace firn::contract
