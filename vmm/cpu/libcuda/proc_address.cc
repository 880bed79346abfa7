// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// cuGetProcAddress, in both its forms. They need no cuInit.

#include <cstring>

#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

// CUdriverProcAddress_flags; 0 means the legacy stream too.
constexpr uint64_t kPerThreadStreamSymbols = 2;

struct Symbol {
  const char* name;
  int32_t version;
  void* function;
};

// The functions as this library has them, whatever else a process has loaded.
const Symbol* Symbols(size_t* count) {
  static const Symbol symbols[] = {
#define FIRN_LIBCUDA_ENTRY(name, suffix, version, signature) \
  {"cu" #name, version, reinterpret_cast<void*>(&cu##name##_v##version)},
      FIRN_LIBCUDA_SYMBOLS(FIRN_LIBCUDA_ENTRY)
#undef FIRN_LIBCUDA_ENTRY
          {"firnCpuLaunchHostKernel", 0,
           reinterpret_cast<void*>(&firnCpuLaunchHostKernel)},
      {"firnCpuLastReport", 0, reinterpret_cast<void*>(&firnCpuLastReport)},
      {"firnCpuModelledTime", 0, reinterpret_cast<void*>(&firnCpuModelledTime)},
  };
  *count = sizeof(symbols) / sizeof(symbols[0]);
  return symbols;
}

// The newest function of that name which is no newer than `version`; null if
// there is none, and the status says why.
void* Find(const char* name, int32_t version, ProcAddressStatus* status) {
  size_t count = 0;
  const Symbol* const symbols = Symbols(&count);
  const Symbol* best = nullptr;
  *status = ProcAddressStatus::kSymbolNotFound;
  for (size_t i = 0; i < count; ++i) {
    const Symbol& symbol = symbols[i];
    if (std::strcmp(symbol.name, name) != 0) continue;
    if (symbol.version > version) {
      if (best == nullptr) *status = ProcAddressStatus::kVersionNotSufficient;
      continue;
    }
    if (best == nullptr || symbol.version > best->version) best = &symbol;
  }
  if (best == nullptr) return nullptr;
  *status = ProcAddressStatus::kSuccess;
  return best->function;
}

DriverResult GetProcAddress(const char* name, void** function, int32_t version,
                            uint64_t flags, ProcAddressStatus* status) {
  if (name == nullptr || function == nullptr) {
    return DriverResult::kInvalidValue;
  }
  if (version > kDriverVersion) return DriverResult::kInvalidValue;
  if (flags > kPerThreadStreamSymbols) return DriverResult::kInvalidValue;
  // Functions of the legacy stream instead would be wrong without a word.
  if (flags == kPerThreadStreamSymbols) return DriverResult::kNotSupported;
  *function = Find(name, version, status);
  return DriverResult::kSuccess;
}

}  // namespace

extern "C" {

// Of CUDA 11.3: a function that is not there is an error.
DriverResult cuGetProcAddress_v11030(const char* name, void** function,
                                     int32_t version, uint64_t flags) {
  ProcAddressStatus status = ProcAddressStatus::kSuccess;
  const DriverResult result =
      GetProcAddress(name, function, version, flags, &status);
  if (result != DriverResult::kSuccess) return result;
  return status == ProcAddressStatus::kSuccess ? DriverResult::kSuccess
                                               : DriverResult::kNotFound;
}

// Of CUDA 12.0: it is a status.
DriverResult cuGetProcAddress_v12000(const char* name, void** function,
                                     int32_t version, uint64_t flags,
                                     ProcAddressStatus* status) {
  ProcAddressStatus found = ProcAddressStatus::kSuccess;
  const DriverResult result =
      GetProcAddress(name, function, version, flags, &found);
  if (result == DriverResult::kSuccess && status != nullptr) *status = found;
  return result;
}

}  // extern "C"
}  // namespace firn::libcuda
