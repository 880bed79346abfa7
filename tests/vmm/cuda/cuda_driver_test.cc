// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_driver.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/cuda/cuda_driver_fixture.h"
#include "tests/vmm/cuda/fake_driver_library.h"
#include "tests/vmm/cuda/fake_libcuda.h"
#include "tests/vmm/cuda/passed_calls.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What is current on the thread before each call.
constexpr uint64_t kUsersContext = 0xaa;

// A function that older drivers lack.
struct OptionalFunction {
  std::string name;  // without suffix
  std::string exported_name;
  int32_t version = 0;
};

std::vector<OptionalFunction> OptionalFunctions() {
  return {
#define FIRN_OPTIONAL(name, suffix, version, signature) \
  {"cu" #name, "cu" #name suffix, version},
      FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_OPTIONAL)
#undef FIRN_OPTIONAL
  };
}

bool IsNewerThan(const PassedCall& call, int32_t driver_version) {
  for (const OptionalFunction& function : OptionalFunctions()) {
    if (function.exported_name == NameOf(call)) {
      return function.version > driver_version;
    }
  }
  return false;
}

// Each way of finding functions in a library.
class CudaDriverLookupTest : public ::testing::TestWithParam<int> {
 protected:
  static const char* LibraryPath() {
    const char* const kPaths[] = {FIRN_FAKE_LIBCUDA_EXPORTS,
                                  FIRN_FAKE_LIBCUDA_V1, FIRN_FAKE_LIBCUDA_V2};
    return kPaths[GetParam()];
  }
  // A driver that offers just that way.
  static int32_t DriverVersion() {
    constexpr int32_t kVersions[] = {11020, 11060, 13000};
    return kVersions[GetParam()];
  }
};

// By the value of FIRN_FAKE_PROC_ADDRESS.
std::string LookupName(const ::testing::TestParamInfo<int>& info) {
  const char* const kNames[] = {"Exports", "ProcAddressV1", "ProcAddressV2"};
  return kNames[info.param];
}

INSTANTIATE_TEST_SUITE_P(EveryLookup, CudaDriverLookupTest,
                         ::testing::Values(0, 1, 2), LookupName);

TEST_P(CudaDriverLookupTest, EveryCallReachesItsFunctionWithItsArguments) {
  FakeDriverLibrary library(LibraryPath());
  FakeCudaState& state = library.state();
  state.driver_version = DriverVersion();
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Driver> driver,
                            OpenCudaDriver(library.Options(1)));
  state.context_stack = {kUsersContext};
  for (const PassedCall& call : ContextFreeCalls()) {
    state.calls.clear();
    EXPECT_EQ(call.make(*driver), DriverResult::kSuccess) << call.recorded;
    EXPECT_THAT(state.calls,
                ElementsAre(absl::StrCat(call.recorded, " @0xaa")));
    EXPECT_THAT(state.context_stack, ElementsAre(kUsersContext));
  }
  for (const PassedCall& call : ContextCalls()) {
    state.calls.clear();
    if (IsNewerThan(call, DriverVersion())) {
      EXPECT_EQ(call.make(*driver), DriverResult::kNotSupported)
          << call.recorded;
      EXPECT_THAT(state.calls, IsEmpty());
    } else {
      EXPECT_EQ(call.make(*driver), DriverResult::kSuccess) << call.recorded;
      EXPECT_THAT(state.calls,
                  ElementsAre(absl::StrCat(call.recorded, " @0xc1")));
    }
    EXPECT_THAT(state.context_stack, ElementsAre(kUsersContext));
  }
}

TEST(PassedCallsTest, NoCallOfTheSeamIsForgotten) {
  std::set<std::string> names;
  for (const PassedCall& call : AllPassedCalls()) names.insert(NameOf(call));
  // All but cuDeviceCanAccessPeer, which takes two functions.
  EXPECT_EQ(names.size(), static_cast<size_t>(kDriverCallCount) - 1);
  EXPECT_EQ(names.count("cuDeviceCanAccessPeer"), 0u);
}

TEST_F(CudaDriverTest, APeerIsGivenByItsOrdinal) {
  const std::unique_ptr<Driver> driver = Open(1);
  ASSERT_NE(driver, nullptr);
  int32_t can_access = 0;
  EXPECT_EQ(driver->DeviceCanAccessPeer(&can_access, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(can_access, 1);
  EXPECT_THAT(state().calls,
              ElementsAre("cuDeviceGet(0)", "cuDeviceCanAccessPeer(1, 0)"));

  state().calls.clear();
  state().results = {
      {"cuDeviceGet", static_cast<int32_t>(DriverResult::kInvalidDevice)}};
  EXPECT_EQ(driver->DeviceCanAccessPeer(&can_access, 9),
            DriverResult::kInvalidDevice);
  EXPECT_THAT(state().calls, ElementsAre("cuDeviceGet(9)"));
}

TEST_F(CudaDriverTest, FailuresComeBackUnchangedAndLeaveTheContextAsItWas) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  // A result that firn has no name for.
  const auto result = static_cast<DriverResult>(911);
  state().context_stack = {kUsersContext};
  for (const PassedCall& call : AllPassedCalls()) {
    state().results = {{NameOf(call), static_cast<int32_t>(result)}};
    EXPECT_EQ(call.make(*driver), result) << call.recorded;
    EXPECT_THAT(state().context_stack, ElementsAre(kUsersContext));
  }
}

TEST_F(CudaDriverTest, OutputsReachTheCaller) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  size_t granularity_bytes = 0;
  EXPECT_EQ(driver->MemGetAllocationGranularity(
                &granularity_bytes, &PinnedProp(), GranularityKind::kMinimum),
            DriverResult::kSuccess);
  EXPECT_EQ(granularity_bytes, size_t{2} << 20);
  DevicePtr address = 0;
  EXPECT_EQ(driver->MemAddressReserve(&address, kBytes, 0, 0, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(address, DevicePtr{0x7000000000});
  PhysicalHandle handle = 0;
  EXPECT_EQ(driver->MemCreate(&handle, kBytes, &PinnedProp(), 0),
            DriverResult::kSuccess);
  EXPECT_EQ(handle, PhysicalHandle{77});
  EXPECT_EQ(driver->MemRetainAllocationHandle(&handle, address),
            DriverResult::kSuccess);
  EXPECT_EQ(handle, PhysicalHandle{78});
  const MemLocation location = {LocationType::kDevice, 0};
  // A neighbour that a driver writing 64 bits would overwrite.
  AccessFlags flags[2] = {AccessFlags::kNone, AccessFlags::kRead};
  EXPECT_EQ(driver->MemGetAccess(&flags[0], &location, address),
            DriverResult::kSuccess);
  EXPECT_EQ(flags[0], AccessFlags::kReadWrite);
  EXPECT_EQ(flags[1], AccessFlags::kRead);
  AllocationProp prop;
  EXPECT_EQ(driver->MemGetAllocationPropertiesFromHandle(&prop, handle),
            DriverResult::kSuccess);
  EXPECT_EQ(prop.type, AllocationType::kPinned);
  EXPECT_EQ(driver->MemImportFromShareableHandle(
                &handle, nullptr, ShareableHandleType::kPosixFileDescriptor),
            DriverResult::kSuccess);
  EXPECT_EQ(handle, PhysicalHandle{79});
  DevicePtr base = 0;
  size_t bytes = 0;
  EXPECT_EQ(driver->MemGetAddressRange(&base, &bytes, address),
            DriverResult::kSuccess);
  EXPECT_EQ(base, DevicePtr{0x7000000000});
  EXPECT_EQ(bytes, size_t{4} << 20);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_EQ(driver->MemGetInfo(&free_bytes, &total_bytes),
            DriverResult::kSuccess);
  EXPECT_EQ(free_bytes, size_t{5} << 30);
  EXPECT_EQ(total_bytes, size_t{6} << 30);
}

TEST_F(CudaDriverTest, OutputsOfStreamsAndGraphsReachTheCaller) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  uint64_t id = 0;
  EXPECT_EQ(driver->StreamGetId(FakeStream(), &id), DriverResult::kSuccess);
  EXPECT_EQ(id, 4711u);
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(driver->StreamIsCapturing(FakeStream(), &status),
            DriverResult::kSuccess);
  EXPECT_EQ(status, CaptureStatus::kActive);
  CaptureMode mode = CaptureMode::kRelaxed;
  EXPECT_EQ(driver->ThreadExchangeStreamCaptureMode(&mode),
            DriverResult::kSuccess);
  EXPECT_EQ(mode, CaptureMode::kThreadLocal);
  GraphHandle graph = nullptr;
  EXPECT_EQ(driver->StreamEndCapture(FakeStream(), &graph),
            DriverResult::kSuccess);
  EXPECT_EQ(graph, reinterpret_cast<GraphHandle>(0x61));
  GraphExecHandle exec = nullptr;
  EXPECT_EQ(driver->GraphInstantiate(&exec, graph, 0), DriverResult::kSuccess);
  EXPECT_EQ(exec, reinterpret_cast<GraphExecHandle>(0x62));
}

TEST_F(CudaDriverTest, NullPointersThatCrashADriverAreRefused) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  size_t granularity_bytes = 0;
  EXPECT_EQ(driver->MemGetAllocationGranularity(&granularity_bytes, nullptr,
                                                GranularityKind::kMinimum),
            DriverResult::kInvalidValue);
  const MemLocation location;
  EXPECT_EQ(driver->MemGetAccess(nullptr, &location, kAddress),
            DriverResult::kInvalidValue);
  EXPECT_THAT(state().calls, IsEmpty());
}

TEST_F(CudaDriverTest, ACallWhoseContextCannotBeMadeCurrentIsNotMade) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  state().context_stack = {kUsersContext};
  state().results = {{"cuCtxPushCurrent_v2",
                      static_cast<int32_t>(DriverResult::kDeinitialized)}};
  EXPECT_EQ(driver->StreamQuery(FakeStream()), DriverResult::kDeinitialized);
  EXPECT_THAT(state().calls, ElementsAre("cuCtxPushCurrent_v2(0xc0) @0xaa"));
  EXPECT_THAT(state().context_stack, ElementsAre(kUsersContext));
}

TEST_F(CudaDriverTest, AnErrorOfEarlierWorkAtTheEndOfACallDoesNotUndoIt) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  state().results = {{"cuCtxPopCurrent_v2",
                      static_cast<int32_t>(DriverResult::kIllegalAddress)}};
  StreamHandle stream = nullptr;
  EXPECT_EQ(driver->StreamCreate(&stream, 0), DriverResult::kSuccess);
  EXPECT_NE(stream, nullptr);
}

TEST_F(CudaDriverTest, ACallWhoseSymbolIsMissingIsNotSupported) {
  int32_t tried = 0;
  for (const OptionalFunction& function : OptionalFunctions()) {
    state() = FakeCudaState();
    state().missing_symbol = function.name;
    const std::unique_ptr<Driver> driver = Open();
    ASSERT_NE(driver, nullptr);
    for (const PassedCall& call : ContextCalls()) {
      if (NameOf(call) != function.exported_name) continue;
      EXPECT_EQ(call.make(*driver), DriverResult::kNotSupported)
          << call.recorded;
      EXPECT_THAT(state().calls, IsEmpty());
      ++tried;
    }
  }
  // cuGetErrorString is no call of Driver.
  EXPECT_EQ(tried, static_cast<int32_t>(OptionalFunctions().size()) - 1);
}

}  // namespace
}  // namespace firn::testing
