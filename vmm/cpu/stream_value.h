// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Values in device memory that streams write and wait for.

#ifndef FIRN_VMM_CPU_STREAM_VALUE_H_
#define FIRN_VMM_CPU_STREAM_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Whether a stream that waits with `flags` (kWaitValue...) for `wanted` goes on
// when `found` is in memory. Differences are signed, as CUDA has them, so that
// counters may wrap.
template <typename Value>
bool IsSatisfied(Value found, Value wanted, uint32_t flags) {
  constexpr Value kSignBit = Value{1} << (sizeof(Value) * 8 - 1);
  switch (flags) {
    case kWaitValueGeq:
      return (static_cast<Value>(found - wanted) & kSignBit) == 0;
    case kWaitValueEq:
      return found == wanted;
    case kWaitValueAnd:
      return (found & wanted) != 0;
    case kWaitValueNor:
      return static_cast<Value>(~(found | wanted)) != 0;
  }
  return false;
}

template <typename Value>
std::string DescribeWait(DevicePtr address, Value wanted, uint32_t flags) {
  constexpr absl::string_view kRelations[] = {">=", "==", "&", "nor"};
  return absl::StrCat("the value at 0x", absl::Hex(address), " to be ",
                      kRelations[flags], " ", wanted);
}

// Atomic, and no race in a sanitizer's eyes: whoever writes the value next to
// these, a kernel or a copy, does so at the same time on purpose.
template <typename Value>
__attribute__((no_sanitize("thread"))) Value LoadValue(DevicePtr address) {
  return __atomic_load_n(
      reinterpret_cast<const Value*>(static_cast<uintptr_t>(address)),
      __ATOMIC_ACQUIRE);
}
template <typename Value>
__attribute__((no_sanitize("thread"))) void StoreValue(DevicePtr address,
                                                       Value value) {
  __atomic_store_n(reinterpret_cast<Value*>(static_cast<uintptr_t>(address)),
                   value, __ATOMIC_RELEASE);
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STREAM_VALUE_H_
