// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_loader.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// One line of the table in cuda_api.h.
struct CudaSymbol {
  const char* name;  // without suffix
  const char* suffix;
  int32_t version;
};

std::string VersionString(int32_t version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// "CUDA_ERROR_NOT_PERMITTED (800)".
std::string ResultString(DriverResult result) {
  return absl::StrCat(DriverResultName(result), " (",
                      static_cast<int32_t>(result), ")");
}

template <typename Function>
Function* ExportedFunction(void* library, const std::string& name) {
  return reinterpret_cast<Function*>(dlsym(library, name.c_str()));
}

// Finds functions in an open library, in the best way that it offers:
// cuGetProcAddress of CUDA 12.0, that of CUDA 11.3, or the exported symbols.
class SymbolFinder {
 public:
  explicit SymbolFinder(void* library)
      : library_(library),
        v2_(ExportedFunction<CudaGetProcAddressV2>(library,
                                                   "cuGetProcAddress_v2")),
        v1_(ExportedFunction<CudaGetProcAddressV1>(library,
                                                   "cuGetProcAddress")) {}

  // `*function` is null where the library lacks the symbol; the result is the
  // lookup's own. A lookup may succeed without a function.
  DriverResult Find(const CudaSymbol& symbol, void** function) const {
    *function = nullptr;
    if (v2_ != nullptr) {
      ProcAddressStatus status = ProcAddressStatus::kSuccess;
      const DriverResult result = v2_(symbol.name, function, symbol.version,
                                      kLegacyStreamSymbols, &status);
      if (result != DriverResult::kSuccess ||
          status != ProcAddressStatus::kSuccess) {
        *function = nullptr;
      }
      return result;
    }
    if (v1_ != nullptr) {
      const DriverResult result =
          v1_(symbol.name, function, symbol.version, kLegacyStreamSymbols);
      if (result != DriverResult::kSuccess) *function = nullptr;
      return result;
    }
    *function =
        dlsym(library_, absl::StrCat(symbol.name, symbol.suffix).c_str());
    return DriverResult::kSuccess;
  }

 private:
  void* const library_;
  CudaGetProcAddressV2* const v2_;
  CudaGetProcAddressV1* const v1_;
};

absl::Status StubLibraryError(const std::string& library) {
  return absl::UnavailableError(absl::StrCat(
      library, " is the CUDA toolkit's stub for linking, not a driver"));
}

// Fills the members of one CudaApi from one library.
class ApiBinder {
 public:
  ApiBinder(const std::string& library, void* handle)
      : library_(library), finder_(handle) {}

  template <typename Function>
  absl::Status Require(const CudaSymbol& symbol, Function** member) const {
    void* function = nullptr;
    const absl::Status status = RequireAddress(symbol, &function);
    *member = reinterpret_cast<Function*>(function);
    return status;
  }

  template <typename Function>
  void Want(const CudaSymbol& symbol, Function** member) const {
    void* function = nullptr;
    finder_.Find(symbol, &function);
    *member = reinterpret_cast<Function*>(function);
  }

 private:
  absl::Status RequireAddress(const CudaSymbol& symbol, void** function) const {
    const DriverResult result = finder_.Find(symbol, function);
    if (result == DriverResult::kStubLibrary) return StubLibraryError(library_);
    const std::string name = absl::StrCat(symbol.name, symbol.suffix);
    if (result != DriverResult::kSuccess) {
      return absl::UnavailableError(absl::StrCat("the CUDA driver ", library_,
                                                 " refuses to look up ", name,
                                                 ": ", ResultString(result)));
    }
    if (*function == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("the CUDA driver ", library_, " lacks ", name,
                       " (of CUDA ", VersionString(symbol.version), ")"));
    }
    return absl::OkStatus();
  }

  const std::string library_;
  const SymbolFinder finder_;
};

absl::Status AskVersion(const std::string& library, CudaApi* api) {
  const DriverResult result = api->DriverGetVersion(&api->driver_version);
  if (result == DriverResult::kStubLibrary) return StubLibraryError(library);
  if (result != DriverResult::kSuccess) {
    return CudaUnavailable(*api, "cuDriverGetVersion", result);
  }
  return absl::OkStatus();
}

// What every driver has, and its version.
absl::Status BindDeviceFunctions(const std::string& library,
                                 const ApiBinder& binder, CudaApi* api) {
  absl::Status status;
#define FIRN_CUDA_REQUIRE(function, suffix, version, signature)               \
  status = binder.Require({"cu" #function, suffix, version}, &api->function); \
  if (!status.ok()) return status;
  FIRN_CUDA_DEVICE_SYMBOLS(FIRN_CUDA_REQUIRE)
#undef FIRN_CUDA_REQUIRE
  return AskVersion(library, api);
}

// What moving memory takes; the message says what is missing. The version comes
// first, so that an old driver is called old rather than incomplete.
absl::Status BindMovingFunctions(const std::string& library,
                                 const ApiBinder& binder, CudaApi* api) {
  if (api->driver_version < kMinimumDriverVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "the CUDA driver ", library, " is too old: it supports CUDA ",
        VersionString(api->driver_version), " and firn needs ",
        VersionString(kMinimumDriverVersion)));
  }
  absl::Status status;
#define FIRN_CUDA_REQUIRE(function, suffix, version, signature)               \
  status = binder.Require({"cu" #function, suffix, version}, &api->function); \
  if (!status.ok()) return status;
  FIRN_CUDA_MOVING_SYMBOLS(FIRN_CUDA_REQUIRE)
#undef FIRN_CUDA_REQUIRE
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CudaApi> LoadCudaApi(const std::string& library) {
  const std::string name = library.empty() ? "libcuda.so.1" : library;
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return absl::UnavailableError(
        absl::StrCat("cannot open the CUDA driver: ",
                     reason != nullptr ? reason : name.c_str()));
  }
  const ApiBinder binder(name, handle);
  CudaApi api;
#define FIRN_CUDA_WANT(function, suffix, version, signature) \
  binder.Want({"cu" #function, suffix, version}, &api.function);
  FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_CUDA_WANT)
#undef FIRN_CUDA_WANT
  const absl::Status status = BindDeviceFunctions(name, binder, &api);
  if (!status.ok()) return status;
  api.shortfall =
      std::string(BindMovingFunctions(name, binder, &api).message());
  return api;
}

absl::Status CudaUnavailable(const CudaApi& api, absl::string_view call,
                             DriverResult result) {
  const char* text = nullptr;
  if (api.GetErrorString != nullptr &&
      api.GetErrorString(result, &text) == DriverResult::kSuccess &&
      text != nullptr) {
    return absl::UnavailableError(absl::StrCat(
        call, ": ", text, " (", static_cast<int32_t>(result), ")"));
  }
  return absl::UnavailableError(absl::StrCat(call, ": ", ResultString(result)));
}

}  // namespace firn
