// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/kernel_api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace firn::gpu_check {
namespace {

void* OpenAgain(const std::string& library) {
  const std::string name = library.empty() ? "libcuda.so.1" : library;
  return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Null where the library lacks it.
void* Find(void* library, const char* name, const char* suffix,
           int32_t version) {
  if (library == nullptr) return nullptr;
  const auto look_up = reinterpret_cast<CudaGetProcAddressV2*>(
      dlsym(library, "cuGetProcAddress_v2"));
  if (look_up == nullptr) {
    return dlsym(library, absl::StrCat(name, suffix).c_str());
  }
  void* function = nullptr;
  ProcAddressStatus status = ProcAddressStatus::kSuccess;
  const DriverResult result =
      look_up(name, &function, version, kLegacyStreamSymbols, &status);
  return result == DriverResult::kSuccess ? function : nullptr;
}

}  // namespace

absl::Status KernelApi::CanLaunch() const {
#define FIRN_KERNEL_NEED(name, suffix, version, signature)               \
  if (name == nullptr) {                                                 \
    return absl::UnimplementedError("the driver lacks cu" #name suffix); \
  }
  FIRN_KERNEL_SYMBOLS(FIRN_KERNEL_NEED)
#undef FIRN_KERNEL_NEED
  return absl::OkStatus();
}

KernelApi LoadKernelApi(const std::string& library) {
  void* const handle = OpenAgain(library);
  KernelApi api;
#define FIRN_KERNEL_FIND(name, suffix, version, signature)    \
  api.name = reinterpret_cast<std::add_pointer_t<signature>>( \
      Find(handle, "cu" #name, suffix, version));
  FIRN_KERNEL_SYMBOLS(FIRN_KERNEL_FIND)
  FIRN_CONTEXT_SYMBOLS(FIRN_KERNEL_FIND)
#undef FIRN_KERNEL_FIND
  return api;
}

void* FindExport(const std::string& library, const char* name) {
  void* const handle = OpenAgain(library);
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

}  // namespace firn::gpu_check
