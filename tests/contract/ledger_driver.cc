// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/ledger_driver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn::contract {

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
  for (EventHandle event : left.events) {
    expect("cuEventDestroy", base()->EventDestroy(event));
  }
  for (StreamHandle stream : left.streams) {
    expect("cuStreamDestroy", base()->StreamDestroy(stream));
  }
  return refusals;
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
  const DriverResult result = base()->MemAddressFree(address, bytes);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.reservations.erase(address);
  }
  return result;
}

DriverResult LedgerDriver::MemCreate(PhysicalHandle* handle, size_t bytes,
                                     const AllocationProp* prop,
                                     uint64_t flags) {
  const DriverResult result = base()->MemCreate(handle, bytes, prop, flags);
  if (result == DriverResult::kSuccess) AddReference(*handle);
  return result;
}

DriverResult LedgerDriver::MemRelease(PhysicalHandle handle) {
  const DriverResult result = base()->MemRelease(handle);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    const auto it = ledger_.references.find(handle);
    if (it != ledger_.references.end() && --it->second == 0) {
      ledger_.references.erase(it);
    }
  }
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
  const DriverResult result = base()->MemUnmap(address, bytes);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.mappings.erase(ledger_.mappings.lower_bound(address),
                           ledger_.mappings.lower_bound(address + bytes));
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

DriverResult LedgerDriver::StreamCreate(StreamHandle* stream, uint32_t flags) {
  const DriverResult result = base()->StreamCreate(stream, flags);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.streams.insert(*stream);
  }
  return result;
}

DriverResult LedgerDriver::StreamDestroy(StreamHandle stream) {
  const DriverResult result = base()->StreamDestroy(stream);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.streams.erase(stream);
  }
  return result;
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
  const DriverResult result = base()->EventDestroy(event);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.events.erase(event);
  }
  return result;
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
  const DriverResult result = base()->GraphExecDestroy(exec);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.graph_execs.erase(exec);
  }
  return result;
}

DriverResult LedgerDriver::GraphDestroy(GraphHandle graph) {
  const DriverResult result = base()->GraphDestroy(graph);
  if (result == DriverResult::kSuccess) {
    MutexLock lock(&mutex_);
    ledger_.graphs.erase(graph);
  }
  return result;
}

}  // namespace firn::contract
