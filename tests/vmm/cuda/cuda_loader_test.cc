// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_loader.h"

#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/cuda/cuda_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/cuda/fake_driver_library.h"
#include "tests/vmm/cuda/fake_libcuda.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kLegacyStream = 1;

// The version that introduced the signature which firn calls, by symbol, as
// the toolkit's cudaTypedefs.h lists them.
const std::map<std::string, int32_t>& IntroductionVersions() {
  static const auto* const versions = new std::map<std::string, int32_t>{
      {"cuInit", 2000},
      {"cuDriverGetVersion", 2020},
      {"cuGetErrorString", 6000},
      {"cuDeviceGet", 2000},
      {"cuDeviceGetCount", 2000},
      {"cuDeviceGetName", 2000},
      {"cuDeviceGetAttribute", 2000},
      {"cuDeviceCanAccessPeer", 4000},
      {"cuDevicePrimaryCtxRetain", 7000},
      {"cuDevicePrimaryCtxRelease", 11000},
      {"cuCtxPushCurrent", 4000},
      {"cuCtxPopCurrent", 4000},
      {"cuCtxSynchronize", 2000},
      {"cuMemGetAllocationGranularity", 10020},
      {"cuMemAddressReserve", 10020},
      {"cuMemAddressFree", 10020},
      {"cuMemCreate", 10020},
      {"cuMemRelease", 10020},
      {"cuMemMap", 10020},
      {"cuMemUnmap", 10020},
      {"cuMemSetAccess", 10020},
      {"cuMemGetAccess", 10020},
      {"cuMemRetainAllocationHandle", 11000},
      {"cuMemGetAllocationPropertiesFromHandle", 10020},
      {"cuMemExportToShareableHandle", 10020},
      {"cuMemImportFromShareableHandle", 10020},
      {"cuMemGetAddressRange", 3020},
      {"cuPointerGetAttribute", 4000},
      {"cuMemGetInfo", 3020},
      {"cuMemAlloc", 3020},
      {"cuMemFree", 3020},
      {"cuMemcpyDtoDAsync", 3020},
      {"cuMemcpyHtoDAsync", 3020},
      {"cuMemcpyDtoHAsync", 3020},
      {"cuMemsetD8Async", 3020},
      {"cuStreamCreate", 2000},
      {"cuStreamDestroy", 4000},
      {"cuStreamQuery", 2000},
      {"cuStreamSynchronize", 2000},
      {"cuStreamGetId", 12000},
      {"cuStreamIsCapturing", 10000},
      {"cuStreamWaitEvent", 3020},
      {"cuEventCreate", 2000},
      {"cuEventDestroy", 4000},
      {"cuEventRecord", 2000},
      {"cuEventQuery", 2000},
      {"cuEventSynchronize", 2000},
      {"cuStreamWaitValue32", 11070},
      {"cuStreamWaitValue64", 11070},
      {"cuStreamWriteValue32", 11070},
      {"cuStreamWriteValue64", 11070},
      {"cuLaunchHostFunc", 10000},
      {"cuStreamBeginCapture", 10010},
      {"cuStreamEndCapture", 10000},
      {"cuThreadExchangeStreamCaptureMode", 10010},
      {"cuGraphInstantiateWithFlags", 11040},
      {"cuGraphLaunch", 10000},
      {"cuGraphExecDestroy", 10000},
      {"cuGraphDestroy", 10000},
  };
  return *versions;
}

// The symbols that a driver may lack, and the versions that introduced them.
std::map<std::string, int32_t> OptionalSymbols() {
  std::map<std::string, int32_t> symbols;
  for (const char* name :
       {"cuGetErrorString", "cuStreamGetId", "cuStreamWaitValue32",
        "cuStreamWaitValue64", "cuStreamWriteValue32", "cuStreamWriteValue64",
        "cuGraphInstantiateWithFlags"}) {
    symbols[name] = IntroductionVersions().at(name);
  }
  return symbols;
}

// By symbol, whether the optional function was found.
std::map<std::string, bool> OptionalFound(const CudaApi& api) {
  std::map<std::string, bool> found;
#define FIRN_ADD_FOUND(name, suffix, version, signature) \
  found["cu" #name] = api.name != nullptr;
  FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_ADD_FOUND)
#undef FIRN_ADD_FOUND
  return found;
}

std::map<std::string, int32_t> Requested(const FakeCudaState& state) {
  std::map<std::string, int32_t> versions;
  for (const SymbolRequest& request : state.requests) {
    versions[request.symbol] = request.version;
  }
  return versions;
}

TEST(CudaLoaderTest, EachSymbolIsRequestedAtTheVersionThatIntroducedIt) {
  FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V2);
  FIRN_ASSERT_OK(LoadCudaApi(FIRN_FAKE_LIBCUDA_V2).status());
  EXPECT_EQ(Requested(library.state()), IntroductionVersions());
}

TEST(CudaLoaderTest, EachSymbolIsRequestedForTheLegacyDefaultStream) {
  FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V2);
  FIRN_ASSERT_OK(LoadCudaApi(FIRN_FAKE_LIBCUDA_V2).status());
  ASSERT_FALSE(library.state().requests.empty());
  for (const SymbolRequest& request : library.state().requests) {
    EXPECT_EQ(request.flags, kLegacyStream) << request.symbol;
  }
}

TEST(CudaLoaderTest, LoadingCallsNothingButTheVersion) {
  FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V2);
  FIRN_ASSERT_OK_AND_ASSIGN(const CudaApi api,
                            LoadCudaApi(FIRN_FAKE_LIBCUDA_V2));
  EXPECT_EQ(api.driver_version, 13000);
  EXPECT_THAT(library.state().calls, ElementsAre("cuDriverGetVersion()"));
}

TEST(CudaLoaderTest, AMissingLibraryIsExplainedByTheSystemsLoader) {
  EXPECT_THAT(LoadCudaApi("/nowhere/libcuda.so.1").status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(StartsWith("cannot open the CUDA driver: "),
                             HasSubstr("/nowhere/libcuda.so.1"),
                             HasSubstr("No such file or directory"))));
}

TEST(CudaLoaderTest, ALibraryThatIsNoDriverLacksTheFirstFunction) {
  // Any library will do that is always there.
  EXPECT_THAT(LoadCudaApi("libc.so.6").status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("the CUDA driver libc.so.6 lacks cuInit "
                          "(of CUDA 2.0)")));
}

TEST(CudaLoaderTest, AStubIsCalledAStub) {
  for (const char* path : {FIRN_FAKE_LIBCUDA_EXPORTS, FIRN_FAKE_LIBCUDA_V1,
                           FIRN_FAKE_LIBCUDA_V2}) {
    FakeDriverLibrary library(path);
    library.state().is_stub = true;
    EXPECT_THAT(LoadCudaApi(path).status(),
                StatusIs(absl::StatusCode::kUnavailable,
                         Eq(absl::StrCat(
                             path,
                             " is the CUDA toolkit's stub for linking, not a "
                             "driver"))));
  }
}

TEST(CudaLoaderTest, AnOldDriverIsCalledOldAndNotIncomplete) {
  FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V2);
  library.state().driver_version = 10010;
  FIRN_ASSERT_OK_AND_ASSIGN(const CudaApi api,
                            LoadCudaApi(FIRN_FAKE_LIBCUDA_V2));
  EXPECT_THAT(api.shortfall,
              EndsWith("is too old: it supports CUDA 10.1 and firn "
                       "needs 11.0"));
  EXPECT_NE(api.DeviceGetCount, nullptr);
}

TEST(CudaLoaderTest, AVersionThatIsNotGivenMakesTheDriverUnavailable) {
  for (const char* path : {FIRN_FAKE_LIBCUDA_EXPORTS, FIRN_FAKE_LIBCUDA_V2}) {
    FakeDriverLibrary library(path);
    library.state().driver_version = 11020;
    library.state().results = {{"cuDriverGetVersion", 803}};
    EXPECT_THAT(
        LoadCudaApi(path).status(),
        StatusIs(absl::StatusCode::kUnavailable,
                 Eq("cuDriverGetVersion: the fake's error text (803)")));
  }
}

// In particular, older functions of the same names are not taken instead.
TEST(CudaLoaderTest, ADriverLoadsWithoutWhatIsNewerThanItself) {
  for (const int32_t driver_version : {11000, 11040, 11060, 11070, 12000}) {
    FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V2);
    library.state().driver_version = driver_version;
    FIRN_ASSERT_OK_AND_ASSIGN(const CudaApi api,
                              LoadCudaApi(FIRN_FAKE_LIBCUDA_V2));
    std::map<std::string, bool> expected;
    for (const auto& [symbol, version] : OptionalSymbols()) {
      expected[symbol] = version <= driver_version;
    }
    EXPECT_EQ(OptionalFound(api), expected) << driver_version;
    EXPECT_NE(api.MemRetainAllocationHandle, nullptr);
  }
}

// What makes a library a driver.
const std::set<std::string>& DeviceSymbols() {
  static const auto* const symbols = new std::set<std::string>{
      "cuInit",           "cuDriverGetVersion", "cuDeviceGet",
      "cuDeviceGetCount", "cuDeviceGetName",    "cuDeviceGetAttribute"};
  return *symbols;
}

TEST(CudaLoaderTest, EachMissingSymbolIsNamed) {
  for (const auto& [symbol, version] : IntroductionVersions()) {
    if (OptionalSymbols().count(symbol) > 0) continue;
    FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V2);
    library.state().missing_symbol = symbol;
    const absl::StatusOr<CudaApi> api = LoadCudaApi(FIRN_FAKE_LIBCUDA_V2);
    const auto names_it = HasSubstr(absl::StrCat("lacks ", symbol));
    if (DeviceSymbols().count(symbol) > 0) {
      EXPECT_THAT(api.status(),
                  StatusIs(absl::StatusCode::kUnavailable, names_it));
    } else {
      FIRN_ASSERT_OK(api.status());
      EXPECT_THAT(api->shortfall, names_it);
    }
  }
}

// The shortfall of a driver without one symbol.
std::string ShortfallWithout(const std::string& symbol, const char* path,
                             bool missing_symbol_status) {
  FakeDriverLibrary library(path);
  library.state().missing_symbol = symbol;
  library.state().missing_symbol_status = missing_symbol_status;
  const absl::StatusOr<CudaApi> api = LoadCudaApi(path);
  return api.ok() ? api->shortfall : api.status().ToString();
}

TEST(CudaLoaderTest, AMissingSymbolIsNamedWithItsSuffixAndVersion) {
  EXPECT_THAT(ShortfallWithout("cuMemcpyDtoDAsync", FIRN_FAKE_LIBCUDA_V2, true),
              EndsWith("lacks cuMemcpyDtoDAsync_v2 (of CUDA 3.2)"));
}

TEST(CudaLoaderTest, SuccessWithoutAFunctionCountsAsMissing) {
  EXPECT_THAT(ShortfallWithout("cuMemMap", FIRN_FAKE_LIBCUDA_V2, false),
              HasSubstr("lacks cuMemMap "));
  EXPECT_THAT(ShortfallWithout("cuMemMap", FIRN_FAKE_LIBCUDA_V1, false),
              HasSubstr("lacks cuMemMap "));
}

TEST(CudaLoaderTest, NothingIsMissingFromAWholeDriver) {
  EXPECT_EQ(ShortfallWithout("cuNothing", FIRN_FAKE_LIBCUDA_V2, true), "");
}

TEST(CudaLoaderTest, OptionalSymbolsMayBeMissing) {
  for (const auto& [missing, version] : OptionalSymbols()) {
    FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V2);
    library.state().missing_symbol = missing;
    FIRN_ASSERT_OK_AND_ASSIGN(const CudaApi api,
                              LoadCudaApi(FIRN_FAKE_LIBCUDA_V2));
    for (const auto& [symbol, found] : OptionalFound(api)) {
      EXPECT_EQ(found, symbol != missing) << symbol << " without " << missing;
    }
  }
}

TEST(CudaLoaderTest, ALookupThatIsRefusedIsNotCalledAMissingFunction) {
  for (const char* path : {FIRN_FAKE_LIBCUDA_V1, FIRN_FAKE_LIBCUDA_V2}) {
    FakeDriverLibrary library(path);
    library.state().lookup_result =
        static_cast<int32_t>(DriverResult::kNotPermitted);
    EXPECT_THAT(LoadCudaApi(path).status(),
                StatusIs(absl::StatusCode::kUnavailable,
                         EndsWith("refuses to look up cuInit: "
                                  "CUDA_ERROR_NOT_PERMITTED (800)")));
  }
}

TEST(CudaLoaderTest, WithoutTheNewLookupTheOldOneIsAsked) {
  FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_V1);
  library.state().driver_version = 11040;
  FIRN_ASSERT_OK(LoadCudaApi(FIRN_FAKE_LIBCUDA_V1).status());
  EXPECT_EQ(Requested(library.state()), IntroductionVersions());
}

TEST(CudaLoaderTest, WithoutAnyLookupTheExportedSymbolsAreTaken) {
  FakeDriverLibrary library(FIRN_FAKE_LIBCUDA_EXPORTS);
  library.state().driver_version = 11010;
  FIRN_ASSERT_OK_AND_ASSIGN(const CudaApi api,
                            LoadCudaApi(FIRN_FAKE_LIBCUDA_EXPORTS));
  EXPECT_TRUE(library.state().requests.empty());
  EXPECT_EQ(api.StreamGetId, nullptr);
  EXPECT_NE(api.GetErrorString, nullptr);
}

#ifdef FIRN_CUDA_STUB_LIBRARY

TEST(CudaToolkitStubTest, TheRealStubIsCalledAStub) {
  CudaDriverOptions options;
  options.library = FIRN_CUDA_STUB_LIBRARY;
  EXPECT_THAT(OpenCudaDriver(options).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stub")));
}

TEST(CudaToolkitStubTest, ARealLibraryExportsEveryNameThatTheTableLists) {
  void* const library = dlopen(FIRN_CUDA_STUB_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
#define FIRN_EXPECT_EXPORTED(name, suffix, version, signature) \
  EXPECT_NE(dlsym(library, "cu" #name suffix), nullptr) << "cu" #name suffix;
  FIRN_CUDA_REQUIRED_SYMBOLS(FIRN_EXPECT_EXPORTED)
  FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_EXPECT_EXPORTED)
#undef FIRN_EXPECT_EXPORTED
}

// The plain name beside a suffixed one is the older function.
TEST(CudaToolkitStubTest, ANameWithoutSuffixHasNoNewerFormThatFirnMeans) {
  void* const library = dlopen(FIRN_CUDA_STUB_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
#define FIRN_EXPECT_NO_V2(name, suffix, version, signature)                   \
  if (*suffix == '\0' && std::string("cu" #name) != "cuCtxSynchronize") {     \
    EXPECT_EQ(dlsym(library, "cu" #name "_v2"), nullptr) << "cu" #name "_v2"; \
  }
  FIRN_CUDA_REQUIRED_SYMBOLS(FIRN_EXPECT_NO_V2)
  FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_EXPECT_NO_V2)
#undef FIRN_EXPECT_NO_V2
}

#endif  // FIRN_CUDA_STUB_LIBRARY

}  // namespace
}  // namespace firn::testing
