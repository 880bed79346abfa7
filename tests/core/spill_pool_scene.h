// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A small pool that may spill, on a driver that counts the host memory that was
// created through it.

#ifndef FIRN_TESTS_CORE_SPILL_POOL_SCENE_H_
#define FIRN_TESTS_CORE_SPILL_POOL_SCENE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "firn/core/ladder.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmentation_identities.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

// Thread safety: all methods may be called from any thread.
class HostLedger : public DriverWrapper {
 public:
  explicit HostLedger(Driver* base) : DriverWrapper(base) {}

  // Bytes of host memory that there are, and the most that there ever were,
  // since the last Rebase and beyond what there was then.
  uint64_t bytes() const {
    MutexLock lock(&mutex_);
    return bytes_ - base_bytes_;
  }
  uint64_t peak_bytes() const {
    MutexLock lock(&mutex_);
    return peak_bytes_ - base_bytes_;
  }
  void Rebase() {
    MutexLock lock(&mutex_);
    peak_bytes_ = base_bytes_ = bytes_;
  }
  uint64_t all_bytes() const {
    MutexLock lock(&mutex_);
    return bytes_;
  }
  // From now on no host memory is created, but this is the result.
  void Refuse(DriverResult result) {
    MutexLock lock(&mutex_);
    refusal_ = result;
  }

  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    const bool is_host = prop->location.type != LocationType::kDevice;
    if (is_host) {
      MutexLock lock(&mutex_);
      if (refusal_ != DriverResult::kSuccess) return refusal_;
      // Counted first: it is there before anybody knows.
      bytes_ += bytes;
      peak_bytes_ = std::max(peak_bytes_, bytes_);
    }
    const DriverResult result =
        DriverWrapper::MemCreate(handle, bytes, prop, flags);
    if (!is_host) return result;
    MutexLock lock(&mutex_);
    if (result == DriverResult::kSuccess) {
      host_[*handle].bytes = bytes;
    } else {
      bytes_ -= bytes;
    }
    return result;
  }
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override {
    const DriverResult result =
        DriverWrapper::MemRetainAllocationHandle(handle, address);
    if (result != DriverResult::kSuccess) return result;
    MutexLock lock(&mutex_);
    const auto found = host_.find(*handle);
    if (found != host_.end()) ++found->second.references;
    return result;
  }
  DriverResult MemRelease(PhysicalHandle handle) override {
    Memory memory;
    {
      MutexLock lock(&mutex_);
      const auto found = host_.find(handle);
      if (found != host_.end()) {
        memory = found->second;
        --found->second.references;
        // Its name may come back at once.
        if (memory.references == 1) host_.erase(found);
      }
    }
    const DriverResult result = DriverWrapper::MemRelease(handle);
    if (memory.bytes == 0) return result;
    MutexLock lock(&mutex_);
    if (result != DriverResult::kSuccess) {
      host_[handle] = memory;
    } else if (memory.references == 1) {
      bytes_ -= memory.bytes;
    }
    return result;
  }

 private:
  struct Memory {
    uint64_t bytes = 0;
    int references = 1;
  };
  mutable Mutex mutex_;
  std::map<PhysicalHandle, Memory> host_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t base_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  DriverResult refusal_ ABSL_GUARDED_BY(mutex_) = DriverResult::kSuccess;
};

// A device, a pool of 16 granules on it that may spill 8, and its blocks, which
// are filled and stay as they are.
class SpillPool {
 public:
  static constexpr uint64_t kGranuleBytes = 64 * kKiB;
  static constexpr uint64_t kGranules = 16;
  static constexpr uint64_t kCapacityBytes = kGranules * kGranuleBytes;
  static constexpr uint64_t kHostGranules = 8;

  static PoolOptions Options() {
    PoolOptions options;
    options.capacity_bytes = kCapacityBytes;
    options.move_on_failure = true;
    options.host_spill_limit_bytes = kHostGranules * kGranuleBytes;
    return options;
  }

  explicit SpillPool(CpuSync sync, PoolOptions options = Options()) {
    CpuDriverOptions driver_options;
    driver_options.sync = sync;
    driver_options.device_bytes = 4 * kCapacityBytes;
    driver_options.granularity_bytes = kGranuleBytes;
    auto cpu = CpuDriver::Create(driver_options);
    EXPECT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = *std::move(cpu);
    ledger_ = std::make_unique<HostLedger>(cpu_.get());
    faults_ = std::make_unique<FaultingDriver>(ledger_.get());
    is_debug_ = options.debug.enabled;
    options.driver = std::shared_ptr<Driver>(faults_.get(), [](Driver*) {});
    auto pool = Pool::Create(std::move(options));
    EXPECT_TRUE(pool.ok()) << pool.status();
    if (pool.ok()) pool_ = *std::move(pool);
    // What streams write to tell that they are done.
    ledger_->Rebase();
  }
  ~SpillPool() {
    if (pool_ == nullptr) return;
    if (checks_at_end_) ExpectSound();
    pool_.reset();
    EXPECT_EQ(ledger_->all_bytes(), 0u);
  }

  // Some addresses were lost for good: no check at the end.
  void ForgetInvariants() { checks_at_end_ = false; }

  Pool& pool() { return *pool_; }
  CpuDriver& cpu() { return *cpu_; }
  FaultingDriver& faults() { return *faults_; }
  HostLedger& ledger() { return *ledger_; }
  std::vector<FilledBlock>& blocks() { return blocks_; }

  // A filled block; none if there is no room.
  bool Add(uint64_t bytes, const AllocateOptions& options = {}) {
    const absl::StatusOr<void*> ptr = pool_->Allocate(bytes, options);
    if (!ptr.ok()) return false;
    blocks_.push_back({*ptr, bytes, ++last_seed_});
    Fill(blocks_.back());
    return true;
  }
  void FillUp(uint64_t bytes, const AllocateOptions& options = {}) {
    while (Add(bytes, options)) {
    }
  }
  void AllowAll() {
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool_->AllowSpill(block.ptr, nullptr));
    }
  }
  void FreeAt(size_t i) {
    FIRN_EXPECT_OK(pool_->Free(blocks_[i].ptr));
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void FreeAll() {
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool_->Free(block.ptr));
    }
    blocks_.clear();
  }

  // Whether the first granule beneath the block is one of the host's.
  bool IsOnHost(const FilledBlock& block) {
    const DevicePtr at =
        reinterpret_cast<uintptr_t>(block.ptr) / kGranuleBytes * kGranuleBytes;
    PhysicalHandle handle = 0;
    // Lost, then.
    if (cpu_->MemRetainAllocationHandle(&handle, at) !=
        DriverResult::kSuccess) {
      return false;
    }
    AllocationProp prop;
    EXPECT_EQ(cpu_->MemGetAllocationPropertiesFromHandle(&prop, handle),
              DriverResult::kSuccess);
    EXPECT_EQ(cpu_->MemRelease(handle), DriverResult::kSuccess);
    return prop.location.type != LocationType::kDevice;
  }
  size_t CountOnHost() {
    return static_cast<size_t>(std::count_if(
        blocks_.begin(), blocks_.end(),
        [this](const FilledBlock& block) { return IsOnHost(block); }));
  }
  // One that lies there.
  const FilledBlock* FindOnHost() {
    const auto found = std::find_if(
        blocks_.begin(), blocks_.end(),
        [this](const FilledBlock& block) { return IsOnHost(block); });
    return found == blocks_.end() ? nullptr : &*found;
  }

  // Every byte, the invariants, the budget, and figures that fit together.
  void ExpectSound() {
    EXPECT_EQ(CountDamaged(blocks_), 0u);
    FIRN_EXPECT_OK(pool_->CheckInvariants());
    const PoolStats stats = pool_->GetStats();
    EXPECT_LE(ledger_->peak_bytes(), stats.host_limit_bytes);
    EXPECT_EQ(ledger_->bytes(), stats.host_held_bytes);
    EXPECT_LE(stats.host_used_bytes, stats.host_held_bytes);
    EXPECT_LE(stats.spilled_bytes, stats.host_used_bytes);
    EXPECT_LE(stats.live_bytes, stats.used_bytes + stats.host_used_bytes);
    // Guard bands count for some figures only.
    if (is_debug_) return;
    EXPECT_EQ(
        FragmentationIdentities(pool_->GetFragmentation()).With(stats).status(),
        absl::OkStatus());
  }

  RungStats StatsOf(Rung rung) {
    return pool_->GetLadderStats()[static_cast<size_t>(rung)];
  }
  // The allocation succeeds, by spilling alone.
  void ExpectRescued(uint64_t bytes, const AllocateOptions& options = {}) {
    const LadderStats before = pool_->GetLadderStats();
    EXPECT_TRUE(Add(bytes, options));
    const LadderStats after = pool_->GetLadderStats();
    for (size_t i = 0; i < kRungCount; ++i) {
      const bool is_it = i == static_cast<size_t>(Rung::kSpill);
      EXPECT_EQ(after[i].rescued - before[i].rescued, is_it ? 1u : 0u)
          << RungName(static_cast<Rung>(i));
    }
    ExpectSound();
  }
  // It fails, and says so of spilling.
  void ExpectFails(uint64_t bytes, const std::string& why,
                   const AllocateOptions& options = {}) {
    const RungStats before = StatsOf(Rung::kSpill);
    EXPECT_THAT(pool_->Allocate(bytes, options).status(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         ::testing::HasSubstr(absl::StrCat("spill: ", why))));
    EXPECT_EQ(StatsOf(Rung::kSpill).rescued, before.rescued);
    EXPECT_GT(StatsOf(Rung::kSpill).tried, before.tried);
    ExpectSound();
  }

 private:
  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<HostLedger> ledger_;
  std::unique_ptr<FaultingDriver> faults_;
  std::unique_ptr<Pool> pool_;
  std::vector<FilledBlock> blocks_;
  uint64_t last_seed_ = 0;
  bool is_debug_ = false;
  bool checks_at_end_ = true;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_SPILL_POOL_SCENE_H_
