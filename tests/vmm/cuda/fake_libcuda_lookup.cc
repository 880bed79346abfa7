// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The fake libcuda.so: how its functions are found.

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"
#include "tests/vmm/cuda/fake_libcuda.h"
#include "tests/vmm/cuda/fake_recorder.h"

namespace {

using firn::DriverResult;
using firn::testing::FakeCudaState;
using firn::testing::FakeState;
using firn::testing::Record;

}  // namespace

// Functions of the same base names and other signatures, older and newer than
// those that are meant: X(base name, suffix, version).
#define FIRN_FAKE_TRAPS(X)             \
  X(cuDevicePrimaryCtxRelease, , 7000) \
  X(cuCtxPushCurrent, , 2000)          \
  X(cuCtxPopCurrent, , 2000)           \
  X(cuCtxSynchronize, _v2, 13000)      \
  X(cuMemGetAddressRange, , 2000)      \
  X(cuMemGetInfo, , 2000)              \
  X(cuMemAlloc, , 2000)                \
  X(cuMemFree, , 2000)                 \
  X(cuMemcpyDtoDAsync, , 3000)         \
  X(cuMemcpyHtoDAsync, , 2000)         \
  X(cuMemcpyDtoHAsync, , 2000)         \
  X(cuStreamDestroy, , 2000)           \
  X(cuEventDestroy, , 2000)            \
  X(cuStreamWaitValue32, , 8000)       \
  X(cuStreamWaitValue64, , 9000)       \
  X(cuStreamWriteValue32, , 8000)      \
  X(cuStreamWriteValue64, , 9000)      \
  X(cuStreamBeginCapture, , 10000)

extern "C" {

// A caller that binds one of them shows in the record.
#define FIRN_FAKE_TRAP(name, suffix, version) \
  DriverResult name##suffix() { return Record(#name #suffix); }
FIRN_FAKE_TRAPS(FIRN_FAKE_TRAP)
#undef FIRN_FAKE_TRAP

}  // extern "C"

#if FIRN_FAKE_PROC_ADDRESS > 0

namespace {

// One signature of one base name, and the version that introduced it.
struct Export {
  const char* symbol;
  const char* exported_name;
  int32_t version;
};

constexpr Export kExports[] = {
#define FIRN_FAKE_EXPORT(name, suffix, version, signature) \
  {"cu" #name, "cu" #name suffix, version},
    FIRN_CUDA_REQUIRED_SYMBOLS(FIRN_FAKE_EXPORT)
        FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_FAKE_EXPORT)
#undef FIRN_FAKE_EXPORT
#define FIRN_FAKE_EXPORT(name, suffix, version) {#name, #name #suffix, version},
            FIRN_FAKE_TRAPS(FIRN_FAKE_EXPORT)
#undef FIRN_FAKE_EXPORT
};

// This library.
void* Self() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&FakeState), &info) == 0) return nullptr;
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

// The newest function of that name which is no newer than `version`, as the
// driver chooses.
void* Lookup(absl::string_view symbol, int32_t version) {
  static void* const self = Self();
  if (symbol == FakeState().missing_symbol) return nullptr;
  void* found = nullptr;
  int32_t found_version = 0;
  for (const Export& entry : kExports) {
    if (symbol != entry.symbol || entry.version > version ||
        entry.version < found_version) {
      continue;
    }
    void* const function = dlsym(self, entry.exported_name);
    if (function == nullptr) continue;
    found = function;
    found_version = entry.version;
  }
  return found;
}

DriverResult GetProcAddress(const char* symbol, void** function,
                            int32_t version, uint64_t flags) {
  FakeCudaState& state = FakeState();
  state.requests.push_back({symbol, version, flags});
  if (state.is_stub) return DriverResult::kStubLibrary;
  if (state.lookup_result != 0) {
    return static_cast<DriverResult>(state.lookup_result);
  }
  if (version > state.driver_version) return DriverResult::kInvalidValue;
  *function = Lookup(symbol, version);
  return DriverResult::kSuccess;
}

}  // namespace

extern "C" {

// Told nothing else, a caller that looks at the result alone takes a symbol
// for found.
DriverResult cuGetProcAddress(const char* symbol, void** function,
                              int32_t version, uint64_t flags) {
  return GetProcAddress(symbol, function, version, flags);
}

#if FIRN_FAKE_PROC_ADDRESS == 2
DriverResult cuGetProcAddress_v2(const char* symbol, void** function,
                                 int32_t version, uint64_t flags,
                                 int32_t* status) {
  constexpr int32_t kSymbolNotFound = 1;
  const DriverResult result = GetProcAddress(symbol, function, version, flags);
  *status = *function == nullptr && FakeState().missing_symbol_status
                ? kSymbolNotFound
                : 0;
  return result;
}
#endif

}  // extern "C"

#endif  // FIRN_FAKE_PROC_ADDRESS > 0
