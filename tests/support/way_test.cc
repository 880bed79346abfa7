// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/way.h"

#include <cstdlib>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

// Gives an environment variable a value, or none, for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    const char* const before = std::getenv(name);
    had_value_ = before != nullptr;
    if (had_value_) before_ = before;
    Set(value);
  }
  ~ScopedVariable() { Set(had_value_ ? before_.c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void Set(const char* value) {
    if (value == nullptr) {
      unsetenv(name_);
    } else {
      setenv(name_, value, /*overwrite=*/1);
    }
  }

  const char* const name_;
  bool had_value_ = false;
  std::string before_;
};

TEST(WayTest, NamesAndWaysBelongToEachOther) {
  for (const Way way :
       {Way::kCpuLazy, Way::kCpuDraining, Way::kLibcuda, Way::kGpu}) {
    EXPECT_THAT(ParseWay(WayName(way)), IsOkAndHolds(way));
  }
  EXPECT_THAT(ParseWay("cpu"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'cpu'")));
}

TEST(WayTest, TheVariableNamesTheWay) {
  const ScopedVariable variable("FIRN_TEST_WAY", "cpu_draining");
  EXPECT_EQ(TestWay(), Way::kCpuDraining);
}

TEST(WayTest, WithoutTheVariableTheWayIsTheLazyCpuDriver) {
  const ScopedVariable variable("FIRN_TEST_WAY", nullptr);
  EXPECT_EQ(TestWay(), Way::kCpuLazy);
}

TEST(WayDeathTest, AnUnknownWayEndsTheProcess) {
  const ScopedVariable variable("FIRN_TEST_WAY", "cuda");
  EXPECT_DEATH((void)TestWay(), "FIRN_TEST_WAY: unknown way 'cuda'");
}

TEST(WayTest, TheCpuDriverHasAsManyDevicesAsAskedFor) {
  DeviceSetOptions options;
  options.device_count = 1;
  FIRN_ASSERT_OK_AND_ASSIGN(const auto one,
                            OpenDevices(Way::kCpuDraining, options));
  EXPECT_EQ(one->drivers.size(), 1u);
  EXPECT_EQ(one->way, Way::kCpuDraining);
  options.device_count = 3;
  EXPECT_THAT(OpenDevices(Way::kCpuLazy, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(WayTest, AMissingGpuIsUnavailable) {
  const ScopedVariable variable("FIRN_TEST_LIBRARY", "/nowhere/libcuda.so.1");
  EXPECT_THAT(OpenDevices(Way::kGpu, DeviceSetOptions()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("/nowhere/libcuda.so.1")));
}

TEST(WayTest, TheLibraryIsSettledOnceInAProcess) {
  FIRN_ASSERT_OK_AND_ASSIGN(const auto first,
                            OpenDevices(Way::kLibcuda, DeviceSetOptions()));
  EXPECT_EQ(first->drivers.size(), 2u);
  DeviceSetOptions options;
  options.device_count = 1;
  FIRN_ASSERT_OK_AND_ASSIGN(const auto second,
                            OpenDevices(Way::kLibcuda, options));
  EXPECT_EQ(second->drivers.size(), 1u);
  options.max_handles = 7;
  EXPECT_THAT(OpenDevices(Way::kLibcuda, options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("max_handles=7")));
}

TEST(WayTest, KernelsRunOnEveryDriverWithoutAGpu) {
  for (const Way way : {Way::kCpuLazy, Way::kCpuDraining, Way::kLibcuda}) {
    SCOPED_TRACE(WayName(way));
    FIRN_ASSERT_OK_AND_ASSIGN(const auto devices,
                              OpenDevices(way, DeviceSetOptions()));
    EXPECT_EQ(devices->granule_bytes, uint64_t{64} << 10);
    for (size_t i = 0; i < devices->drivers.size(); ++i) {
      Driver& driver = *devices->drivers[i];
      EXPECT_EQ(driver.identity().device_ordinal, static_cast<int32_t>(i));
      StreamHandle stream = nullptr;
      ASSERT_EQ(driver.StreamCreate(&stream, kStreamNonBlocking),
                DriverResult::kSuccess);
      bool ran = false;
      std::function<void()> body = [&ran] { ran = true; };
      EXPECT_EQ(devices->launch_kernel(i, stream, {}, &body),
                DriverResult::kSuccess);
      EXPECT_EQ(driver.StreamSynchronize(stream), DriverResult::kSuccess);
      EXPECT_TRUE(ran);
      EXPECT_EQ(driver.StreamDestroy(stream), DriverResult::kSuccess);
    }
  }
}

TEST(WayTest, DevicesSayWhatTheyRefusedLast) {
  for (const Way way : {Way::kCpuLazy, Way::kCpuDraining, Way::kLibcuda}) {
    SCOPED_TRACE(WayName(way));
    FIRN_ASSERT_OK_AND_ASSIGN(const auto devices,
                              OpenDevices(way, DeviceSetOptions()));
    EXPECT_NE(devices->drivers[0]->MemRelease(12345), DriverResult::kSuccess);
    EXPECT_THAT(devices->last_report(0), HasSubstr("cuMemRelease"));
  }
}

}  // namespace
}  // namespace firn::testing
