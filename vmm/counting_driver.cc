// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/counting_driver.h"

#include <algorithm>

namespace firn {
namespace {

// A part of a granule is charged as one handle.
uint64_t HandlesOf(uint64_t bytes, uint64_t granule_bytes) {
  const uint64_t whole = bytes / granule_bytes;
  return std::max<uint64_t>(whole + (bytes % granule_bytes != 0 ? 1 : 0), 1);
}

size_t IndexOf(DriverCall call) { return static_cast<size_t>(call); }

}  // namespace

CountingDriver::CountingDriver(Driver* base, CostModel model,
                               uint64_t granule_bytes, DriverClock* clock)
    : DriverWrapper(base),
      granule_bytes_(std::max<uint64_t>(granule_bytes, 1)),
      clock_(clock == nullptr ? &own_clock_ : clock),
      model_(model) {}

DriverResult CountingDriver::Around(const DriverCallArgs& args,
                                    absl::FunctionRef<DriverResult()> call) {
  const DriverResult result = call();
  const MutexLock lock(&mutex_);
  if (result == DriverResult::kSuccess) {
    ++succeeded_[IndexOf(args.call)];
    Charge(args);
  } else {
    ++failed_[IndexOf(args.call)];
  }
  return result;
}

void CountingDriver::Charge(const DriverCallArgs& args) {
  double us = 0;
  switch (args.call) {
    case DriverCall::kMemAddressReserve:
      us = model_.Reserve();
      break;
    case DriverCall::kMemCreate:
      us = model_.Create();
      create_us_ += us;
      break;
    case DriverCall::kMemMap:
      us = model_.Map();
      break;
    case DriverCall::kMemSetAccess:  // address, bytes, ...
      us = model_.SetAccess(HandlesOf(args.values[1], granule_bytes_));
      break;
    case DriverCall::kMemUnmap:  // address, bytes
      us = model_.Unmap(HandlesOf(args.values[1], granule_bytes_));
      break;
    case DriverCall::kMemRelease:
      us = model_.Release();
      break;
    case DriverCall::kMemAlloc:
      us = model_.Create();
      create_us_ += us;
      us += model_.Reserve() + model_.Map() + model_.SetAccess(1);
      break;
    case DriverCall::kMemFree:
      us = model_.Unmap(1) + model_.Release();
      break;
    case DriverCall::kMemcpyDtoDAsync:  // dst, src, bytes, ...
      copy_us_ += model_.Copy(args.values[2]);
      return;
    default:
      return;
  }
  driver_us_ += us;
  clock_->Charge(us);
}

uint64_t CountingDriver::count(DriverCall call) const {
  const MutexLock lock(&mutex_);
  return succeeded_[IndexOf(call)];
}

uint64_t CountingDriver::failed(DriverCall call) const {
  const MutexLock lock(&mutex_);
  return failed_[IndexOf(call)];
}

DriverCalls CountingDriver::calls() const {
  const MutexLock lock(&mutex_);
  DriverCalls calls;
  calls.create = succeeded_[IndexOf(DriverCall::kMemCreate)];
  calls.map = succeeded_[IndexOf(DriverCall::kMemMap)];
  calls.unmap = succeeded_[IndexOf(DriverCall::kMemUnmap)];
  calls.set_access = succeeded_[IndexOf(DriverCall::kMemSetAccess)];
  calls.release = succeeded_[IndexOf(DriverCall::kMemRelease)];
  calls.reserve = succeeded_[IndexOf(DriverCall::kMemAddressReserve)];
  calls.copy = succeeded_[IndexOf(DriverCall::kMemcpyDtoDAsync)];
  return calls;
}

double CountingDriver::driver_us() const {
  const MutexLock lock(&mutex_);
  return driver_us_;
}

double CountingDriver::create_us() const {
  const MutexLock lock(&mutex_);
  return create_us_;
}

double CountingDriver::copy_us() const {
  const MutexLock lock(&mutex_);
  return copy_us_;
}

}  // namespace firn
