// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Holds streams back for as long as a check wants: they wait for a value in
// device memory.

#ifndef FIRN_TESTS_CONTRACT_GATE_H_
#define FIRN_TESTS_CONTRACT_GATE_H_

#include "tests/contract/contract_device.h"

namespace firn::contract {

// While a stream is parked, calls that may wait for all work (MemUnmap,
// MemSetAccess) must not be made: set memory up before.
class Gate {
 public:
  explicit Gate(ContractDevice* device)
      : device_(device),
        address_(device->MapRow()),
        stream_(device->NewStream()) {
    (void)device->FillGranule(address_, 0);
  }
  ~Gate() { Open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // What is queued on `stream` later waits until the gate opens. The stream may
  // belong to another device that has access to `address()`.
  DriverResult Park(StreamHandle stream) {
    return device_->StreamWaitValue32(stream, address_, 1, kWaitValueGeq);
  }
  // For good.
  void Open() {
    (void)device_->StreamWriteValue32(stream_, address_, 1, kWriteValueDefault);
    (void)device_->StreamSynchronize(stream_);
  }
  // Opens it on a stream's turn.
  DriverResult OpenOn(StreamHandle stream) {
    return device_->StreamWriteValue32(stream, address_, 1, kWriteValueDefault);
  }
  DevicePtr address() const { return address_; }

 private:
  ContractDevice* const device_;
  const DevicePtr address_;
  const StreamHandle stream_;
};

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_GATE_H_
