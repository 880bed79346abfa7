// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/contract_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace firn::contract {

ContractDevice::ContractDevice(Way way, DeviceSet* devices, size_t ordinal,
                               CheckResult* result)
    : testing::LedgerDriver(devices->drivers[ordinal].get()),
      way_(way),
      devices_(devices),
      ordinal_(ordinal),
      result_(result) {
  size_t bytes = 0;
  const AllocationProp prop = Prop();
  result_->ExpectSuccess(
      __FILE__, __LINE__, "cuMemGetAllocationGranularity",
      MemGetAllocationGranularity(&bytes, &prop, GranularityKind::kMinimum));
  granule_bytes_ = bytes;
}

bool ContractDevice::Has(DeviceAttribute attribute) {
  int32_t value = 0;
  return DeviceGetAttribute(&value, attribute) == DriverResult::kSuccess &&
         value > 0;
}

AllocationProp ContractDevice::Prop() const {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location = Location();
  return prop;
}

DevicePtr ContractDevice::Reserve(uint64_t granules) {
  DevicePtr address = 0;
  const bool ok = result_->ExpectSuccess(
      __FILE__, __LINE__, "cuMemAddressReserve",
      MemAddressReserve(&address, granules * granule_bytes_, granule_bytes_, 0,
                        0));
  return ok ? address : 0;
}

PhysicalHandle ContractDevice::Create(uint64_t granules) {
  PhysicalHandle handle = 0;
  const AllocationProp prop = Prop();
  const bool ok = result_->ExpectSuccess(
      __FILE__, __LINE__, "cuMemCreate",
      MemCreate(&handle, granules * granule_bytes_, &prop, 0));
  return ok ? handle : 0;
}

DriverResult ContractDevice::SetAccess(DevicePtr address, uint64_t granules,
                                       AccessFlags flags) {
  const AccessDesc desc = Desc(flags);
  return MemSetAccess(address, granules * granule_bytes_, &desc, 1);
}

DevicePtr ContractDevice::MapAnywhere(PhysicalHandle handle,
                                      uint64_t granules) {
  const DevicePtr address = Reserve(granules);
  if (!result_->ExpectSuccess(__FILE__, __LINE__, "cuMemMap",
                              Map(address, handle, granules)) ||
      !result_->ExpectSuccess(__FILE__, __LINE__, "cuMemSetAccess",
                              SetAccess(address, granules))) {
    return 0;
  }
  return address;
}

DevicePtr ContractDevice::MapRow(uint64_t granules) {
  const DevicePtr address = Reserve(granules);
  for (uint64_t i = 0; i < granules; ++i) {
    if (!result_->ExpectSuccess(__FILE__, __LINE__, "cuMemMap",
                                Map(At(address, i), Create()))) {
      return 0;
    }
  }
  const bool ok = result_->ExpectSuccess(__FILE__, __LINE__, "cuMemSetAccess",
                                         SetAccess(address, granules));
  return ok ? address : 0;
}

uint64_t ContractDevice::FreeBytes() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  result_->ExpectSuccess(__FILE__, __LINE__, "cuMemGetInfo",
                         MemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

DriverResult ContractDevice::Fill(DevicePtr address, uint8_t value,
                                  uint64_t bytes) {
  const DriverResult result =
      MemsetD8Async(address, value, bytes, WorkStream());
  if (result != DriverResult::kSuccess) return result;
  return StreamSynchronize(WorkStream());
}

std::vector<uint8_t> ContractDevice::Read(DevicePtr address, uint64_t bytes) {
  std::vector<uint8_t> contents(bytes);
  result_->ExpectSuccess(
      __FILE__, __LINE__, "cuMemcpyDtoHAsync",
      MemcpyDtoHAsync(contents.data(), address, bytes, WorkStream()));
  result_->ExpectSuccess(__FILE__, __LINE__, "cuStreamSynchronize",
                         StreamSynchronize(WorkStream()));
  return contents;
}

bool ContractDevice::AllBytesAre(DevicePtr address, uint8_t value,
                                 uint64_t bytes) {
  const std::vector<uint8_t> contents = Read(address, bytes);
  return std::all_of(contents.begin(), contents.end(),
                     [value](uint8_t byte) { return byte == value; });
}

uint32_t ContractDevice::Word(DevicePtr address) {
  uint32_t word = 0;
  const std::vector<uint8_t> contents = Read(address, sizeof(word));
  std::memcpy(&word, contents.data(), sizeof(word));
  return word;
}

StreamHandle ContractDevice::NewStream(uint32_t flags) {
  StreamHandle stream = nullptr;
  result_->ExpectSuccess(__FILE__, __LINE__, "cuStreamCreate",
                         StreamCreate(&stream, flags));
  return stream;
}

EventHandle ContractDevice::NewEvent() {
  EventHandle event = nullptr;
  result_->ExpectSuccess(__FILE__, __LINE__, "cuEventCreate",
                         EventCreate(&event, kEventDisableTiming));
  return event;
}

DriverResult ContractDevice::LaunchKernel(
    StreamHandle stream, const std::vector<KernelRange>& ranges,
    std::function<void()> body) {
  bodies_.push_back(std::move(body));
  return devices_->launch_kernel(ordinal_, stream, ranges, &bodies_.back());
}

std::string ContractDevice::LastReport() const {
  return devices_->last_report == nullptr ? ""
                                          : devices_->last_report(ordinal_);
}

StreamHandle ContractDevice::WorkStream() {
  if (work_stream_ == nullptr) work_stream_ = NewStream();
  return work_stream_;
}

}  // namespace firn::contract
