// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver that keeps a ledger of what was made through it and is still there,
// so that a check can end anywhere and leave nothing behind.

#ifndef FIRN_TESTS_CONTRACT_LEDGER_DRIVER_H_
#define FIRN_TESTS_CONTRACT_LEDGER_DRIVER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"

namespace firn::contract {

// Thread safety: all methods may be called from any thread.
class LedgerDriver : public DriverWrapper {
 public:
  explicit LedgerDriver(Driver* base) : DriverWrapper(base) {}

  // Waits for all work and gives everything back. Returns one line for each
  // call that was refused.
  std::vector<std::string> CleanUp();

  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override;
  DriverResult MemAddressFree(DevicePtr address, size_t bytes) override;
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override;
  DriverResult MemRelease(PhysicalHandle handle) override;
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override;
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override;
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override;
  DriverResult MemImportFromShareableHandle(PhysicalHandle* handle,
                                            void* shareable,
                                            ShareableHandleType type) override;
  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override;
  DriverResult StreamDestroy(StreamHandle stream) override;
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override;
  DriverResult EventDestroy(EventHandle event) override;
  DriverResult StreamEndCapture(StreamHandle stream,
                                GraphHandle* graph) override;
  DriverResult GraphInstantiate(GraphExecHandle* exec, GraphHandle graph,
                                uint64_t flags) override;
  DriverResult GraphExecDestroy(GraphExecHandle exec) override;
  DriverResult GraphDestroy(GraphHandle graph) override;

 private:
  struct Ledger {
    std::map<DevicePtr, size_t> reservations;
    std::map<DevicePtr, size_t> mappings;
    std::map<PhysicalHandle, int> references;
    std::set<StreamHandle> streams;
    std::set<EventHandle> events;
    std::set<GraphHandle> graphs;
    std::set<GraphExecHandle> graph_execs;
  };

  void AddReference(PhysicalHandle handle);

  Mutex mutex_;
  Ledger ledger_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_LEDGER_DRIVER_H_
