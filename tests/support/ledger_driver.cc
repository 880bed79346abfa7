// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/ledger_driver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver_status.h"

namespace firn::testing {
namespace {

// "2 handles", unless there is none.
void AddCount(absl::string_view thing, size_t count,
              std::vector<std::string>* parts) {
  if (count == 0) return;
  parts->push_back(absl::StrCat(count, " ", thing, count == 1 ? "" : "s"));
}

// "2 mappings (0x7f0000000000 + 65536, 0x7f0000020000 + 65536)".
void AddRanges(absl::string_view thing,
               const std::map<DevicePtr, size_t>& ranges,
               std::vector<std::string>* parts) {
  if (ranges.empty()) return;
  AddCount(thing, ranges.size(), parts);
  std::vector<std::string> written;
  for (const auto& [address, bytes] : ranges) {
    written.push_back(absl::StrCat("0x", absl::Hex(address), " + ", bytes));
  }
  absl::StrAppend(&parts->back(), " (", absl::StrJoin(written, ", "), ")");
}

}  // namespace

bool LedgerDriver::empty() const {
  MutexLock lock(&mutex_);
  return ledger_.reservations.empty() && ledger_.mappings.empty() &&
         ledger_.references.empty() && ledger_.allocations.empty() &&
         ledger_.streams.empty() && ledger_.events.empty() &&
         ledger_.graphs.empty() && ledger_.graph_execs.empty();
}

std::string LedgerDriver::Describe() const {
  Ledger left;
  {
    MutexLock lock(&mutex_);
    left = ledger_;
  }
  std::vector<std::string> parts;
  AddRanges("reservation", left.reservations, &parts);
  AddRanges("mapping", left.mappings, &parts);
  AddCount("handle", left.references.size(), &parts);
  AddRanges("allocation", left.allocations, &parts);
  AddCount("stream", left.streams.size(), &parts);
  AddCount("event", left.events.size(), &parts);
  AddCount("graph", left.graphs.size(), &parts);
  AddCount("executable graph", left.graph_execs.size(), &parts);
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

std::vector<std::string> LedgerDriver::CleanUp() {
  Ledger left;
  {
    MutexLock lock(&mutex_);
    left = std::exchange(ledger_, Ledger());
  }
  std::vector<std::string> refusals;
  const auto expect = [&refusals](const char* call, DriverResult came) {
    if (came == DriverResult::kSuccess) return;
    refusals.push_back(
        absl::StrCat("cleaning up: ", call, " gave ", DriverResultName(came)));
  };
  for (StreamHandle stream : left.streams) {
    CaptureStatus status = CaptureStatus::kNone;
    GraphHandle graph = nullptr;
    if (base()->StreamIsCapturing(stream, &status) != DriverResult::kSuccess ||
        status == CaptureStatus::kNone) {
      continue;
    }
    // A check that failed half-way; of a forked stream, which cannot end it.
    (void)base()->StreamEndCapture(stream, &graph);
    if (graph != nullptr) expect("cuGraphDestroy", base()->GraphDestroy(graph));
  }
  expect("cuCtxSynchronize", base()->CtxSynchronize());
  for (GraphExecHandle exec : left.graph_execs) {
    expect("cuGraphExecDestroy", base()->GraphExecDestroy(exec));
  }
  for (GraphHandle graph : left.graphs) {
    expect("cuGraphDestroy", base()->GraphDestroy(graph));
  }
  for (const auto& [address, bytes] : left.mappings) {
    expect("cuMemUnmap", base()->MemUnmap(address, bytes));
  }
  for (const auto& [address, bytes] : left.reservations) {
    expect("cuMemAddressFree", base()->MemAddressFree(address, bytes));
  }
  for (const auto& [handle, count] : left.references) {
    for (int i = 0; i < count; ++i) {
      expect("cuMemRelease", base()->MemRelease(handle));
    }
  }
  for (const auto& [address, bytes] : left.allocations) {
    expect("cuMemFree", base()->MemFree(address));
  }
  for (EventHandle event : left.events) {
    expect("cuEventDestroy", base()->EventDestroy(event));
  }
  for (StreamHandle stream : left.streams) {
    expect("cuStreamDestroy", base()->StreamDestroy(stream));
  }
  return refusals;
}

template <typename Things>
DriverResult LedgerDriver::Strike(Things Ledger::*things,
                                  const typename Things::key_type& thing,
                                  absl::FunctionRef<DriverResult()> call) {
  typename Things::node_type struck;
  {
    MutexLock lock(&mutex_);
    struck = (ledger_.*things).extract(thing);
  }
  const DriverResult result = call();
  if (result != DriverResult::kSuccess && !struck.empty()) {
    MutexLock lock(&mutex_);
    (ledger_.*things).insert(std::move(struck));
  }
  return result;
}

void LedgerDriver::AddReference(PhysicalHandle handle) {
  MutexLock lock(&mutex_);
  ++ledger_.references[handle];
}

DriverResult LedgerDriver::MemAddressReserve(DevicePtr* address, size_t bytes,
                                             size_t alignment_bytes,
                                             DevicePtr hint, uint64_t flags) {
  const DriverResult result =
      base()->MemAddressReserve(address, bytes, alignment_bytes, hint, flags);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.reservations[*address] = bytes;
  }
  return result;
}

DriverResult LedgerDriver::MemAddressFree(DevicePtr address, size_t bytes) {
  return Strike(&Ledger::reservations, address,
                [&] { return base()->MemAddressFree(address, bytes); });
}

DriverResult LedgerDriver::MemCreate(PhysicalHandle* handle, size_t bytes,
                                     const AllocationProp* prop,
                                     uint64_t flags) {
  const DriverResult result = base()->MemCreate(handle, bytes, prop, flags);
  if (result == DriverResult::kSuccess) AddReference(*handle);
  return result;
}

DriverResult LedgerDriver::MemRelease(PhysicalHandle handle) {
  // See Strike: of several references, one is struck off.
  bool known = false;
  {
    MutexLock lock(&mutex_);
    const auto it = ledger_.references.find(handle);
    known = it != ledger_.references.end();
    if (known && --it->second == 0) ledger_.references.erase(it);
  }
  const DriverResult result = base()->MemRelease(handle);
  if (result != DriverResult::kSuccess && known) AddReference(handle);
  return result;
}

DriverResult LedgerDriver::MemMap(DevicePtr address, size_t bytes,
                                  size_t offset_bytes, PhysicalHandle handle,
                                  uint64_t flags) {
  const DriverResult result =
      base()->MemMap(address, bytes, offset_bytes, handle, flags);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.mappings[address] = bytes;
  }
  return result;
}

DriverResult LedgerDriver::MemUnmap(DevicePtr address, size_t bytes) {
  std::map<DevicePtr, size_t> struck;
  {
    MutexLock lock(&mutex_);
    const auto first = ledger_.mappings.lower_bound(address);
    const auto last = ledger_.mappings.lower_bound(address + bytes);
    struck.insert(first, last);
    ledger_.mappings.erase(first, last);
  }
  const DriverResult result = base()->MemUnmap(address, bytes);
  if (result != DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.mappings.merge(struck);
  }
  return result;
}

DriverResult LedgerDriver::MemRetainAllocationHandle(PhysicalHandle* handle,
                                                     DevicePtr address) {
  const DriverResult result =
      base()->MemRetainAllocationHandle(handle, address);
  if (result == DriverResult::kSuccess) AddReference(*handle);
  return result;
}

DriverResult LedgerDriver::MemImportFromShareableHandle(
    PhysicalHandle* handle, void* shareable, ShareableHandleType type) {
  const DriverResult result =
      base()->MemImportFromShareableHandle(handle, shareable, type);
  if (result == DriverResult::kSuccess) AddReference(*handle);
  return result;
}

DriverResult LedgerDriver::MemAlloc(DevicePtr* address, size_t bytes) {
  const DriverResult result = base()->MemAlloc(address, bytes);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.allocations[*address] = bytes;
  }
  return result;
}

DriverResult LedgerDriver::MemFree(DevicePtr address) {
  return Strike(&Ledger::allocations, address,
                [&] { return base()->MemFree(address); });
}

DriverResult LedgerDriver::StreamCreate(StreamHandle* stream, uint32_t flags) {
  const DriverResult result = base()->StreamCreate(stream, flags);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.streams.insert(*stream);
  }
  return result;
}

DriverResult LedgerDriver::StreamDestroy(StreamHandle stream) {
  return Strike(&Ledger::streams, stream,
                [&] { return base()->StreamDestroy(stream); });
}

DriverResult LedgerDriver::EventCreate(EventHandle* event, uint32_t flags) {
  const DriverResult result = base()->EventCreate(event, flags);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.events.insert(*event);
  }
  return result;
}

DriverResult LedgerDriver::EventDestroy(EventHandle event) {
  return Strike(&Ledger::events, event,
                [&] { return base()->EventDestroy(event); });
}

DriverResult LedgerDriver::StreamEndCapture(StreamHandle stream,
                                            GraphHandle* graph) {
  const DriverResult result = base()->StreamEndCapture(stream, graph);
  if (result == DriverResult::kSuccess && *graph != nullptr) {
    MutexLock lock(&mutex_);
    ledger_.graphs.insert(*graph);
  }
  return result;
}

DriverResult LedgerDriver::GraphInstantiate(GraphExecHandle* exec,
                                            GraphHandle graph, uint64_t flags) {
  const DriverResult result = base()->GraphInstantiate(exec, graph, flags);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.graph_execs.insert(*exec);
  }
  return result;
}

DriverResult LedgerDriver::GraphExecDestroy(GraphExecHandle exec) {
  return Strike(&Ledger::graph_execs, exec,
                [&] { return base()->GraphExecDestroy(exec); });
}

DriverResult LedgerDriver::GraphDestroy(GraphHandle graph) {
  return Strike(&Ledger::graphs, graph,
                [&] { return base()->GraphDestroy(graph); });
}

}  // namespace firn::testing
