// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The driver in a process that has used up its kernel mappings elsewhere.

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "firn/vmm/cpu/host_memory.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"
#include "tests/vmm/cpu/test_memory.h"

// Where mappings run out, the sanitizers end the process.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kNoMemory = DriverResult::kOutOfMemory;

// Takes every kernel mapping that the process may still have. While it lives,
// nothing works that allocates much: tests note results, and judge them later.
class AllKernelMappings {
 public:
  explicit AllKernelMappings(uint64_t at_most) {
    const uint64_t page_bytes = cpu::HostPageBytes();
    bytes_ = 2 * at_most * page_bytes;
    base_ = mmap(nullptr, bytes_, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) return;
    for (uint64_t i = 1; i < 2 * at_most && !complete_; i += 2) {
      complete_ = mprotect(static_cast<char*>(base_) + i * page_bytes,
                           page_bytes, PROT_READ) != 0;
    }
    // What takes one, and not two.
    for (void*& last : last_) {
      last = mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS,
                  -1, 0);
    }
  }
  ~AllKernelMappings() {
    if (base_ != MAP_FAILED) munmap(base_, bytes_);
    for (void* const last : last_) {
      if (last != MAP_FAILED) munmap(last, cpu::HostPageBytes());
    }
  }
  AllKernelMappings(const AllKernelMappings&) = delete;
  AllKernelMappings& operator=(const AllKernelMappings&) = delete;

  bool complete() const { return complete_; }

 private:
  uint64_t bytes_ = 0;
  void* base_ = MAP_FAILED;
  void* last_[4] = {MAP_FAILED, MAP_FAILED, MAP_FAILED, MAP_FAILED};
  bool complete_ = false;
};

class HostLimitTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kGranules = 200;

  void SetUp() override {
    limit_ =
        static_cast<uint64_t>(cpu::KernelMappingBudget::OfProcess().limit());
    if (limit_ > 200000) GTEST_SKIP() << "this host allows " << limit_;
  }

  uint64_t limit_ = 0;
  CpuTestDevice device_{SmallRealOptions()};
};

TEST_F(HostLimitTest, AFewUnmapsSucceedThenOneIsRefusedAndUnmapsNothing) {
  // One kernel mapping, of which each unmap makes one more.
  const DevicePtr base = device_.NewMemory(kGranules);
  device_.Write(
      base, std::vector<uint8_t>(kGranules * device_.granule_bytes(), 0x5a));
  const uint64_t bytes = device_.granule_bytes();
  uint64_t unmapped = 0;
  DriverResult result = kOk;
  {
    const AllKernelMappings taken(limit_);
    ASSERT_TRUE(taken.complete());
    while (result == kOk && 2 * unmapped + 2 < kGranules) {
      result = device_->MemUnmap(device_.At(base, 2 * unmapped + 1), bytes);
      if (result == kOk) ++unmapped;
    }
  }
  EXPECT_EQ(result, kNoMemory);
  EXPECT_GE(unmapped, 4u);
  EXPECT_LE(unmapped, 64u);
  const DevicePtr refused = device_.At(base, 2 * unmapped + 1);
  EXPECT_EQ(device_.GetAccess(refused), AccessFlags::kReadWrite);
  EXPECT_EQ(device_.Read(refused, 1)[0], 0x5a);
  EXPECT_EQ(device_->MemUnmap(refused, bytes), kOk);
}

TEST_F(HostLimitTest, AnUnmapOfManyMappingsIsRefusedWhole) {
  const DevicePtr base = device_.NewMemory(kGranules);
  // Some rows with access are kernel mappings of their own, which go without
  // anything new; the last is in the middle of one.
  for (uint64_t i = 101; i < 108; i += 2) {
    device_.SetAccess(device_.At(base, i), 1, AccessFlags::kNone);
  }
  const uint64_t bytes = device_.granule_bytes();
  DriverResult result = kOk;
  {
    const AllKernelMappings taken(limit_);
    ASSERT_TRUE(taken.complete());
    for (uint64_t i = 1; i < 99 && result == kOk; i += 2) {
      result = device_->MemUnmap(device_.At(base, i), bytes);
    }
    if (result == kNoMemory) {
      result = device_->MemUnmap(device_.At(base, 102), 88 * bytes);
    }
  }
  EXPECT_EQ(result, kNoMemory);
  for (uint64_t i = 102; i < 190; ++i) {
    const bool accessible = i > 107 || i % 2 == 0;
    EXPECT_EQ(device_.GetAccess(device_.At(base, i)),
              accessible ? AccessFlags::kReadWrite : AccessFlags::kNone);
    if (accessible) device_.Write(device_.At(base, i), {1});
  }
  EXPECT_EQ(device_->MemUnmap(device_.At(base, 102), 88 * bytes), kOk);
}

TEST_F(HostLimitTest, TakingAccessAwayIsRefusedToo) {
  const DevicePtr base = device_.NewMemory(kGranules);
  uint64_t taken_away = 0;
  DriverResult result = kOk;
  {
    const AllKernelMappings taken(limit_);
    ASSERT_TRUE(taken.complete());
    while (result == kOk && 2 * taken_away + 2 < kGranules) {
      result = device_.TrySetAccess(device_.At(base, 2 * taken_away + 1), 1,
                                    AccessFlags::kNone);
      if (result == kOk) ++taken_away;
    }
  }
  EXPECT_EQ(result, kNoMemory);
  EXPECT_EQ(device_.GetAccess(device_.At(base, 2 * taken_away + 1)),
            AccessFlags::kReadWrite);
}

TEST_F(HostLimitTest, ABadAccessIsStillNoCrash) {
  const DevicePtr base = device_.Reserve(4);
  DriverResult result = kOk;
  {
    // The worker is there before nothing is left for it.
    EXPECT_EQ(device_->LaunchKernel(nullptr, {}, [] {}), kOk);
    EXPECT_EQ(device_->CtxSynchronize(), kOk);
    const AllKernelMappings taken(limit_);
    ASSERT_TRUE(taken.complete());
    device_->LaunchKernel(nullptr, {}, [&] { ByteAt(base) = 1; });
    result = device_->CtxSynchronize();
  }
  EXPECT_EQ(result, DriverResult::kIllegalAddress);
}

}  // namespace
}  // namespace firn::cpu_testing

#endif
