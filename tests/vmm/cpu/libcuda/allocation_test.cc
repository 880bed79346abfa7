// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that is allocated in one call, and copies and fills beyond those that
// firn itself makes.

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/libcuda/libcuda_library.h"

namespace firn::testing {
namespace {

using ::testing::Each;
using ::testing::Eq;

using CopyFunction = DriverResult(DevicePtr, DevicePtr, size_t);
using CopyAsyncFunction = DriverResult(DevicePtr, DevicePtr, size_t,
                                       StreamHandle);

constexpr size_t kWords = 1000;
constexpr size_t kBytes = kWords * sizeof(uint32_t);

DevicePtr AddressOf(std::vector<uint32_t>& words) {
  return reinterpret_cast<DevicePtr>(words.data());
}

class CpuLibcudaAllocationTest : public ::testing::Test {
 protected:
  DevicePtr Allocate(size_t bytes) {
    DevicePtr address = 0;
    EXPECT_EQ(alloc_(&address, bytes), DriverResult::kSuccess);
    return address;
  }
  size_t FreeBytes() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(api_.MemGetInfo(&free_bytes, &total_bytes),
              DriverResult::kSuccess);
    return free_bytes;
  }
  std::vector<uint32_t> Read(DevicePtr address) {
    std::vector<uint32_t> words(kWords);
    EXPECT_EQ(Exported<DriverResult(void*, DevicePtr, size_t)>(
                  "cuMemcpyDtoH_v2")(words.data(), address, kBytes),
              DriverResult::kSuccess);
    return words;
  }

  const CudaApi& api_ = StartedApi();
  ScopedPrimaryContext scope_{0};
  DriverResult (*const alloc_)(DevicePtr*, size_t) =
      Exported<DriverResult(DevicePtr*, size_t)>("cuMemAlloc_v2");
  DriverResult (*const free_)(DevicePtr) =
      Exported<DriverResult(DevicePtr)>("cuMemFree_v2");
  CopyFunction* const copy_ = Exported<CopyFunction>("cuMemcpy");
};

TEST_F(CpuLibcudaAllocationTest, MemoryIsUsableAndGoesBack) {
  const size_t free_bytes = FreeBytes();
  const DevicePtr address = Allocate(3 * kGranule - 1);
  EXPECT_EQ(FreeBytes(), free_bytes - 3 * kGranule);
  EXPECT_EQ(Exported<DriverResult(DevicePtr, uint32_t, size_t)>(
                "cuMemsetD32_v2")(address, 0x01020304, kWords),
            DriverResult::kSuccess);
  EXPECT_THAT(Read(address), Each(Eq(0x01020304u)));
  EXPECT_EQ(free_(address), DriverResult::kSuccess);
  EXPECT_EQ(FreeBytes(), free_bytes);
  EXPECT_EQ(free_(address), DriverResult::kInvalidValue);
}

TEST_F(CpuLibcudaAllocationTest, MoreThanThereIsLeavesNothingBehind) {
  const size_t free_bytes = FreeBytes();
  DevicePtr address = 0;
  EXPECT_EQ(alloc_(&address, size_t{1} << 30), DriverResult::kOutOfMemory);
  EXPECT_EQ(alloc_(&address, 0), DriverResult::kInvalidValue);
  EXPECT_EQ(alloc_(&address, ~size_t{0}), DriverResult::kOutOfMemory);
  EXPECT_EQ(FreeBytes(), free_bytes);
}

TEST_F(CpuLibcudaAllocationTest, OnlyWhatWasAllocatedSoIsFreedSo) {
  DevicePtr reserved = 0;
  ASSERT_EQ(api_.MemAddressReserve(&reserved, kGranule, 0, 0, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(free_(reserved), DriverResult::kInvalidValue);
  EXPECT_EQ(api_.MemAddressFree(reserved, kGranule), DriverResult::kSuccess);
}

TEST_F(CpuLibcudaAllocationTest, HostMemoryIsOrdinaryMemory) {
  void* memory = nullptr;
  auto* const free_host = Exported<DriverResult(void*)>("cuMemFreeHost");
  ASSERT_EQ(Exported<DriverResult(void**, size_t, uint32_t)>("cuMemHostAlloc")(
                &memory, kBytes, 7),
            DriverResult::kSuccess);
  static_cast<uint32_t*>(memory)[kWords - 1] = 7;
  EXPECT_EQ(free_(reinterpret_cast<DevicePtr>(memory)),
            DriverResult::kInvalidValue);
  EXPECT_EQ(free_host(memory), DriverResult::kSuccess);
  EXPECT_EQ(free_host(memory), DriverResult::kInvalidValue);
  ASSERT_EQ(
      Exported<DriverResult(void**, size_t)>("cuMemAllocHost_v2")(&memory, 1),
      DriverResult::kSuccess);
  EXPECT_EQ(free_host(memory), DriverResult::kSuccess);
}

TEST_F(CpuLibcudaAllocationTest, ACopyTellsDeviceFromHostByTheAddress) {
  const DevicePtr first = Allocate(kBytes);
  const DevicePtr second = Allocate(kBytes);
  std::vector<uint32_t> source(kWords, 42);
  std::vector<uint32_t> sink(kWords, 0);
  std::vector<uint32_t> other(kWords, 0);
  EXPECT_EQ(copy_(first, AddressOf(source), kBytes), DriverResult::kSuccess);
  EXPECT_EQ(copy_(second, first, kBytes), DriverResult::kSuccess);
  EXPECT_EQ(copy_(AddressOf(sink), second, kBytes), DriverResult::kSuccess);
  EXPECT_THAT(sink, Each(Eq(42u)));
  EXPECT_EQ(copy_(AddressOf(other), AddressOf(sink), kBytes),
            DriverResult::kSuccess);
  EXPECT_THAT(other, Each(Eq(42u)));

  auto* const copy_async = Exported<CopyAsyncFunction>("cuMemcpyAsync");
  source.assign(kWords, 43);
  EXPECT_EQ(copy_async(first, AddressOf(source), kBytes, nullptr),
            DriverResult::kSuccess);
  EXPECT_EQ(copy_async(second, first, kBytes, nullptr), DriverResult::kSuccess);
  EXPECT_EQ(copy_async(AddressOf(sink), second, kBytes, nullptr),
            DriverResult::kSuccess);
  EXPECT_EQ(api_.StreamSynchronize(nullptr), DriverResult::kSuccess);
  EXPECT_THAT(sink, Each(Eq(43u)));
  EXPECT_EQ(copy_async(AddressOf(sink), AddressOf(source), kBytes, nullptr),
            DriverResult::kNotSupported);
  EXPECT_EQ(free_(first), DriverResult::kSuccess);
  EXPECT_EQ(free_(second), DriverResult::kSuccess);
}

TEST_F(CpuLibcudaAllocationTest, CopiesAndFillsWithoutAStream) {
  const DevicePtr first = Allocate(kBytes);
  const DevicePtr second = Allocate(kBytes);
  const std::vector<uint32_t> source(kWords, 44);
  EXPECT_EQ(Exported<DriverResult(DevicePtr, const void*, size_t)>(
                "cuMemcpyHtoD_v2")(first, source.data(), kBytes),
            DriverResult::kSuccess);
  EXPECT_EQ(Exported<CopyFunction>("cuMemcpyDtoD_v2")(second, first, kBytes),
            DriverResult::kSuccess);
  EXPECT_THAT(Read(second), Each(Eq(44u)));
  EXPECT_EQ(Exported<DriverResult(DevicePtr, unsigned char, size_t)>(
                "cuMemsetD8_v2")(second, 0x11, kBytes),
            DriverResult::kSuccess);
  EXPECT_THAT(Read(second), Each(Eq(0x11111111u)));
  EXPECT_EQ(free_(first), DriverResult::kSuccess);
  EXPECT_EQ(free_(second), DriverResult::kSuccess);
}

TEST_F(CpuLibcudaAllocationTest, AFillOfWordsIsRefusedAsAFillOfBytesIs) {
  const DevicePtr address = Allocate(kGranule);
  auto* const fill =
      Exported<DriverResult(DevicePtr, uint32_t, size_t, StreamHandle)>(
          "cuMemsetD32Async");
  EXPECT_EQ(fill(address + 2, 5, 1, nullptr), DriverResult::kInvalidValue);
  EXPECT_EQ(fill(address, 5, kGranule / 4 + 1, nullptr),
            DriverResult::kInvalidValue);
  EXPECT_EQ(fill(address, 5, ~size_t{0}, nullptr), DriverResult::kInvalidValue);
  EXPECT_EQ(fill(address, 5, kGranule / 4, nullptr), DriverResult::kSuccess);
  EXPECT_THAT(Read(address), Each(Eq(5u)));
  EXPECT_EQ(free_(address), DriverResult::kSuccess);
}

TEST_F(CpuLibcudaAllocationTest, AttributesOfAnyAddressAreZeroOrRight) {
  const DevicePtr address = Allocate(kGranule);
  auto* const get =
      Exported<DriverResult(uint32_t, const int32_t*, void**, DevicePtr)>(
          "cuPointerGetAttributes");
  const int32_t attributes[] = {
      static_cast<int32_t>(PointerAttribute::kMemoryType),
      static_cast<int32_t>(PointerAttribute::kRangeStart),
      static_cast<int32_t>(PointerAttribute::kMapped)};
  uint32_t memory_type = 77;
  DevicePtr start = 77;
  bool mapped = false;
  void* data[] = {&memory_type, &start, &mapped};
  EXPECT_EQ(get(3, attributes, data, address + 5), DriverResult::kSuccess);
  EXPECT_EQ(memory_type, 2u);
  EXPECT_EQ(start, address);
  EXPECT_TRUE(mapped);
  EXPECT_EQ(get(3, attributes, data, reinterpret_cast<DevicePtr>(&start)),
            DriverResult::kSuccess);
  EXPECT_EQ(memory_type, 0u);
  EXPECT_EQ(start, 0u);
  EXPECT_FALSE(mapped);
  EXPECT_EQ(free_(address), DriverResult::kSuccess);
}

}  // namespace
}  // namespace firn::testing
