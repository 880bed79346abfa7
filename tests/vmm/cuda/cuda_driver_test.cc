// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_driver.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/cuda/cuda_driver_fixture.h"
#include "tests/vmm/cuda/fake_driver_library.h"
#include "tests/vmm/cuda/fake_libcuda.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DevicePtr kAddress = 4096;
constexpr size_t kBytes = 2048;
// What is current on the thread before each call.
constexpr uint64_t kUsersContext = 0xaa;

StreamHandle FakeStream() { return reinterpret_cast<StreamHandle>(0x50); }
EventHandle FakeEvent() { return reinterpret_cast<EventHandle>(0xe0); }

std::string Hex(const void* pointer) {
  return absl::StrCat("0x", absl::Hex(reinterpret_cast<uintptr_t>(pointer)));
}

// One call of a Driver and what must reach the library, in which context.
struct PassedCall {
  std::function<DriverResult(Driver&)> make;
  std::string recorded;
};

const AllocationProp& PinnedProp() {
  static const AllocationProp* const prop = [] {
    auto* pinned = new AllocationProp;
    pinned->type = AllocationType::kPinned;
    pinned->location = {LocationType::kDevice, 1};
    return pinned;
  }();
  return *prop;
}

// Calls that belong to no context are made in the user's.
std::vector<PassedCall> VirtualMemoryCalls() {
  static size_t bytes;
  static uint64_t value;
  static AccessFlags access;
  static const MemLocation location = {LocationType::kDevice, 1};
  static const AccessDesc descs[2] = {};
  const AllocationProp* const prop = &PinnedProp();
  return {
      {[=](Driver& d) {
         return d.MemGetAllocationGranularity(&bytes, prop,
                                              GranularityKind::kRecommended);
       },
       "cuMemGetAllocationGranularity(1, 1, 1, 1)"},
      {[](Driver& d) {
         return d.MemAddressReserve(&value, kBytes, 512, kAddress, 7);
       },
       "cuMemAddressReserve(2048, 512, 4096, 7)"},
      {[](Driver& d) { return d.MemAddressFree(kAddress, kBytes); },
       "cuMemAddressFree(4096, 2048)"},
      {[=](Driver& d) { return d.MemCreate(&value, kBytes, prop, 7); },
       absl::StrCat("cuMemCreate(2048, ", Hex(prop), ", 7)")},
      {[](Driver& d) { return d.MemRelease(77); }, "cuMemRelease(77)"},
      {[](Driver& d) { return d.MemMap(kAddress, kBytes, 3, 77, 7); },
       "cuMemMap(4096, 2048, 3, 77, 7)"},
      {[](Driver& d) { return d.MemUnmap(kAddress, kBytes); },
       "cuMemUnmap(4096, 2048)"},
      {[](Driver& d) { return d.MemSetAccess(kAddress, kBytes, descs, 2); },
       absl::StrCat("cuMemSetAccess(4096, 2048, ", Hex(descs), ", 2)")},
      {[](Driver& d) { return d.MemGetAccess(&access, &location, kAddress); },
       absl::StrCat("cuMemGetAccess(", Hex(&location), ", 4096)")},
      {[](Driver& d) { return d.MemRetainAllocationHandle(&value, kAddress); },
       "cuMemRetainAllocationHandle(0x1000)"},
  };
}

// Calls that are made in the device's primary context.
std::vector<PassedCall> ContextCalls() {
  static size_t bytes[2];
  static uint64_t id;
  static char host[1];
  static StreamHandle stream;
  static EventHandle event;
  static CaptureStatus status;
  return {
      {[](Driver& d) { return d.MemGetInfo(&bytes[0], &bytes[1]); },
       "cuMemGetInfo_v2()"},
      {[](Driver& d) { return d.MemcpyDtoDAsync(1, 2, kBytes, FakeStream()); },
       "cuMemcpyDtoDAsync_v2(1, 2, 2048, 0x50)"},
      {[](Driver& d) {
         return d.MemcpyHtoDAsync(1, host, kBytes, FakeStream());
       },
       absl::StrCat("cuMemcpyHtoDAsync_v2(1, ", Hex(host), ", 2048, 0x50)")},
      {[](Driver& d) {
         return d.MemcpyDtoHAsync(host, 2, kBytes, FakeStream());
       },
       absl::StrCat("cuMemcpyDtoHAsync_v2(", Hex(host), ", 2, 2048, 0x50)")},
      {[](Driver& d) {
         return d.MemsetD8Async(kAddress, 0xdb, kBytes, FakeStream());
       },
       "cuMemsetD8Async(4096, 219, 2048, 0x50)"},
      {[](Driver& d) { return d.StreamCreate(&stream, kStreamNonBlocking); },
       "cuStreamCreate(1)"},
      {[](Driver& d) { return d.StreamDestroy(FakeStream()); },
       "cuStreamDestroy_v2(0x50)"},
      {[](Driver& d) { return d.StreamQuery(nullptr); }, "cuStreamQuery(0x0)"},
      {[](Driver& d) { return d.StreamSynchronize(FakeStream()); },
       "cuStreamSynchronize(0x50)"},
      {[](Driver& d) { return d.StreamGetId(FakeStream(), &id); },
       "cuStreamGetId(0x50)"},
      {[](Driver& d) { return d.StreamIsCapturing(FakeStream(), &status); },
       "cuStreamIsCapturing(0x50)"},
      {[](Driver& d) {
         return d.StreamWaitEvent(FakeStream(), FakeEvent(), 7);
       },
       "cuStreamWaitEvent(0x50, 0xe0, 7)"},
      {[](Driver& d) { return d.EventCreate(&event, kEventDisableTiming); },
       "cuEventCreate(2)"},
      {[](Driver& d) { return d.EventDestroy(FakeEvent()); },
       "cuEventDestroy_v2(0xe0)"},
      {[](Driver& d) { return d.EventRecord(FakeEvent(), FakeStream()); },
       "cuEventRecord(0xe0, 0x50)"},
      {[](Driver& d) { return d.EventQuery(FakeEvent()); },
       "cuEventQuery(0xe0)"},
      {[](Driver& d) { return d.EventSynchronize(FakeEvent()); },
       "cuEventSynchronize(0xe0)"},
      {[](Driver& d) { return d.CtxSynchronize(); }, "cuCtxSynchronize()"},
  };
}

// The exported name in a record.
std::string NameOf(const PassedCall& call) {
  return call.recorded.substr(0, call.recorded.find('('));
}

// Each way of finding functions in a library.
class CudaDriverLookupTest : public ::testing::TestWithParam<int> {
 protected:
  static const char* LibraryPath() {
    const char* const kPaths[] = {FIRN_FAKE_LIBCUDA_EXPORTS,
                                  FIRN_FAKE_LIBCUDA_V1, FIRN_FAKE_LIBCUDA_V2};
    return kPaths[GetParam()];
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
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Driver> driver,
                            OpenCudaDriver(library.Options(1)));
  const bool has_stream_ids = GetParam() == 2;
  state.context_stack = {kUsersContext};
  for (const PassedCall& call : VirtualMemoryCalls()) {
    state.calls.clear();
    EXPECT_EQ(call.make(*driver), DriverResult::kSuccess) << call.recorded;
    EXPECT_THAT(state.calls,
                ElementsAre(absl::StrCat(call.recorded, " @0xaa")));
    EXPECT_THAT(state.context_stack, ElementsAre(kUsersContext));
  }
  for (const PassedCall& call : ContextCalls()) {
    if (NameOf(call) == "cuStreamGetId" && !has_stream_ids) continue;
    state.calls.clear();
    EXPECT_EQ(call.make(*driver), DriverResult::kSuccess) << call.recorded;
    EXPECT_THAT(state.calls,
                ElementsAre(absl::StrCat(call.recorded, " @0xc1")));
    EXPECT_THAT(state.context_stack, ElementsAre(kUsersContext));
  }
}

TEST_F(CudaDriverTest, FailuresComeBackUnchangedAndLeaveTheContextAsItWas) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  // A result that firn has no name for.
  const auto result = static_cast<DriverResult>(719);
  state().context_stack = {kUsersContext};
  std::vector<PassedCall> calls = VirtualMemoryCalls();
  for (PassedCall& call : ContextCalls()) calls.push_back(std::move(call));
  for (const PassedCall& call : calls) {
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
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_EQ(driver->MemGetInfo(&free_bytes, &total_bytes),
            DriverResult::kSuccess);
  EXPECT_EQ(free_bytes, size_t{5} << 30);
  EXPECT_EQ(total_bytes, size_t{6} << 30);
  uint64_t id = 0;
  EXPECT_EQ(driver->StreamGetId(FakeStream(), &id), DriverResult::kSuccess);
  EXPECT_EQ(id, 4711u);
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(driver->StreamIsCapturing(FakeStream(), &status),
            DriverResult::kSuccess);
  EXPECT_EQ(status, CaptureStatus::kActive);
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

TEST_F(CudaDriverTest, WithoutTheSymbolStreamIdsAreNotSupported) {
  state().missing_symbol = "cuStreamGetId";
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  uint64_t id = 0;
  EXPECT_EQ(driver->StreamGetId(FakeStream(), &id),
            DriverResult::kNotSupported);
}

}  // namespace
}  // namespace firn::testing
