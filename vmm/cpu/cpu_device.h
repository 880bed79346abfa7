// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One device of a CPU driver, in one of its contexts: passes each call to the
// part of the system that knows its rules. Private to vmm/cpu.

#ifndef FIRN_VMM_CPU_CPU_DEVICE_H_
#define FIRN_VMM_CPU_CPU_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/cpu_system.h"
#include "firn/vmm/cpu/stream_identity.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_call.h"

namespace firn::cpu {

// Calls that wait do so even if the device is lost: when they return, its work
// is over. All other calls return the sticky error first.
class CpuDevice final : public CpuDriver {
 public:
  // The context that the device comes with has the device's number.
  CpuDevice(std::shared_ptr<CpuSystem> system, const StreamContext& context)
      : system_(std::move(system)),
        context_(context),
        ordinal_(context.device) {}
  ~CpuDevice() override;

  DriverIdentity identity() const override;
  std::string loss() const override { return system_->loss(ordinal_); }
  DriverResult DeviceGetCount(int32_t* count) override;
  DriverResult DeviceGetAttribute(int32_t* value,
                                  DeviceAttribute attribute) override;
  DriverResult DeviceCanAccessPeer(int32_t* can_access, int32_t peer) override;
  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override;
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
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override;
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override;
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override;
  DriverResult MemGetAllocationPropertiesFromHandle(
      AllocationProp* prop, PhysicalHandle handle) override;
  DriverResult MemExportToShareableHandle(void* shareable,
                                          PhysicalHandle handle,
                                          ShareableHandleType type,
                                          uint64_t flags) override;
  DriverResult MemImportFromShareableHandle(PhysicalHandle* handle,
                                            void* shareable,
                                            ShareableHandleType type) override;
  DriverResult MemGetAddressRange(DevicePtr* base, size_t* bytes,
                                  DevicePtr address) override;
  DriverResult PointerGetAttribute(void* data, PointerAttribute attribute,
                                   DevicePtr address) override;
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override;
  DriverResult MemAlloc(DevicePtr* address, size_t bytes) override;
  DriverResult MemFree(DevicePtr address) override;
  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override;
  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override;
  DriverResult StreamDestroy(StreamHandle stream) override;
  DriverResult StreamQuery(StreamHandle stream) override;
  DriverResult StreamSynchronize(StreamHandle stream) override;
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override;
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override;
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override;
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override;
  DriverResult EventDestroy(EventHandle event) override;
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override;
  DriverResult EventQuery(EventHandle event) override;
  DriverResult EventSynchronize(EventHandle event) override;
  DriverResult CtxSynchronize() override;
  DriverResult StreamWaitValue32(StreamHandle stream, DevicePtr address,
                                 uint32_t value, uint32_t flags) override;
  DriverResult StreamWaitValue64(StreamHandle stream, DevicePtr address,
                                 uint64_t value, uint32_t flags) override;
  DriverResult StreamWriteValue32(StreamHandle stream, DevicePtr address,
                                  uint32_t value, uint32_t flags) override;
  DriverResult StreamWriteValue64(StreamHandle stream, DevicePtr address,
                                  uint64_t value, uint32_t flags) override;
  DriverResult LaunchHostFunc(StreamHandle stream, HostFunction function,
                              void* user_data) override;
  DriverResult StreamBeginCapture(StreamHandle stream,
                                  CaptureMode mode) override;
  DriverResult StreamEndCapture(StreamHandle stream,
                                GraphHandle* graph) override;
  DriverResult ThreadExchangeStreamCaptureMode(CaptureMode* mode) override;
  DriverResult GraphInstantiate(GraphExecHandle* exec, GraphHandle graph,
                                uint64_t flags) override;
  DriverResult GraphLaunch(GraphExecHandle exec, StreamHandle stream) override;
  DriverResult GraphExecDestroy(GraphExecHandle exec) override;
  DriverResult GraphDestroy(GraphHandle graph) override;

  absl::StatusOr<std::unique_ptr<CpuDriver>> CreateContext() override;
  int context() const override { return context_.id; }
  DriverResult StreamGetContext(StreamHandle stream, int* context) override;
  DriverResult LaunchKernel(StreamHandle stream,
                            std::vector<KernelRange> ranges,
                            std::function<void()> body) override;
  std::string last_report() const override { return system_->last_report(); }

 private:
  // The whole of a call: `body` makes it unless all calls are forbidden; what
  // breaks a rule is reported with `args`.
  template <typename Body, typename... Args>
  DriverResult Make(DriverCall call, const Body& body, Args... args);
  // As Make, for calls that change handles, mappings and access.
  template <typename Body, typename... Args>
  DriverResult MakeMemoryCall(DriverCall call, const Body& body, Args... args);
  // As Make, for calls that wait or ask: they do that first.
  template <typename Body, typename... Args>
  DriverResult MakeWait(DriverCall call, const Body& body, Args... args);
  // As Make, for calls that are not CUDA's.
  template <typename Body>
  DriverResult MakeOwn(absl::string_view call, const Body& body);
  // A copy or fill: as a kernel, but an address that is bad at once is refused
  // and not fatal.
  template <typename Body>
  Verdict Transfer(StreamHandle stream, const char* name,
                   std::vector<AccessRange> ranges, Body body);
  template <typename Value>
  Verdict WaitValue(StreamHandle stream, DevicePtr address, Value value,
                    uint32_t flags);
  template <typename Value>
  Verdict WriteValue(StreamHandle stream, DevicePtr address, Value value,
                     uint32_t flags);
  Verdict CheckValue(StreamHandle stream, const AccessRange& range);
  Verdict GetAttribute(int32_t* value, DeviceAttribute attribute) const;

  CpuSystem& system() const { return *system_; }
  DeviceMemory& memory() const { return system_->memory(); }
  StreamSet& streams() const { return system_->streams(); }

  std::shared_ptr<CpuSystem> system_;
  const StreamContext context_;
  const int ordinal_;
};

template <typename Body, typename... Args>
DriverResult CpuDevice::Make(DriverCall call, const Body& body, Args... args) {
  Verdict verdict = system().CheckCallable(ordinal_);
  if (verdict.ok()) verdict = body();
  if (verdict.is_misuse()) {
    system().ReportMisuse(ordinal_, DriverCallArgs(call, args...), verdict);
  }
  return verdict.result;
}

template <typename Body, typename... Args>
DriverResult CpuDevice::MakeMemoryCall(DriverCall call, const Body& body,
                                       Args... args) {
  return Make(
      call,
      [&] {
        const Verdict admitted = system().AdmitMemoryCall();
        return admitted.ok() ? body() : admitted;
      },
      args...);
}

template <typename Body, typename... Args>
DriverResult CpuDevice::MakeWait(DriverCall call, const Body& body,
                                 Args... args) {
  Verdict verdict = system().CheckCallable(ordinal_);
  // A lost device's work can still be waited for.
  const bool may_wait =
      !system().in_forked_child() && !StreamSet::InHostFunction();
  if (may_wait) {
    const Verdict waited = body();
    const Verdict health = system().CheckHealth(ordinal_);
    verdict = verdict.ok() ? health.ok() ? waited : health : verdict;
  }
  if (verdict.is_misuse()) {
    system().ReportMisuse(ordinal_, DriverCallArgs(call, args...), verdict);
  }
  return verdict.result;
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_CPU_DEVICE_H_
