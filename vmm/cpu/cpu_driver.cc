// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/cpu_driver.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/fault_guard.h"
#include "firn/vmm/cpu/ghost_storage.h"
#include "firn/vmm/cpu/host_memory.h"
#include "firn/vmm/cpu/real_storage.h"
#include "firn/vmm/cpu/stream_set.h"

namespace firn {
namespace {

constexpr uint64_t kGhostDeviceBytes = uint64_t{80} << 30;
// The books count granules of one device in 32 bits.
constexpr uint64_t kMaxDeviceGranules = uint64_t{1} << 32;
// The driver API whose rules are kept: CUDA 13.0.
constexpr int kDriverVersion = 13000;

void* ToPointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

bool Overlap(DevicePtr a, DevicePtr b, uint64_t bytes) {
  return a < b ? b - a < bytes : a - b < bytes;
}

std::vector<KernelRange> RangesOfCopy(DevicePtr dst, DevicePtr src,
                                      uint64_t bytes) {
  return {KernelRange{dst, bytes, /*writes=*/true},
          KernelRange{src, bytes, /*writes=*/false}};
}

// Waiting calls wait for the work even if the device is lost: when they return,
// it is over. All other calls return the sticky error first.
class CpuDriverImpl final : public CpuDriver {
 public:
  CpuDriverImpl(const CpuDriverOptions& options, uint64_t device_granules,
                std::unique_ptr<cpu::Backing> backing)
      : real_(options.storage == CpuStorage::kReal),
        sync_(options.sync),
        deadlock_timeout_(options.deadlock_timeout),
        device_name_(options.device_name),
        guard_(&device_lost_),
        memory_(options.granularity_bytes, device_granules,
                MakeStorage(options.granularity_bytes, std::move(backing))) {}

  DriverIdentity identity() const override {
    DriverIdentity identity;
    identity.backend = "cpu";
    identity.device_name = device_name_;
    identity.driver_version = kDriverVersion;
    return identity;
  }

  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.GetGranularity(granularity_bytes, prop, kind);
  }
  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.Reserve(address, bytes, alignment_bytes, hint, flags);
  }
  DriverResult MemAddressFree(DevicePtr address, size_t bytes) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.Unreserve(address, bytes);
  }
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.Create(handle, bytes, prop, flags);
  }
  DriverResult MemRelease(PhysicalHandle handle) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.Release(handle);
  }
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.Map(address, bytes, offset_bytes, handle, flags);
  }
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override {
    const DriverResult drained = DrainFor("cuMemUnmap");
    if (drained != DriverResult::kSuccess) return drained;
    return memory_.Unmap(address, bytes);
  }
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override {
    const DriverResult drained = DrainFor("cuMemSetAccess");
    if (drained != DriverResult::kSuccess) return drained;
    return memory_.SetAccess(address, bytes, descs, count);
  }
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.GetAccess(flags, location, address);
  }
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.Retain(handle, address);
  }
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return memory_.GetInfo(free_bytes, total_bytes);
  }

  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override;
  DriverResult LaunchKernel(StreamHandle stream,
                            std::vector<KernelRange> ranges,
                            std::function<void()> body) override;

  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.Create(stream, flags);
  }
  DriverResult StreamDestroy(StreamHandle stream) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.Destroy(stream);
  }
  DriverResult StreamQuery(StreamHandle stream) override {
    return UnlessLost(streams_.Query(stream));
  }
  DriverResult StreamSynchronize(StreamHandle stream) override {
    return UnlessLost(streams_.Synchronize(stream));
  }
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.GetId(stream, id);
  }
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.IsCapturing(stream, status);
  }
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.WaitEvent(stream, event, flags);
  }
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.EventCreate(event, flags);
  }
  DriverResult EventDestroy(EventHandle event) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.EventDestroy(event);
  }
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override {
    if (lost()) return DriverResult::kIllegalAddress;
    return streams_.EventRecord(event, stream);
  }
  DriverResult EventQuery(EventHandle event) override {
    return UnlessLost(streams_.EventQuery(event));
  }
  DriverResult EventSynchronize(EventHandle event) override {
    return UnlessLost(streams_.EventSynchronize(event));
  }
  DriverResult CtxSynchronize() override {
    streams_.SynchronizeAll();
    return UnlessLost(DriverResult::kSuccess);
  }

 private:
  std::unique_ptr<cpu::Storage> MakeStorage(
      uint64_t granularity_bytes, std::unique_ptr<cpu::Backing> backing) {
    if (backing == nullptr) return std::make_unique<cpu::GhostStorage>();
    return std::make_unique<cpu::RealStorage>(
        granularity_bytes, std::move(backing), &guard_,
        [this] { return streams_.IsIdle(); });
  }

  // In the draining mode, waits for all work; `call` names who waits.
  DriverResult DrainFor(const char* call);

  bool lost() const { return device_lost_.load(); }
  DriverResult UnlessLost(DriverResult result) const {
    return lost() ? DriverResult::kIllegalAddress : result;
  }

  bool Permits(const KernelRange& range) {
    return memory_.Permits(
        range.address, range.bytes,
        range.writes ? AccessFlags::kReadWrite : AccessFlags::kRead);
  }
  bool PermitsAll(const std::vector<KernelRange>& ranges) {
    for (const KernelRange& range : ranges) {
      if (!Permits(range)) return false;
    }
    return true;
  }

  // A copy or fill: as a kernel, but an address that is bad at once is refused
  // and not fatal.
  template <typename Body>
  DriverResult Transfer(StreamHandle stream, std::vector<KernelRange> ranges,
                        Body body);
  DriverResult Enqueue(StreamHandle stream, std::vector<KernelRange> ranges,
                       std::function<void()> body);
  // On a worker.
  void Run(const std::vector<KernelRange>& ranges,
           const std::function<void()>& body);

  const bool real_;
  const CpuSync sync_;
  const absl::Duration deadlock_timeout_;
  const std::string device_name_;
  // Set once, by whoever meets an illegal access; never cleared.
  std::atomic<bool> device_lost_{false};
  cpu::FaultGuard guard_;
  cpu::DeviceMemory memory_;
  // Last, so that all work is done before what it works on goes.
  cpu::StreamSet streams_;
};

DriverResult CpuDriverImpl::DrainFor(const char* call) {
  if (lost()) return DriverResult::kIllegalAddress;
  if (sync_ == CpuSync::kLazy) return DriverResult::kSuccess;
  const std::string stuck = streams_.Drain(deadlock_timeout_);
  if (!stuck.empty()) {
    std::fprintf(stderr,
                 "%s: deadlock in %s: the call waits for work that does not "
                 "end: %s\n",
                 device_name_.c_str(), call, stuck.c_str());
    device_lost_.store(true);
    return DriverResult::kLaunchTimeout;
  }
  return UnlessLost(DriverResult::kSuccess);
}

DriverResult CpuDriverImpl::MemcpyDtoDAsync(DevicePtr dst, DevicePtr src,
                                            size_t bytes, StreamHandle stream) {
  // Overlapping copies are undefined on a device: the order of bytes is not
  // fixed.
  if (!lost() && bytes != 0 && Overlap(dst, src, bytes)) {
    return DriverResult::kInvalidValue;
  }
  return Transfer(stream, RangesOfCopy(dst, src, bytes),
                  [=] { std::memcpy(ToPointer(dst), ToPointer(src), bytes); });
}

DriverResult CpuDriverImpl::MemcpyHtoDAsync(DevicePtr dst, const void* src,
                                            size_t bytes, StreamHandle stream) {
  if (!lost() && bytes != 0 && src == nullptr) {
    return DriverResult::kInvalidValue;
  }
  return Transfer(stream, {KernelRange{dst, bytes, /*writes=*/true}},
                  [=] { std::memcpy(ToPointer(dst), src, bytes); });
}

DriverResult CpuDriverImpl::MemcpyDtoHAsync(void* dst, DevicePtr src,
                                            size_t bytes, StreamHandle stream) {
  if (!lost() && bytes != 0 && dst == nullptr) {
    return DriverResult::kInvalidValue;
  }
  return Transfer(stream, {KernelRange{src, bytes, /*writes=*/false}},
                  [=] { std::memcpy(dst, ToPointer(src), bytes); });
}

DriverResult CpuDriverImpl::MemsetD8Async(DevicePtr dst, uint8_t value,
                                          size_t bytes, StreamHandle stream) {
  return Transfer(stream, {KernelRange{dst, bytes, /*writes=*/true}},
                  [=] { std::memset(ToPointer(dst), value, bytes); });
}

DriverResult CpuDriverImpl::LaunchKernel(StreamHandle stream,
                                         std::vector<KernelRange> ranges,
                                         std::function<void()> body) {
  if (lost()) return DriverResult::kIllegalAddress;
  if (body == nullptr) return DriverResult::kInvalidValue;
  return Enqueue(stream, std::move(ranges), std::move(body));
}

template <typename Body>
DriverResult CpuDriverImpl::Transfer(StreamHandle stream,
                                     std::vector<KernelRange> ranges,
                                     Body body) {
  if (lost()) return DriverResult::kIllegalAddress;
  if (!streams_.Contains(stream)) return DriverResult::kInvalidHandle;
  if (ranges.front().bytes == 0) return DriverResult::kSuccess;
  if (!PermitsAll(ranges)) return DriverResult::kInvalidValue;
  // Without contents the check was all there is to do.
  if (!real_) return DriverResult::kSuccess;
  return Enqueue(stream, std::move(ranges), std::move(body));
}

DriverResult CpuDriverImpl::Enqueue(StreamHandle stream,
                                    std::vector<KernelRange> ranges,
                                    std::function<void()> body) {
  if (!real_) {
    // Work takes no time, so that streams are always idle and need no thread.
    if (!streams_.Contains(stream)) return DriverResult::kInvalidHandle;
    if (!PermitsAll(ranges)) device_lost_.store(true);
    return DriverResult::kSuccess;
  }
  return streams_.Enqueue(
      stream, [this, ranges = std::move(ranges), body = std::move(body)] {
        Run(ranges, body);
      });
}

void CpuDriverImpl::Run(const std::vector<KernelRange>& ranges,
                        const std::function<void()>& body) {
  // A lost device runs nothing more.
  if (lost()) return;
  if (!PermitsAll(ranges)) {
    device_lost_.store(true);
    return;
  }
  cpu::FaultGuard::Scope scope(&guard_);
  body();
}

absl::Status BadOption(absl::string_view name, uint64_t value,
                       absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("CpuDriverOptions::", name, " is ", value, ": ", rule));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDriver>> CpuDriver::Create(
    CpuDriverOptions options) {
  const uint64_t granularity_bytes = options.granularity_bytes;
  if (granularity_bytes == 0 ||
      (granularity_bytes & (granularity_bytes - 1)) != 0 ||
      granularity_bytes % cpu::HostPageBytes() != 0) {
    return BadOption("granularity_bytes", granularity_bytes,
                     "it must be a power of two and a multiple of the host's "
                     "page size");
  }
  if (options.deadlock_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("CpuDriverOptions::deadlock_timeout is ",
                     absl::FormatDuration(options.deadlock_timeout),
                     ": it must be positive"));
  }
  const bool real = options.storage == CpuStorage::kReal;
  uint64_t device_bytes = options.device_bytes;
  if (device_bytes == 0 && real) {
    const uint64_t available_bytes = cpu::HostAvailableBytes();
    if (available_bytes < cpu::kHostReserveBytes + granularity_bytes) {
      return absl::ResourceExhaustedError(
          "the host has no memory to spare for a device");
    }
    device_bytes = available_bytes - cpu::kHostReserveBytes;
  } else if (device_bytes == 0) {
    device_bytes = kGhostDeviceBytes;
  }
  const uint64_t device_granules = device_bytes / granularity_bytes;
  if (device_granules == 0 || device_granules > kMaxDeviceGranules) {
    return BadOption(
        "device_bytes", device_bytes,
        absl::StrCat("it must be at least one granule of ", granularity_bytes,
                     " bytes and at most ", kMaxDeviceGranules, " granules"));
  }
  std::unique_ptr<cpu::Backing> backing;
  if (real) {
    auto created = cpu::Backing::Create(granularity_bytes, options.poison);
    if (!created.ok()) return created.status();
    backing = *std::move(created);
  }
  return std::make_unique<CpuDriverImpl>(options, device_granules,
                                         std::move(backing));
}

}  // namespace firn
