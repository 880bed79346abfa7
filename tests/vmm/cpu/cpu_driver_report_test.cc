// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a CPU driver says about misuse and about the loss of a device.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Reports come from any thread.
class ReportLines {
 public:
  void Add(absl::string_view line) {
    MutexLock lock(&mutex_);
    lines_.emplace_back(line);
  }
  std::vector<std::string> Get() {
    MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

class CpuDriverReportTest : public ::testing::Test {
 protected:
  CpuDriverOptions Options() {
    CpuDriverOptions options = SmallRealOptions();
    options.device_name = "the device";
    options.report = [this](absl::string_view line) { lines_.Add(line); };
    return options;
  }

  ReportLines lines_;
};

TEST_F(CpuDriverReportTest, MisuseNamesTheCallItsArgumentsAndTheRule) {
  CpuTestDevice device(Options());
  const DevicePtr base = device.NewMemory(2);
  EXPECT_THAT(device->last_report(), IsEmpty());
  EXPECT_EQ(device->MemUnmap(base, 4096), DriverResult::kInvalidValue);
  ASSERT_THAT(lines_.Get(), SizeIs(1));
  EXPECT_THAT(lines_.Get()[0],
              AllOf(HasSubstr("the device, device 0: cuMemUnmap(address=0x"),
                    HasSubstr("bytes=4096) = CUDA_ERROR_INVALID_VALUE: ")));
  EXPECT_EQ(device->last_report(), lines_.Get()[0]);
}

TEST_F(CpuDriverReportTest, AnswersThatBreakNoRuleAreNotReported) {
  CpuTestDevice device(Options());
  StreamHandle stream = nullptr;
  EXPECT_EQ(device->StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  const DevicePtr flag = device.NewMemory();
  device.Write(flag, std::vector<uint8_t>(4, 0));
  EXPECT_EQ(device->StreamWaitValue32(stream, flag, 1, kWaitValueEq),
            DriverResult::kSuccess);
  EXPECT_EQ(device->StreamQuery(stream), DriverResult::kNotReady);
  device.Write(flag, {1, 0, 0, 0});
  EXPECT_EQ(device->StreamSynchronize(stream), DriverResult::kSuccess);
  EXPECT_THAT(lines_.Get(), IsEmpty());
}

TEST_F(CpuDriverReportTest, AKernelThatCannotBeLaunchedIsReported) {
  CpuTestDevice device(Options());
  EXPECT_EQ(device->LaunchKernel(nullptr, {}, nullptr),
            DriverResult::kInvalidValue);
  EXPECT_THAT(lines_.Get(),
              ElementsAre("the device, device 0: LaunchKernel = "
                          "CUDA_ERROR_INVALID_VALUE: a kernel must have a "
                          "body"));
}

TEST_F(CpuDriverReportTest, TheLossOfADeviceIsReportedOnceWithItsCause) {
  CpuTestDevice device(Options());
  const DevicePtr base = device.Reserve(1);
  EXPECT_EQ(device->LaunchKernel(
                nullptr, {KernelRange{base, 1, /*writes=*/true}}, [] {}),
            DriverResult::kSuccess);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kIllegalAddress);
  EXPECT_EQ(device->MemUnmap(base, device.granule_bytes()),
            DriverResult::kIllegalAddress);
  ASSERT_THAT(lines_.Get(), SizeIs(1));
  EXPECT_THAT(lines_.Get()[0],
              AllOf(HasSubstr("the device is lost: CUDA_ERROR_ILLEGAL_ADDRESS"),
                    HasSubstr("kernel at position 1")));
}

TEST_F(CpuDriverReportTest, TheLossIsTheFirstOneWhateverComesLater) {
  CpuTestDevice device(Options());
  EXPECT_EQ(device->loss(), "");
  EXPECT_EQ(device->MemUnmap(1, 2), DriverResult::kInvalidValue);
  EXPECT_EQ(device->loss(), "");
  const DevicePtr base = device.Reserve(1);
  EXPECT_EQ(device->LaunchKernel(
                nullptr, {KernelRange{base, 1, /*writes=*/true}}, [] {}),
            DriverResult::kSuccess);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kIllegalAddress);
  const std::string loss = device->loss();
  EXPECT_THAT(loss, StartsWith("CUDA_ERROR_ILLEGAL_ADDRESS: the kernel at "
                               "position 1 of stream "));
  EXPECT_THAT(lines_.Get()[1], EndsWith(loss));
  EXPECT_EQ(device->MemUnmap(base, 1), DriverResult::kIllegalAddress);
  EXPECT_EQ(device->loss(), loss);
}

TEST_F(CpuDriverReportTest, TheLossOfAFaultNamesTheAddress) {
  CpuTestDevice device(Options());
  const DevicePtr base = device.Reserve(1);
  std::string loss_meanwhile;
  // Undeclared, so that only the fault tells. While the kernel still runs, the
  // device is lost already.
  EXPECT_EQ(device->LaunchKernel(nullptr, {},
                                 [&] {
                                   *static_cast<volatile uint8_t*>(
                                       ToPointer(base)) = 1;
                                   loss_meanwhile = device->loss();
                                 }),
            DriverResult::kSuccess);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kIllegalAddress);
  EXPECT_THAT(loss_meanwhile, StartsWith("CUDA_ERROR_ILLEGAL_ADDRESS: "));
  EXPECT_THAT(device->loss(),
              AllOf(StartsWith("CUDA_ERROR_ILLEGAL_ADDRESS: the kernel at "),
                    HasSubstr(absl::StrCat("0x", absl::Hex(base)))));
}

TEST_F(CpuDriverReportTest, WhoeverMeetsTheErrorFindsTheLoss) {
  for (int round = 0; round < 20; ++round) {
    CpuTestDevice device(Options());
    const DevicePtr base = device.Reserve(1);
    EXPECT_EQ(device->LaunchKernel(
                  nullptr, {KernelRange{base, 1, /*writes=*/true}}, [] {}),
              DriverResult::kSuccess);
    int32_t count = 0;
    while (device->DeviceGetCount(&count) == DriverResult::kSuccess) {
    }
    EXPECT_THAT(device->loss(), HasSubstr("the kernel at position 1"));
  }
}

}  // namespace
}  // namespace firn::cpu_testing
