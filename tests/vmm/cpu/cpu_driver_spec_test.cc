// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/cpu_driver_spec.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CpuDriverSpecTest, NothingIsTheDefaults) {
  FIRN_ASSERT_OK_AND_ASSIGN(const CpuDriverSpec spec, ParseCpuDriverSpec(""));
  EXPECT_EQ(spec.options.storage, CpuStorage::kReal);
  EXPECT_EQ(spec.options.device_count, 1);
  EXPECT_EQ(spec.options.sync, CpuSync::kLazy);
  EXPECT_EQ(spec.options.report, nullptr);
  EXPECT_EQ(spec.cost, CostProfile::kNone);
  EXPECT_TRUE(spec.failures.empty());
  EXPECT_EQ(spec.log_path, "");
}

TEST(CpuDriverSpecTest, EveryKeyIsRead) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const CpuDriverSpec spec,
      ParseCpuDriverSpec(
          "storage=ghost,devices=2,peer_access=off,virtual_memory=off,"
          "device_bytes=4GiB,"
          "granularity=64KiB,poison=off,max_handles=10,max_mappings=20,"
          "sync=draining,parked_timeout=50ms,deadlock_timeout=2s,"
          "check_coherence=off,unsafe_vmm_in_capture=off,device_name=a name,"
          "defect=poison_skipped,errors=stderr,cost=a100,fail_seed=7,"
          "log=/tmp/calls.txt"));
  const CpuDriverOptions& options = spec.options;
  EXPECT_EQ(options.storage, CpuStorage::kGhost);
  EXPECT_EQ(options.device_count, 2);
  EXPECT_FALSE(options.peer_access);
  EXPECT_FALSE(options.virtual_memory);
  EXPECT_EQ(options.device_bytes, uint64_t{4} << 30);
  EXPECT_EQ(options.granularity_bytes, uint64_t{64} << 10);
  EXPECT_FALSE(options.poison);
  EXPECT_EQ(options.max_handles, 10u);
  EXPECT_EQ(options.max_mappings, 20u);
  EXPECT_EQ(options.sync, CpuSync::kDraining);
  EXPECT_EQ(options.parked_timeout, absl::Milliseconds(50));
  EXPECT_EQ(options.deadlock_timeout, absl::Seconds(2));
  EXPECT_FALSE(options.check_coherence);
  EXPECT_FALSE(options.unsafe_vmm_in_capture);
  EXPECT_EQ(options.device_name, "a name");
  EXPECT_EQ(options.defect, CpuDefect::kPoisonSkipped);
  EXPECT_NE(options.report, nullptr);
  EXPECT_EQ(spec.cost, CostProfile::kA100);
  EXPECT_EQ(spec.failure_seed, 7u);
  EXPECT_EQ(spec.log_path, "/tmp/calls.txt");
}

TEST(CpuDriverSpecTest, OfAKeyGivenTwiceTheLastCounts) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const CpuDriverSpec spec,
      ParseCpuDriverSpec("device_bytes=1TiB,,device_bytes=4096,"));
  EXPECT_EQ(spec.options.device_bytes, 4096u);
}

TEST(CpuDriverSpecTest, FailuresAddUp) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const CpuDriverSpec spec,
      ParseCpuDriverSpec("fail=cuMemMap:3:2,fail=*:17+:CUDA_ERROR_NOT_READY,"
                         "fail=cuMemSetAccess:0.5%:OUT_OF_MEMORY"));
  ASSERT_EQ(spec.failures.size(), 3u);
  EXPECT_FALSE(spec.failures[0].any_call);
  EXPECT_EQ(spec.failures[0].call, DriverCall::kMemMap);
  EXPECT_EQ(spec.failures[0].when, CpuDriverFailure::When::kNth);
  EXPECT_EQ(spec.failures[0].nth, 3u);
  EXPECT_EQ(spec.failures[0].result, DriverResult::kOutOfMemory);
  EXPECT_TRUE(spec.failures[1].any_call);
  EXPECT_EQ(spec.failures[1].when, CpuDriverFailure::When::kFromNth);
  EXPECT_EQ(spec.failures[1].nth, 17u);
  EXPECT_EQ(spec.failures[1].result, DriverResult::kNotReady);
  EXPECT_EQ(spec.failures[2].when, CpuDriverFailure::When::kProbability);
  EXPECT_DOUBLE_EQ(spec.failures[2].probability, 0.005);
}

struct BadSpec {
  absl::string_view text;
  absl::string_view message;  // its beginning
};

class CpuDriverBadSpecTest : public ::testing::TestWithParam<BadSpec> {};

TEST_P(CpuDriverBadSpecTest, IsRefusedWithKeyValueAndWhatWouldBeRight) {
  const BadSpec& bad = GetParam();
  // Also behind something good.
  for (const std::string& text :
       {std::string(bad.text), "devices=2," + std::string(bad.text)}) {
    EXPECT_THAT(ParseCpuDriverSpec(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         StartsWith(std::string(bad.message))));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CpuDriverBadSpecTest,
    ::testing::Values(
        BadSpec{"storage=gost", "storage=gost: expected real or ghost"},
        BadSpec{"storage", "'storage': expected KEY=VALUE"},
        BadSpec{"colour=red", "colour=red: unknown key; expected one of sto"},
        BadSpec{"Storage=real", "Storage=real: unknown key"},
        BadSpec{" sync=lazy", " sync=lazy: unknown key"},
        BadSpec{"devices=0", "devices=0: expected a number from 1 to 8"},
        BadSpec{"devices=9", "devices=9: expected a number from 1 to 8"},
        BadSpec{"devices=-1", "devices=-1: expected a number from 1 to 8"},
        BadSpec{"poison=yes", "poison=yes: expected on or off"},
        BadSpec{"device_bytes=", "device_bytes=: expected a number of bytes"},
        BadSpec{"device_bytes=4GB", "device_bytes=4GB: expected a number"},
        BadSpec{"device_bytes=1.5GiB", "device_bytes=1.5GiB: expected"},
        BadSpec{"device_bytes=17179869184GiB",
                "device_bytes=17179869184GiB: expected"},
        BadSpec{"max_handles=+1", "max_handles=+1: expected a whole number"},
        BadSpec{"sync=both", "sync=both: expected lazy or draining"},
        BadSpec{"parked_timeout=5", "parked_timeout=5: expected a time"},
        BadSpec{"parked_timeout=-5s", "parked_timeout=-5s: expected a time"},
        BadSpec{"device_name=", "device_name=: expected a name"},
        BadSpec{"defect=all", "defect=all: expected none or a defect"},
        BadSpec{"errors=loud", "errors=loud: expected losses, stderr or quiet"},
        BadSpec{"cost=h100", "cost=h100: expected none, fast or a100"},
        BadSpec{"log=", "log=: expected the path of a file"},
        BadSpec{"fail=cuMemMap", "fail=cuMemMap: expected CALL:WHEN:RESULT"},
        BadSpec{"fail=cuMemFold:1:2", "fail=cuMemFold:1:2: expected"},
        BadSpec{"fail=cuMemMap:0:2", "fail=cuMemMap:0:2: expected"},
        BadSpec{"fail=cuMemMap:2+:2", "fail=cuMemMap:2+:2: expected"},
        BadSpec{"fail=cuMemMap:101%:2", "fail=cuMemMap:101%:2: expected"},
        BadSpec{"fail=cuMemMap:1:0", "fail=cuMemMap:1:0: expected"},
        BadSpec{"fail=cuMemMap:1:1000", "fail=cuMemMap:1:1000: expected"},
        BadSpec{"fail=cuMemMap:1:BAD_LUCK", "fail=cuMemMap:1:BAD_LUCK: exp"}));

// For a message that is long enough already.
TEST(CpuDriverSpecTest, AnUnknownKeyIsToldAllKeys) {
  EXPECT_THAT(ParseCpuDriverSpec("x=1").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("storage, devices, "),
                             HasSubstr(", fail, fail_seed, log"))));
}

}  // namespace
}  // namespace firn::testing
