// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/vmm/cpu/libcuda/libcuda_library.h"

#include <dlfcn.h>

#include <cstdio>

#include "firn/vmm/cuda/cuda_loader.h"

namespace firn::testing {

void* OpenLibrary(const char* spec) {
  setenv("FIRN_CPU_DRIVER", spec, /*overwrite=*/1);
  void* const library = dlopen(FIRN_CPU_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return library;
}

void* ExportedSymbol(const std::string& name) {
  static void* const library = dlopen(FIRN_CPU_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  return dlsym(library, name.c_str());
}

const CudaApi& StartedApi() {
  static const CudaApi api = [] {
    OpenLibrary();
    const absl::StatusOr<CudaApi> loaded = LoadCudaApi(FIRN_CPU_LIBCUDA);
    if (!loaded.ok() || loaded->Init(0) != DriverResult::kSuccess) {
      std::fprintf(stderr, "cannot start %s: %s\n", FIRN_CPU_LIBCUDA,
                   loaded.status().ToString().c_str());
      std::abort();
    }
    return *loaded;
  }();
  return api;
}

ScopedPrimaryContext::ScopedPrimaryContext(int device) : device_(device) {
  StartedApi().DevicePrimaryCtxRetain(&context_, device);
  StartedApi().CtxPushCurrent(context_);
}

ScopedPrimaryContext::~ScopedPrimaryContext() {
  CudaContext popped = nullptr;
  StartedApi().CtxPopCurrent(&popped);
  StartedApi().DevicePrimaryCtxRelease(device_);
}

AllocationProp PinnedOn(int device) {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location = {LocationType::kDevice, device};
  return prop;
}

}  // namespace firn::testing
