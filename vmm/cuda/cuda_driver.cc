// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_driver.h"

#include <utility>

#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/cuda/cuda_device.h"
#include "firn/vmm/cuda/cuda_loader.h"

namespace firn {
namespace {

// Passes each call to the function of the same name. The virtual-memory calls
// belong to no context; all others are made with the device's primary context
// current, so that null streams, new streams and new events are the device's.
class CudaDriver : public Driver {
 public:
  explicit CudaDriver(std::unique_ptr<CudaDevice> device)
      : device_(std::move(device)) {}

  DriverIdentity identity() const override { return device_->identity(); }

  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override {
    // The driver itself is known to dereference a null prop.
    if (prop == nullptr) return DriverResult::kInvalidValue;
    return api().MemGetAllocationGranularity(granularity_bytes, prop, kind);
  }
  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override {
    return api().MemAddressReserve(address, bytes, alignment_bytes, hint,
                                   flags);
  }
  DriverResult MemAddressFree(DevicePtr address, size_t bytes) override {
    return api().MemAddressFree(address, bytes);
  }
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    return api().MemCreate(handle, bytes, prop, flags);
  }
  DriverResult MemRelease(PhysicalHandle handle) override {
    return api().MemRelease(handle);
  }
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override {
    return api().MemMap(address, bytes, offset_bytes, handle, flags);
  }
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override {
    return api().MemUnmap(address, bytes);
  }
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override {
    return api().MemSetAccess(address, bytes, descs, count);
  }
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override {
    if (flags == nullptr) return DriverResult::kInvalidValue;
    // The driver writes 64 bits.
    uint64_t wide_flags = 0;
    const DriverResult result =
        api().MemGetAccess(&wide_flags, location, address);
    if (result == DriverResult::kSuccess) {
      *flags = static_cast<AccessFlags>(wide_flags);
    }
    return result;
  }
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override {
    return api().MemRetainAllocationHandle(handle,
                                           reinterpret_cast<void*>(address));
  }
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override {
    return InContext([&] { return api().MemGetInfo(free_bytes, total_bytes); });
  }

  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return InContext(
        [&] { return api().MemcpyDtoDAsync(dst, src, bytes, stream); });
  }
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override {
    return InContext(
        [&] { return api().MemcpyHtoDAsync(dst, src, bytes, stream); });
  }
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return InContext(
        [&] { return api().MemcpyDtoHAsync(dst, src, bytes, stream); });
  }
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override {
    return InContext(
        [&] { return api().MemsetD8Async(dst, value, bytes, stream); });
  }

  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override {
    return InContext([&] { return api().StreamCreate(stream, flags); });
  }
  DriverResult StreamDestroy(StreamHandle stream) override {
    return InContext([&] { return api().StreamDestroy(stream); });
  }
  DriverResult StreamQuery(StreamHandle stream) override {
    return InContext([&] { return api().StreamQuery(stream); });
  }
  DriverResult StreamSynchronize(StreamHandle stream) override {
    return InContext([&] { return api().StreamSynchronize(stream); });
  }
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override {
    if (api().StreamGetId == nullptr) return DriverResult::kNotSupported;
    return InContext([&] { return api().StreamGetId(stream, id); });
  }
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override {
    return InContext([&] { return api().StreamIsCapturing(stream, status); });
  }
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override {
    return InContext(
        [&] { return api().StreamWaitEvent(stream, event, flags); });
  }
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override {
    return InContext([&] { return api().EventCreate(event, flags); });
  }
  DriverResult EventDestroy(EventHandle event) override {
    return InContext([&] { return api().EventDestroy(event); });
  }
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override {
    return InContext([&] { return api().EventRecord(event, stream); });
  }
  DriverResult EventQuery(EventHandle event) override {
    return InContext([&] { return api().EventQuery(event); });
  }
  DriverResult EventSynchronize(EventHandle event) override {
    return InContext([&] { return api().EventSynchronize(event); });
  }
  DriverResult CtxSynchronize() override {
    return InContext([&] { return api().CtxSynchronize(); });
  }

 private:
  const CudaApi& api() const { return device_->api(); }

  template <typename Call>
  DriverResult InContext(const Call& call) const {
    const ScopedCudaContext scope(*device_);
    if (scope.result() != DriverResult::kSuccess) return scope.result();
    return call();
  }

  const std::unique_ptr<CudaDevice> device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Driver>> OpenCudaDriver(
    const CudaDriverOptions& options) {
  const absl::StatusOr<CudaApi> api = LoadCudaApi(options.library);
  if (!api.ok()) return api.status();
  absl::StatusOr<std::unique_ptr<CudaDevice>> device =
      CudaDevice::Open(*api, options.device_ordinal);
  if (!device.ok()) return device.status();
  return std::make_unique<CudaDriver>(*std::move(device));
}

}  // namespace firn
