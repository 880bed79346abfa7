// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_wrapper.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/all_driver_calls.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAreArray;

// The first `count` arguments of a call.
std::vector<uint64_t> Arguments(const DriverCallArgs& args, size_t count) {
  return {args.values.begin(),
          args.values.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(DriverWrapperTest, EveryCallReachesTheCallOfTheSameNameWithItsArguments) {
  NotingDriver base;
  DriverWrapper wrapper(&base);
  for (const NamedDriverCall& call : AllDriverCalls()) {
    SCOPED_TRACE(DriverCallName(call.kind));
    base.calls.clear();
    base.result = DriverResult::kSuccess;
    EXPECT_EQ(call.make(wrapper), DriverResult::kSuccess);
    base.result = DriverResult::kIllegalState;
    EXPECT_EQ(call.make(wrapper), DriverResult::kIllegalState);
    ASSERT_EQ(base.calls.size(), 2u);
    EXPECT_EQ(base.calls[0].call, call.kind);
    EXPECT_THAT(Arguments(base.calls[0], call.arguments.size()),
                ElementsAreArray(call.arguments));
  }
}

TEST(DriverWrapperTest, AroundSeesTheNameAndTheArgumentsOfEveryCall) {
  NotingDriver driver;
  for (const NamedDriverCall& call : AllDriverCalls()) {
    SCOPED_TRACE(DriverCallName(call.kind));
    driver.calls.clear();
    call.make(driver);
    ASSERT_EQ(driver.calls.size(), 1u);
    EXPECT_EQ(driver.calls[0].call, call.kind);
    EXPECT_THAT(Arguments(driver.calls[0], call.arguments.size()),
                ElementsAreArray(call.arguments));
    for (size_t i = call.arguments.size(); i < DriverCallArgs::kMaxArgs; ++i) {
      EXPECT_EQ(driver.calls[0].values[i], 0u);
    }
  }
}

class NamedDriver : public DriverWrapper {
 public:
  NamedDriver() : DriverWrapper(nullptr) {}
  DriverIdentity identity() const override { return {"cpu", "a", 3, 13000}; }
};

TEST(DriverWrapperTest, TheIdentityIsThatOfTheBase) {
  NamedDriver base;
  const DriverWrapper wrapper(&base);
  EXPECT_EQ(wrapper.identity().backend, "cpu");
  EXPECT_EQ(wrapper.identity().device_name, "a");
  EXPECT_EQ(wrapper.identity().device_ordinal, 3);
  EXPECT_EQ(wrapper.identity().driver_version, 13000);
}

}  // namespace
}  // namespace firn::testing
