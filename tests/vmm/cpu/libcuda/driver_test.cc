// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each call of the Driver seam once, through the project's own loader: that
// name, order of arguments and result come through. What the calls do is the
// business of the CPU driver's own tests.

#include "firn/vmm/driver.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "firn/vmm/cuda/cuda_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/cpu/libcuda/libcuda_library.h"

namespace firn::testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;

class CpuLibcudaDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StartedApi();
    CudaDriverOptions options;
    options.library = FIRN_CPU_LIBCUDA;
    auto opened = OpenCudaDriver(options);
    FIRN_ASSERT_OK(opened.status());
    driver_ = *std::move(opened);
    ASSERT_EQ(driver_->StreamCreate(&stream_, kStreamNonBlocking), kOk);
    ASSERT_EQ(driver_->MemAddressReserve(&address_, kGranule, 0, 0, 0), kOk);
    prop_ = PinnedOn(0);
    prop_.requested_handle_types = ShareableHandleType::kPosixFileDescriptor;
    ASSERT_EQ(driver_->MemCreate(&handle_, kGranule, &prop_, 0), kOk);
    ASSERT_EQ(driver_->MemMap(address_, kGranule, 0, handle_, 0), kOk);
    const AccessDesc access{prop_.location, AccessFlags::kReadWrite};
    ASSERT_EQ(driver_->MemSetAccess(address_, kGranule, &access, 1), kOk);
  }
  void TearDown() override {
    EXPECT_EQ(driver_->CtxSynchronize(), kOk);
    EXPECT_EQ(driver_->MemUnmap(address_, kGranule), kOk);
    EXPECT_EQ(driver_->MemRelease(handle_), kOk);
    EXPECT_EQ(driver_->MemAddressFree(address_, kGranule), kOk);
    EXPECT_EQ(driver_->StreamDestroy(stream_), kOk);
  }

  std::unique_ptr<Driver> driver_;
  StreamHandle stream_ = nullptr;
  DevicePtr address_ = 0;
  AllocationProp prop_;
  PhysicalHandle handle_ = 0;
};

TEST_F(CpuLibcudaDriverTest, TheDevice) {
  const DriverIdentity identity = driver_->identity();
  EXPECT_EQ(identity.backend, "cuda");
  EXPECT_EQ(identity.device_name, "firn CPU driver");
  EXPECT_EQ(identity.driver_version, 13000);
  int32_t value = 0;
  EXPECT_EQ(driver_->DeviceGetCount(&value), kOk);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(driver_->DeviceGetAttribute(
                &value, DeviceAttribute::kVirtualMemoryManagement),
            kOk);
  EXPECT_EQ(value, 1);
  value = 0;
  EXPECT_EQ(driver_->DeviceCanAccessPeer(&value, 1), kOk);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(driver_->DeviceCanAccessPeer(&value, 2),
            DriverResult::kInvalidDevice);
}

TEST_F(CpuLibcudaDriverTest, TheSecondDeviceCanBeOpenedToo) {
  CudaDriverOptions options;
  options.library = FIRN_CPU_LIBCUDA;
  options.device_ordinal = 1;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Driver> second,
                            OpenCudaDriver(options));
  EXPECT_EQ(second->identity().device_ordinal, 1);
  // Memory of the one, made accessible to the other.
  const AccessDesc access{{LocationType::kDevice, 1}, AccessFlags::kReadWrite};
  EXPECT_EQ(driver_->MemSetAccess(address_, kGranule, &access, 1), kOk);
  EXPECT_EQ(second->MemsetD8Async(address_, 9, kGranule, nullptr), kOk);
  EXPECT_EQ(second->CtxSynchronize(), kOk);
}

TEST_F(CpuLibcudaDriverTest, QueriesOfMemory) {
  size_t bytes = 0;
  EXPECT_EQ(driver_->MemGetAllocationGranularity(&bytes, &prop_,
                                                 GranularityKind::kMinimum),
            kOk);
  EXPECT_EQ(bytes, kGranule);
  AccessFlags flags = AccessFlags::kNone;
  EXPECT_EQ(driver_->MemGetAccess(&flags, &prop_.location, address_), kOk);
  EXPECT_EQ(flags, AccessFlags::kReadWrite);
  AllocationProp found;
  EXPECT_EQ(driver_->MemGetAllocationPropertiesFromHandle(&found, handle_),
            kOk);
  EXPECT_EQ(found.requested_handle_types,
            ShareableHandleType::kPosixFileDescriptor);
  DevicePtr base = 0;
  EXPECT_EQ(driver_->MemGetAddressRange(&base, &bytes, address_ + 1), kOk);
  EXPECT_EQ(base, address_);
  EXPECT_EQ(bytes, kGranule);
  DevicePtr start = 0;
  EXPECT_EQ(driver_->PointerGetAttribute(&start, PointerAttribute::kRangeStart,
                                         address_ + 1),
            kOk);
  EXPECT_EQ(start, address_);
  size_t total_bytes = 0;
  EXPECT_EQ(driver_->MemGetInfo(&bytes, &total_bytes), kOk);
  EXPECT_EQ(total_bytes, size_t{64} << 20);
  EXPECT_LE(bytes, total_bytes - kGranule);
}

TEST_F(CpuLibcudaDriverTest, ReferencesToMemory) {
  PhysicalHandle retained = 0;
  EXPECT_EQ(driver_->MemRetainAllocationHandle(&retained, address_), kOk);
  EXPECT_EQ(retained, handle_);
  EXPECT_EQ(driver_->MemRelease(retained), kOk);
  int descriptor = -1;
  ASSERT_EQ(
      driver_->MemExportToShareableHandle(
          &descriptor, handle_, ShareableHandleType::kPosixFileDescriptor, 0),
      kOk);
  PhysicalHandle imported = 0;
  EXPECT_EQ(driver_->MemImportFromShareableHandle(
                &imported,
                reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor)),
                ShareableHandleType::kPosixFileDescriptor),
            kOk);
  EXPECT_EQ(driver_->MemRelease(imported), kOk);
  EXPECT_EQ(close(descriptor), 0);
}

TEST_F(CpuLibcudaDriverTest, CopiesAndFills) {
  std::vector<unsigned char> out(256, 0);
  const std::vector<unsigned char> in(128, 3);
  EXPECT_EQ(driver_->MemsetD8Async(address_, 2, 128, stream_), kOk);
  EXPECT_EQ(driver_->MemcpyHtoDAsync(address_ + 128, in.data(), 128, stream_),
            kOk);
  EXPECT_EQ(driver_->MemcpyDtoDAsync(address_ + 256, address_, 256, stream_),
            kOk);
  EXPECT_EQ(driver_->MemcpyDtoHAsync(out.data(), address_ + 256, 256, stream_),
            kOk);
  EXPECT_EQ(driver_->StreamSynchronize(stream_), kOk);
  EXPECT_EQ(out[127], 2);
  EXPECT_EQ(out[128], 3);
}

TEST_F(CpuLibcudaDriverTest, StreamsAndEvents) {
  uint64_t id = 0;
  EXPECT_EQ(driver_->StreamGetId(stream_, &id), kOk);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(driver_->StreamQuery(stream_), kOk);
  EventHandle event = nullptr;
  EXPECT_EQ(driver_->EventCreate(&event, kEventDisableTiming), kOk);
  EXPECT_EQ(driver_->EventRecord(event, stream_), kOk);
  EXPECT_EQ(driver_->StreamWaitEvent(nullptr, event, 0), kOk);
  EXPECT_EQ(driver_->EventSynchronize(event), kOk);
  EXPECT_EQ(driver_->EventQuery(event), kOk);
  EXPECT_EQ(driver_->EventDestroy(event), kOk);
}

TEST_F(CpuLibcudaDriverTest, ValuesAndHostFunctions) {
  StreamHandle waiting = nullptr;
  ASSERT_EQ(driver_->StreamCreate(&waiting, kStreamNonBlocking), kOk);
  EXPECT_EQ(driver_->MemsetD8Async(address_, 0, 16, stream_), kOk);
  EXPECT_EQ(driver_->StreamSynchronize(stream_), kOk);
  EXPECT_EQ(driver_->StreamWaitValue32(waiting, address_, 5, kWaitValueEq),
            kOk);
  EXPECT_EQ(driver_->StreamWaitValue64(waiting, address_ + 8, 6, kWaitValueGeq),
            kOk);
  EXPECT_EQ(driver_->StreamQuery(waiting), DriverResult::kNotReady);
  EXPECT_EQ(
      driver_->StreamWriteValue32(stream_, address_, 5, kWriteValueDefault),
      kOk);
  EXPECT_EQ(
      driver_->StreamWriteValue64(stream_, address_ + 8, 7, kWriteValueDefault),
      kOk);
  struct Inside {
    Driver* driver;
    DriverResult result;
  } inside = {driver_.get(), DriverResult::kSuccess};
  EXPECT_EQ(driver_->LaunchHostFunc(
                waiting,
                [](void* data) {
                  auto* const found = static_cast<Inside*>(data);
                  size_t bytes = 0;
                  found->result = found->driver->MemGetInfo(&bytes, &bytes);
                },
                &inside),
            kOk);
  EXPECT_EQ(driver_->StreamSynchronize(waiting), kOk);
  EXPECT_EQ(inside.result, DriverResult::kNotPermitted);
  EXPECT_EQ(driver_->StreamDestroy(waiting), kOk);
}

TEST_F(CpuLibcudaDriverTest, CaptureAndGraphs) {
  CaptureMode mode = CaptureMode::kRelaxed;
  EXPECT_EQ(driver_->ThreadExchangeStreamCaptureMode(&mode), kOk);
  EXPECT_EQ(mode, CaptureMode::kGlobal);
  EXPECT_EQ(driver_->ThreadExchangeStreamCaptureMode(&mode), kOk);
  EXPECT_EQ(mode, CaptureMode::kRelaxed);
  CaptureStatus status = CaptureStatus::kInvalidated;
  EXPECT_EQ(driver_->StreamIsCapturing(stream_, &status), kOk);
  EXPECT_EQ(status, CaptureStatus::kNone);
  EXPECT_EQ(driver_->StreamBeginCapture(stream_, CaptureMode::kThreadLocal),
            kOk);
  EXPECT_EQ(driver_->StreamIsCapturing(stream_, &status), kOk);
  EXPECT_EQ(status, CaptureStatus::kActive);
  EXPECT_EQ(driver_->MemsetD8Async(address_, 8, 16, stream_), kOk);
  GraphHandle graph = nullptr;
  EXPECT_EQ(driver_->StreamEndCapture(stream_, &graph), kOk);
  ASSERT_NE(graph, nullptr);
  GraphExecHandle exec = nullptr;
  EXPECT_EQ(driver_->GraphInstantiate(&exec, graph, 0), kOk);
  EXPECT_EQ(driver_->GraphLaunch(exec, stream_), kOk);
  EXPECT_EQ(driver_->StreamSynchronize(stream_), kOk);
  unsigned char byte = 0;
  EXPECT_EQ(driver_->MemcpyDtoHAsync(&byte, address_ + 15, 1, stream_), kOk);
  EXPECT_EQ(driver_->StreamSynchronize(stream_), kOk);
  EXPECT_EQ(byte, 8);
  EXPECT_EQ(driver_->GraphExecDestroy(exec), kOk);
  EXPECT_EQ(driver_->GraphDestroy(graph), kOk);
}

}  // namespace
}  // namespace firn::testing
