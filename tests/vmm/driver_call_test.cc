// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver_types.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/all_driver_calls.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

TEST(DriverCallTest, EveryCallHasANameOfItsOwnThatParsesBackToIt) {
  std::set<absl::string_view> names;
  for (int i = 0; i < kDriverCallCount; ++i) {
    const auto call = static_cast<DriverCall>(i);
    const absl::string_view name = DriverCallName(call);
    EXPECT_TRUE(absl::StartsWith(name, "cu")) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_THAT(ParseDriverCall(name), IsOkAndHolds(call));
  }
}

TEST(DriverCallTest, NamesAreThoseOfCuda) {
  EXPECT_EQ(DriverCallName(DriverCall::kDeviceGetCount), "cuDeviceGetCount");
  EXPECT_EQ(DriverCallName(DriverCall::kMemMap), "cuMemMap");
  EXPECT_EQ(DriverCallName(DriverCall::kMemcpyDtoDAsync), "cuMemcpyDtoDAsync");
  EXPECT_EQ(DriverCallName(DriverCall::kCtxSynchronize), "cuCtxSynchronize");
  EXPECT_EQ(DriverCallName(DriverCall::kGraphInstantiate),
            "cuGraphInstantiateWithFlags");
  EXPECT_EQ(DriverCallName(DriverCall::kGraphDestroy), "cuGraphDestroy");
}

TEST(DriverCallTest, AnUnknownNameIsRefusedAndNamed) {
  EXPECT_THAT(
      ParseDriverCall("cuMemMop"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'cuMemMop'")));
  EXPECT_THAT(ParseDriverCall(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("''")));
  EXPECT_THAT(
      ParseDriverCall("cuMemMap "),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'cuMemMap '")));
}

TEST(DriverCallTest, ArgumentsAreSpeltWithTheirNames) {
  EXPECT_EQ(FormatDriverCall(DriverCallArgs(DriverCall::kMemMap, 4096, 8192, 0,
                                            PhysicalHandle{7}, 1u)),
            "cuMemMap(address=4096, bytes=8192, offset_bytes=0, handle=7, "
            "flags=1)");
  EXPECT_EQ(FormatDriverCall(DriverCallArgs(DriverCall::kCtxSynchronize)),
            "cuCtxSynchronize()");
}

TEST(DriverCallTest, NumbersAsLargeAsAddressesAreHexadecimal) {
  EXPECT_EQ(FormatDriverCall(DriverCallArgs(DriverCall::kMemUnmap,
                                            DevicePtr{0x7f0000200000},
                                            uint64_t{80} << 30)),
            "cuMemUnmap(address=0x7f0000200000, bytes=85899345920)");
}

TEST(DriverCallTest, EnumsAndPointersReadAsNumbers) {
  AccessFlags flags = AccessFlags::kNone;
  const DriverCallArgs args(DriverCall::kMemGetAccess, &flags,
                            static_cast<const MemLocation*>(nullptr),
                            DevicePtr{3});
  EXPECT_EQ(args.values[0], reinterpret_cast<uintptr_t>(&flags));
  EXPECT_EQ(args.values[2], 3u);
  const DriverCallArgs begin(DriverCall::kStreamBeginCapture,
                             StreamHandle{nullptr}, CaptureMode::kRelaxed);
  EXPECT_EQ(FormatDriverCall(begin), "cuStreamBeginCapture(stream=0, mode=2)");
}

// Each parameter has a name: none is left out, none is too much.
TEST(DriverCallTest, EveryCallIsSpeltWithAsManyArgumentsAsItHas) {
  for (const NamedDriverCall& call : AllDriverCalls()) {
    NotingDriver driver;
    call.make(driver);
    const std::string line = FormatDriverCall(driver.calls.at(0));
    for (uint64_t argument : call.arguments) {
      EXPECT_THAT(line, HasSubstr(absl::StrCat("=", argument)));
    }
    EXPECT_EQ(static_cast<size_t>(std::count(line.begin(), line.end(), '=')),
              call.arguments.size())
        << line;
  }
}

TEST(DriverCallTest, TheTableOfTheTestsHasEveryCall) {
  std::set<DriverCall> kinds;
  for (const NamedDriverCall& call : AllDriverCalls()) kinds.insert(call.kind);
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kDriverCallCount));
}

}  // namespace
}  // namespace firn::testing
