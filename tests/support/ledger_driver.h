// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver that keeps a ledger of what was made through it and is still there,
// so that a test can end anywhere and leave nothing behind, and can tell
// whether what it tests does: byte counts of a device that others use too
// cannot.

#ifndef FIRN_TESTS_SUPPORT_LEDGER_DRIVER_H_
#define FIRN_TESTS_SUPPORT_LEDGER_DRIVER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"

namespace firn::testing {

// Thread safety: all methods may be called from any thread.
class LedgerDriver : public DriverWrapper {
 public:
  explicit LedgerDriver(Driver* base) : DriverWrapper(base) {}

  // Whether nothing is left.
  bool empty() const;
  // What is: "2 handles, 1 mapping (0x7f0000000000 + 65536)", or "nothing".
  std::string Describe() const;
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
  DriverResult MemAlloc(DevicePtr* address, size_t bytes) override;
  DriverResult MemFree(DevicePtr address) override;
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
    std::map<DevicePtr, size_t> allocations;
    std::set<StreamHandle> streams;
    std::set<EventHandle> events;
    std::set<GraphHandle> graphs;
    std::set<GraphExecHandle> graph_execs;
  };

  void AddReference(PhysicalHandle handle);
  // Around a call that ends a thing: it is struck off before the call, as its
  // name may come back at once, and entered again if the call fails.
  template <typename Things>
  DriverResult Strike(Things Ledger::*things,
                      const typename Things::key_type& thing,
                      absl::FunctionRef<DriverResult()> call);

  mutable Mutex mutex_;
  Ledger ledger_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_LEDGER_DRIVER_H_
