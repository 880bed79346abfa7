// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every call of Driver that a CudaDriver passes to one function of the library,
// and what must arrive there.

#ifndef FIRN_TESTS_VMM_CUDA_PASSED_CALLS_H_
#define FIRN_TESTS_VMM_CUDA_PASSED_CALLS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "firn/vmm/driver.h"

namespace firn::testing {

struct PassedCall {
  std::function<DriverResult(Driver&)> make;
  // The record of it, without the context.
  std::string recorded;
};

// By a driver of device 1, calls that are made in whatever context is current.
std::vector<PassedCall> ContextFreeCalls();
// Calls that are made in the device's primary context.
std::vector<PassedCall> ContextCalls();
// Both.
std::vector<PassedCall> AllPassedCalls();

// The exported name in a record.
std::string NameOf(const PassedCall& call);

// What these calls are made with.
inline constexpr DevicePtr kAddress = 4096;
inline constexpr size_t kBytes = 2048;
const AllocationProp& PinnedProp();
inline StreamHandle FakeStream() {
  return reinterpret_cast<StreamHandle>(0x50);
}
inline EventHandle FakeEvent() { return reinterpret_cast<EventHandle>(0xe0); }
inline GraphHandle FakeGraph() { return reinterpret_cast<GraphHandle>(0x60); }
inline GraphExecHandle FakeGraphExec() {
  return reinterpret_cast<GraphExecHandle>(0x6e);
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_CUDA_PASSED_CALLS_H_
