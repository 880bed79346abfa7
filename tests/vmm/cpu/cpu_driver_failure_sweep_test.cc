// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One life of memory, cut short at every call: by a failure in front of the
// driver, and by every limit inside it. Whatever was had by then can be given
// back, nothing is left over, and the next life succeeds.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "firn/vmm/faulting_driver.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

constexpr uint64_t kGranuleBytes = 64 << 10;
constexpr uint64_t kGranules = 6;
// More than a life takes.
constexpr int kSpareDescriptors = 8;
constexpr DriverResult kOk = DriverResult::kSuccess;

int64_t OpenDescriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::distance(begin(descriptors), end(descriptors));
}

// The lowest number that is no descriptor.
rlim_t NextDescriptor() {
  const int next = dup(STDERR_FILENO);
  close(next);
  return static_cast<rlim_t>(next);
}

// Makes all numbers below the highest descriptor descriptors.
void CloseGaps() {
  while (static_cast<int64_t>(NextDescriptor()) + 1 != OpenDescriptors()) {
    ASSERT_GE(dup(STDERR_FILENO), 0);
  }
}

// Makes calls until one fails, and takes back what the others did.
class Life {
 public:
  // `driver` may fail; `base`, behind it, takes back.
  Life(Driver* driver, CpuDriver* base) : driver_(driver), base_(base) {}
  ~Life() {
    EXPECT_EQ(base_->CtxSynchronize(), kOk);
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
  }

  // Runs to the end or to the first failure, which it returns.
  DriverResult Run() {
    DriverResult result =
        driver_->MemAddressReserve(&home_, kGranules * kGranuleBytes, 0, 0, 0);
    if (result != kOk) return result;
    undo_.push_back([this] {
      EXPECT_EQ(base_->MemAddressFree(home_, kGranules * kGranuleBytes), kOk);
    });
    const std::function<DriverResult()> steps[] = {
        [this] { return driver_->StreamCreate(&stream_, kStreamNonBlocking); },
        [this] { return TakeStream(); },
        [this] { return Create(&plain_, 1, ShareableHandleType::kNone); },
        [this] {
          return Create(&shared_, 2, ShareableHandleType::kPosixFileDescriptor);
        },
        [this] { return Map(0, plain_, 1); },
        [this] { return Map(1, shared_, 2); },
        [this] { return SetAccess(0, 3); },
        [this] {
          return driver_->MemsetD8Async(home_, 7, kGranuleBytes, stream_);
        },
        [this] { return Copy(0, 1); },
        [this] { return Share(); },
        [this] { return Map(3, imported_, 2); },
        [this] { return SetAccess(3, 2); },
        [this] { return driver_->StreamSynchronize(stream_); },
        [this] { return Create(&fresh_, 1, ShareableHandleType::kNone); },
        // The remap: over a staging address, under the address that stays.
        [this] { return Map(5, fresh_, 1); },
        [this] { return SetAccess(5, 1); },
        [this] { return Copy(0, 5); },
        [this] { return driver_->StreamSynchronize(stream_); },
        [this] { return Unmap(5); },
        [this] { return Unmap(0); },
        [this] { return Map(0, fresh_, 1); },
        [this] { return SetAccess(0, 1); },
        [this] { return Look(); },
    };
    for (const auto& step : steps) {
      result = step();
      if (result != kOk) return result;
    }
    return kOk;
  }

  bool contents_are_right() const { return contents_are_right_; }

 private:
  DevicePtr At(uint64_t granule) const {
    return home_ + granule * kGranuleBytes;
  }
  DriverResult TakeStream() {
    undo_.push_back([this] { EXPECT_EQ(base_->StreamDestroy(stream_), kOk); });
    return kOk;
  }
  void Own(PhysicalHandle handle) {
    undo_.push_back(
        [this, handle] { EXPECT_EQ(base_->MemRelease(handle), kOk); });
  }
  DriverResult Create(PhysicalHandle* handle, uint64_t granules,
                      ShareableHandleType type) {
    AllocationProp prop = DeviceProp();
    prop.requested_handle_types = type;
    const DriverResult result =
        driver_->MemCreate(handle, granules * kGranuleBytes, &prop, 0);
    if (result == kOk) Own(*handle);
    return result;
  }
  DriverResult Map(uint64_t granule, PhysicalHandle handle, uint64_t granules) {
    const DriverResult result =
        driver_->MemMap(At(granule), granules * kGranuleBytes, 0, handle, 0);
    if (result != kOk) return result;
    mapped_.resize(kGranules);
    mapped_[granule] = granules;
    undo_.push_back([this, granule] {
      const uint64_t count = std::exchange(mapped_[granule], 0);
      if (count == 0) return;
      EXPECT_EQ(base_->MemUnmap(At(granule), count * kGranuleBytes), kOk);
    });
    return kOk;
  }
  DriverResult Unmap(uint64_t granule) {
    const DriverResult result =
        driver_->MemUnmap(At(granule), mapped_[granule] * kGranuleBytes);
    if (result == kOk) mapped_[granule] = 0;
    return result;
  }
  DriverResult SetAccess(uint64_t granule, uint64_t granules) {
    const AccessDesc desc{{LocationType::kDevice, 0}, AccessFlags::kReadWrite};
    return driver_->MemSetAccess(At(granule), granules * kGranuleBytes, &desc,
                                 1);
  }
  DriverResult Copy(uint64_t from, uint64_t to) {
    return driver_->MemcpyDtoDAsync(At(to), At(from), kGranuleBytes, stream_);
  }
  DriverResult Share() {
    int descriptor = -1;
    DriverResult result = driver_->MemExportToShareableHandle(
        &descriptor, shared_, ShareableHandleType::kPosixFileDescriptor, 0);
    if (result != kOk) return result;
    undo_.push_back([descriptor] { close(descriptor); });
    const auto os_handle = static_cast<uintptr_t>(descriptor);
    result = driver_->MemImportFromShareableHandle(
        &imported_, reinterpret_cast<void*>(os_handle),
        ShareableHandleType::kPosixFileDescriptor);
    if (result == kOk) Own(imported_);
    return result;
  }
  // Both the granule that was moved and the copy, through its other address.
  DriverResult Look() {
    std::vector<uint8_t> bytes(2 * kGranuleBytes);
    DriverResult result =
        driver_->MemcpyDtoHAsync(bytes.data(), At(0), kGranuleBytes, stream_);
    if (result != kOk) return result;
    result = driver_->MemcpyDtoHAsync(bytes.data() + kGranuleBytes, At(3),
                                      kGranuleBytes, stream_);
    const DriverResult waited = base_->StreamSynchronize(stream_);
    if (result != kOk) return result;
    contents_are_right_ =
        bytes == std::vector<uint8_t>(2 * kGranuleBytes, uint8_t{7});
    return waited;
  }

  Driver* const driver_;
  CpuDriver* const base_;
  DevicePtr home_ = 0;
  StreamHandle stream_ = nullptr;
  PhysicalHandle plain_ = 0;
  PhysicalHandle shared_ = 0;
  PhysicalHandle imported_ = 0;
  PhysicalHandle fresh_ = 0;
  // Granules of the mapping that begins there; 0 where none does.
  std::vector<uint64_t> mapped_;
  bool contents_are_right_ = false;
  std::vector<std::function<void()>> undo_;
};

class CpuDriverFailureSweepTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  CpuDriverOptions Options() const {
    CpuDriverOptions options;
    options.granularity_bytes = kGranuleBytes;
    options.device_bytes = 4 * kGranuleBytes;
    options.sync = GetParam();
    return options;
  }
  // One life on a device of its own; whether it came to its end.
  static bool LivesOn(const CpuDriverOptions& options) {
    const int64_t mappings_before =
        cpu::KernelMappingBudget::OfProcess().used();
    const int64_t descriptors_before = OpenDescriptors();
    DriverResult result;
    {
      CpuTestDevice device(options);
      const uint64_t free_bytes = device.FreeBytes();
      {
        Life life(&*device, &*device);
        result = life.Run();
        EXPECT_EQ(life.contents_are_right(), result == kOk);
      }
      EXPECT_EQ(device.FreeBytes(), free_bytes);
    }
    EXPECT_EQ(OpenDescriptors(), descriptors_before);
    EXPECT_EQ(cpu::KernelMappingBudget::OfProcess().used(), mappings_before);
    EXPECT_TRUE(result == kOk || result == DriverResult::kOutOfMemory);
    return result == kOk;
  }
};

TEST_P(CpuDriverFailureSweepTest, EveryCallMayFailAndNothingIsLeftOver) {
  const int64_t descriptors_before = OpenDescriptors();
  CpuTestDevice device(Options());
  const uint64_t free_bytes = device.FreeBytes();
  const int64_t descriptors = OpenDescriptors();
  FaultingDriver faulting(&*device);
  uint64_t calls = 0;
  DriverResult result;
  do {
    faulting.Reset();
    faulting.FailNth(calls, DriverResult::kOutOfMemory);
    {
      Life life(&faulting, &*device);
      result = life.Run();
      EXPECT_EQ(life.contents_are_right(), result == kOk);
    }
    EXPECT_EQ(device.FreeBytes(), free_bytes) << "call " << calls;
    EXPECT_EQ(OpenDescriptors(), descriptors) << "call " << calls;
    ++calls;
  } while (result != kOk);
  EXPECT_GT(calls, 20u);
  device.Destroy();
  EXPECT_EQ(OpenDescriptors(), descriptors_before);
}

TEST_P(CpuDriverFailureSweepTest, EveryLimitMayBeMetAndNothingIsLeftOver) {
  int cut_short = 0;
  const auto sweep =
      [&](const std::function<void(CpuDriverOptions*, uint64_t)>& limit_to) {
        for (uint64_t limit = 1;; ++limit) {
          ASSERT_LT(limit, 100u);
          CpuDriverOptions options = Options();
          limit_to(&options, limit);
          if (LivesOn(options)) break;
          ++cut_short;
        }
      };
  sweep([](CpuDriverOptions* options, uint64_t limit) {
    options->device_bytes = limit * kGranuleBytes;
  });
  sweep([](CpuDriverOptions* options, uint64_t limit) {
    options->max_handles = limit;
  });
  sweep([](CpuDriverOptions* options, uint64_t limit) {
    options->max_mappings = limit;
  });
  EXPECT_GE(cut_short, 8);
}

// In a child: the limit is the process's.
TEST_P(CpuDriverFailureSweepTest, EveryDescriptorMayBeTheLast) {
  if (testing::kUnderAddressSanitizer) {
    GTEST_SKIP() << "the sanitizer itself opens descriptors to look at memory";
  }
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        CloseGaps();
        const int64_t open_before = OpenDescriptors();
        int cut_short = 0;
        for (rlim_t spare = 0; spare < kSpareDescriptors; ++spare) {
          CpuTestDevice device(Options());
          const uint64_t free_bytes = device.FreeBytes();
          limit.rlim_cur = NextDescriptor() + spare;
          setrlimit(RLIMIT_NOFILE, &limit);
          {
            Life life(&*device, &*device);
            if (life.Run() != kOk) ++cut_short;
          }
          limit.rlim_cur = limit.rlim_max;
          setrlimit(RLIMIT_NOFILE, &limit);
          if (device.FreeBytes() != free_bytes) _exit(1);
          device.Destroy();
          if (OpenDescriptors() != open_before) _exit(2);
        }
        _exit(cut_short >= 2 && cut_short < kSpareDescriptors ? 0 : 3);
      },
      ::testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Extremes, CpuDriverFailureSweepTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         [](const ::testing::TestParamInfo<CpuSync>& info) {
                           return info.param == CpuSync::kLazy ? "Lazy"
                                                               : "Draining";
                         });

}  // namespace
}  // namespace firn::cpu_testing
