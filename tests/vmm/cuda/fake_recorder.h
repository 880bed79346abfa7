// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the functions of the fake libcuda.so note their calls and answer.

#ifndef FIRN_TESTS_VMM_CUDA_FAKE_RECORDER_H_
#define FIRN_TESTS_VMM_CUDA_FAKE_RECORDER_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_types.h"
#include "tests/vmm/cuda/fake_libcuda.h"

namespace firn::testing {

// The state of the library that this is built into.
FakeCudaState& FakeState();

template <typename T>
std::string ArgumentString(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return absl::StrCat("0x", absl::Hex(reinterpret_cast<uintptr_t>(value)));
  } else if constexpr (std::is_enum_v<T> || sizeof(T) == 1) {
    return absl::StrCat(static_cast<int32_t>(value));
  } else {
    return absl::StrCat(value);
  }
}

// Notes a call by its exported name and its inputs; returns the result that
// the test has ordered.
template <typename... Args>
DriverResult Record(const char* name, Args... args) {
  FakeCudaState& state = FakeState();
  if (state.is_stub) return DriverResult::kStubLibrary;
  std::string call = absl::StrCat(name, "(");
  [[maybe_unused]] const char* separator = "";
  ((absl::StrAppend(&call, separator, ArgumentString(args)), separator = ", "),
   ...);
  absl::StrAppend(&call, ")");
  if (!state.context_stack.empty()) {
    absl::StrAppend(&call, " @0x", absl::Hex(state.context_stack.back()));
  }
  state.calls.push_back(call);
  const auto next = state.next_results.find(name);
  if (next != state.next_results.end() && !next->second.empty()) {
    const auto result = static_cast<DriverResult>(next->second.front());
    next->second.pop_front();
    return result;
  }
  const auto it = state.results.find(name);
  return it == state.results.end() ? DriverResult::kSuccess
                                   : static_cast<DriverResult>(it->second);
}

// Writes `value` where the call succeeded.
template <typename T>
DriverResult Give(DriverResult result, T* out, T value) {
  if (result == DriverResult::kSuccess) *out = value;
  return result;
}

template <typename Handle>
Handle FakeHandle(uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_CUDA_FAKE_RECORDER_H_
