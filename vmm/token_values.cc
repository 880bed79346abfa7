// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/token_values.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// How often a call is made whose failure would leave something behind.
constexpr int kTries = 3;

// The places of memory that a device may reach at the address at which the host
// does, best first.
std::vector<MemLocation> HostLocations(Driver* driver) {
  std::vector<MemLocation> locations(1);
  locations[0].type = LocationType::kHost;
  int32_t node = 0;
  if (driver->DeviceGetAttribute(&node, DeviceAttribute::kHostNumaId) ==
          DriverResult::kSuccess &&
      node >= 0) {
    MemLocation numa;
    numa.type = LocationType::kHostNuma;
    numa.id = node;
    locations.push_back(numa);
  }
  return locations;
}

// The stream is there, but calls on it are not made through this device.
bool IsRefusal(DriverResult result) {
  return result == DriverResult::kInvalidHandle ||
         result == DriverResult::kInvalidContext ||
         result == DriverResult::kInvalidValue ||
         result == DriverResult::kNotSupported;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenValues>> TokenValues::Create(
    std::vector<Driver*> devices) {
  const ScopedRelaxedCapture relaxed(devices.front());
  absl::Status status = relaxed.status();
  if (!status.ok()) return status;
  for (const MemLocation& location : HostLocations(devices.front())) {
    std::unique_ptr<TokenValues> values(new TokenValues(devices));
    status = values->CheckAttributes();
    if (status.ok()) status = values->MakeMemory(location);
    if (status.ok()) status = values->TryWrites();
    if (status.ok()) return values;
    if (absl::IsDataLoss(status)) break;
  }
  return status;
}

TokenValues::~TokenValues() {
  if (abandoned_) return;
  Driver* const driver = devices_.front();
  const ScopedRelaxedCapture relaxed(driver);
  if (mapped_) driver->MemUnmap(base_, bytes_);
  if (has_handle_) driver->MemRelease(handle_);
  if (base_ != 0) driver->MemAddressFree(base_, bytes_);
}

absl::Status TokenValues::CheckAttributes() const {
  for (Driver* const driver : devices_) {
    int32_t supported = 0;
    const DriverResult result = driver->DeviceGetAttribute(
        &supported, DeviceAttribute::k64BitStreamMemOps);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuDeviceGetAttribute");
    }
    if (supported == 0) {
      return absl::UnimplementedError(
          "a device has no 64-bit stream memory operations");
    }
  }
  return absl::OkStatus();
}

absl::Status TokenValues::MakeMemory(const MemLocation& location) {
  Driver* const driver = devices_.front();
  const AllocationProp prop = HostProp(location);
  size_t granularity_bytes = 0;
  DriverResult result = driver->MemGetAllocationGranularity(
      &granularity_bytes, &prop, GranularityKind::kMinimum);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemGetAllocationGranularity");
  }
  bytes_ = granularity_bytes;
  result = driver->MemAddressReserve(&base_, bytes_, bytes_, 0, 0);
  if (result != DriverResult::kSuccess) {
    base_ = 0;
    return ToStatus(result, "cuMemAddressReserve");
  }
  result = driver->MemCreate(&handle_, bytes_, &prop, 0);
  if (result != DriverResult::kSuccess) return ToStatus(result, "cuMemCreate");
  has_handle_ = true;
  result = driver->MemMap(base_, bytes_, 0, handle_, 0);
  if (result != DriverResult::kSuccess) return ToStatus(result, "cuMemMap");
  mapped_ = true;
  std::vector<AccessDesc> access(1);
  access[0].location = location;
  for (Driver* const device : devices_) {
    access.emplace_back();
    access.back().location.type = LocationType::kDevice;
    access.back().location.id = device->identity().device_ordinal;
  }
  for (AccessDesc& desc : access) desc.flags = AccessFlags::kReadWrite;
  result = driver->MemSetAccess(base_, bytes_, access.data(), access.size());
  return ToStatus(result, "cuMemSetAccess");
}

absl::Status TokenValues::TryWrites() {
  uint64_t value = 0;
  for (Driver* const driver : devices_) {
    const absl::Status status = TryWrite(driver, ++value);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TokenValues::TryWrite(Driver* driver, uint64_t value) {
  StreamHandle stream = nullptr;
  DriverResult result = driver->StreamCreate(&stream, kStreamNonBlocking);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuStreamCreate");
  }
  absl::Status status =
      ToStatus(driver->StreamWriteValue64(stream, AddressOf(0), value,
                                          kWriteValueDefault),
               "cuStreamWriteValue64");
  if (status.ok()) {
    for (int i = 0; i < kTries; ++i) {
      result = driver->StreamSynchronize(stream);
      if (result == DriverResult::kSuccess) break;
    }
    status = ToStatus(result, "cuStreamSynchronize");
    // The memory has contents only where a write to it was accepted.
    if (!status.ok()) {
      abandoned_ = !absl::IsDataLoss(status);
    } else if (Load(0) != value) {
      status = absl::UnimplementedError(
          "a value written by a device does not reach the host");
    }
  }
  for (int i = 0; i < kTries; ++i) {
    result = driver->StreamDestroy(stream);
    if (result == DriverResult::kSuccess) break;
  }
  return status.ok() ? ToStatus(result, "cuStreamDestroy") : status;
}

absl::Status TokenValues::Begin(TokenRecord* record) {
  if (!free_counters_.empty()) {
    record->counter = free_counters_.back();
    free_counters_.pop_back();
  } else if (counters_begun_ < bytes_ / sizeof(uint64_t)) {
    record->counter = counters_begun_++;
    free_counters_.reserve(counters_begun_);
  } else {
    return absl::ResourceExhaustedError(
        absl::StrCat(counters_begun_, " streams have tokens pending"));
  }
  // Fresh memory holds anything.
  Store(record->counter, record->done);
  return absl::OkStatus();
}

absl::Status TokenValues::Write(TokenRecord* record, StreamHandle stream,
                                uint64_t sequence) {
  const DevicePtr address = AddressOf(record->counter);
  const size_t first = record->place.device;
  DriverResult result = devices_[first]->StreamWriteValue64(
      stream, address, sequence, kWriteValueDefault);
  if (!record->place.is_foreign || !IsRefusal(result)) {
    return ToStatus(result, "cuStreamWriteValue64");
  }
  for (size_t device = 0; device < devices_.size(); ++device) {
    if (device == first) continue;
    result = devices_[device]->StreamWriteValue64(stream, address, sequence,
                                                  kWriteValueDefault);
    if (IsRefusal(result)) continue;
    if (result == DriverResult::kSuccess) record->place.device = device;
    return ToStatus(result, "cuStreamWriteValue64");
  }
  return absl::UnimplementedError(
      absl::StrCat("no device writes values on a stream of that context: ",
                   DriverResultName(result)));
}

absl::Status TokenValues::Poll(TokenRecord* record, uint64_t sequence) {
  // What the stream did before it wrote the value has happened before.
  const uint64_t found = Load(record->counter);
  if (found >= sequence && found > record->done) record->done = found;
  return absl::OkStatus();
}

void TokenValues::End(TokenRecord* record) {
  if (record->is_pending()) {
    abandoned_ = true;
  } else {
    free_counters_.push_back(record->counter);
  }
}

absl::Status TokenValues::Check(const TokenRecord& record) const {
  const uint64_t found = Load(record.counter);
  if (record.counter >= counters_begun_ || found < record.done ||
      found > record.written) {
    return absl::InternalError(
        absl::StrCat("stream ", record.stream_id, ": counter ", record.counter,
                     " is at ", found, "; tokens up to ", record.written,
                     " are written, up to ", record.done, " done"));
  }
  return absl::OkStatus();
}

uint64_t TokenValues::Load(uint32_t counter) const {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(
                             static_cast<uintptr_t>(AddressOf(counter))),
                         __ATOMIC_ACQUIRE);
}

void TokenValues::Store(uint32_t counter, uint64_t value) {
  __atomic_store_n(
      reinterpret_cast<uint64_t*>(static_cast<uintptr_t>(AddressOf(counter))),
      value, __ATOMIC_RELEASE);
}

}  // namespace firn
