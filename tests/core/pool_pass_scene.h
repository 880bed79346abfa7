// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool whose next pass empties several granules, each of several virtual
// granules, beside blocks that stay; and what has to be true before and after
// it, whatever happens meanwhile.

#ifndef FIRN_TESTS_CORE_POOL_PASS_SCENE_H_
#define FIRN_TESTS_CORE_POOL_PASS_SCENE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pin.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gtest/gtest.h"
#include "tests/core/hook_log.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/step_driver.h"

namespace firn::testing {

struct PassSetting {
  CpuSync sync = CpuSync::kLazy;
  CompactionLevel level = CompactionLevel::kCallerPromises;
  // What is declared (kDeclaredIdle) is declared read-only.
  bool is_read_only = false;
};

inline std::vector<PassSetting> PassSettings() {
  std::vector<PassSetting> settings;
  for (const CpuSync sync : {CpuSync::kLazy, CpuSync::kDraining}) {
    for (const CompactionLevel level :
         {CompactionLevel::kCallerPromises, CompactionLevel::kLaunchScopes,
          CompactionLevel::kDeclaredIdle}) {
      settings.push_back({sync, level});
    }
    settings.push_back(
        {sync, CompactionLevel::kDeclaredIdle, /*is_read_only=*/true});
  }
  return settings;
}

inline std::string PassSettingName(const PassSetting& setting) {
  return absl::StrCat(setting.sync == CpuSync::kLazy ? "Lazy" : "Draining",
                      "Level", static_cast<int>(setting.level),
                      setting.is_read_only ? "ReadOnly" : "");
}

class PoolPassScene {
 public:
  static constexpr uint64_t kGranuleBytes = 64 * kKiB;
  static constexpr uint64_t kBlockBytes = 4 * kKiB;
  static constexpr uint64_t kCapacityBytes = 24 * kGranuleBytes;

  // The figures and generations that a pass may change.
  struct View {
    PoolStats stats;
    std::vector<uint64_t> generations;  // by block
  };

  explicit PoolPassScene(PassSetting setting)
      : level_(setting.level), is_read_only_(setting.is_read_only) {
    CpuDriverOptions driver_options;
    driver_options.sync = setting.sync;
    driver_options.device_bytes = 2 * kCapacityBytes;
    driver_options.granularity_bytes = kGranuleBytes;
    absl::StatusOr<std::unique_ptr<CpuDriver>> cpu =
        CpuDriver::Create(driver_options);
    FIRN_EXPECT_OK(cpu.status());
    cpu_ = *std::move(cpu);
    ledger_ = std::make_unique<LedgerDriver>(cpu_.get());
    faults_ = std::make_unique<FaultingDriver>(ledger_.get());
    steps_ = std::make_unique<StepDriver>(faults_.get(),
                                          [](DriverCall) { return true; });
    PoolOptions options;
    options.driver = std::shared_ptr<Driver>(steps_.get(), [](Driver*) {});
    options.capacity_bytes = kCapacityBytes;
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
    FIRN_EXPECT_OK(pool.status());
    pool_ = *std::move(pool);
    EXPECT_EQ(cpu_->StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
    Arrange();
    faults_->Reset();
  }
  ~PoolPassScene() {
    DestroyPool();
    if (stream_ != nullptr) cpu_->StreamDestroy(stream_);
  }

  Pool& pool() { return *pool_; }
  CpuDriver& cpu() { return *cpu_; }
  FaultingDriver& faults() { return *faults_; }
  StepDriver& steps() { return *steps_; }
  HookLog& hooks() { return hooks_; }
  // What is live, but for what a test has freed.
  std::vector<FilledBlock>& blocks() { return blocks_; }
  // One that used blocks: its work is done.
  StreamHandle stream() const { return stream_; }
  bool is_read_only() const { return is_read_only_; }
  // The first block, which is neither pinned nor declared.
  const FilledBlock& busy() const { return blocks_.front(); }
  bool is_pinned(const FilledBlock& block) const {
    return pinned_.count(block.ptr) == 1;
  }
  bool MustStay(const FilledBlock& block) const {
    return is_pinned(block) || (level_ == CompactionLevel::kDeclaredIdle &&
                                block.ptr == busy().ptr);
  }

  // Batches are as small as they can be.
  absl::StatusOr<CompactionReport> RunPass() {
    CompactOptions options;
    options.level = level_;
    options.max_wait = absl::Seconds(30);
    if (level_ == CompactionLevel::kLaunchScopes) {
      options.max_pause = absl::Seconds(100);
    } else if (level_ == CompactionLevel::kDeclaredIdle) {
      options.max_pause = absl::Nanoseconds(1);
    }
    return pool_->Compact(options);
  }

  View Look() {
    View view;
    view.stats = pool_->GetStats();
    for (const FilledBlock& block : blocks_) {
      const absl::StatusOr<uint64_t> generation = pool_->Generation(block.ptr);
      FIRN_EXPECT_OK(generation.status());
      view.generations.push_back(generation.value_or(0));
    }
    return view;
  }

  // What must hold at any time; after a loss, of what can still be reached.
  void ExpectSound(bool has_lost = false) {
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (IsReachable(blocks_[i])) {
        EXPECT_TRUE(IsIntact(blocks_[i])) << "block " << i;
      } else {
        EXPECT_TRUE(has_lost) << "block " << i << " cannot be reached";
      }
    }
    if (!has_lost) {
      FIRN_EXPECT_OK(pool_->CheckInvariants());
    }
    ExpectFiguresAgree();
    EXPECT_EQ(cpu_->loss(), "");
  }

  // Frees all that is left and destroys the pool.
  void ExpectNothingIsLeft(bool has_lost = false) {
    pins_.clear();
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool_->Free(block.ptr));
    }
    blocks_.clear();
    // Trim does not wait for what streams are still to be done with.
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool_->Trim().status());
    const PoolStats stats = pool_->GetStats();
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.live_allocations, 0u);
    EXPECT_EQ(stats.idle_blocks, 0u);
    EXPECT_EQ(stats.read_only_blocks, 0u);
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_EQ(stats.pending_free_bytes, 0u);
    EXPECT_TRUE(has_lost || stats.held_bytes == 0u) << stats.held_bytes;
    ExpectPoolGoesWhole();
  }

  // Destroys the pool as it is.
  void ExpectPoolGoesWhole() {
    DestroyPool();
    EXPECT_TRUE(ledger_->empty()) << ledger_->Describe();
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(cpu_->MemGetInfo(&free_bytes, &total_bytes),
              DriverResult::kSuccess);
    EXPECT_EQ(free_bytes, total_bytes);
    EXPECT_EQ(cpu_->loss(), "");
  }

  // Also gives up the pins.
  void DestroyPool() {
    pool_.reset();
    pins_.clear();
  }

  // As its user does; stream() is nullptr from now on.
  void DestroyStream() {
    FIRN_EXPECT_OK(pool_->ReleaseStream(stream_));
    EXPECT_EQ(cpu_->StreamDestroy(std::exchange(stream_, nullptr)),
              DriverResult::kSuccess);
  }

 private:
  // Fragmented twice, with a pass in between: granules have several mappings.
  void Arrange() {
    blocks_ = FragmentPool(pool_.get(), kBlockBytes, 3);
    FIRN_EXPECT_OK(pool_->Compact().status());
    std::vector<FilledBlock> kept;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (i % 4 == 0) {
        kept.push_back(blocks_[i]);
      } else {
        FIRN_EXPECT_OK(pool_->Free(blocks_[i].ptr));
      }
    }
    blocks_ = std::move(kept);
    for (const size_t i : {blocks_.size() / 3, blocks_.size() - 2}) {
      absl::StatusOr<Pin> pin = pool_->PinBlock(blocks_[i].ptr, "a test");
      FIRN_EXPECT_OK(pin.status());
      if (pin.ok()) pins_.push_back(*std::move(pin));
      pinned_.insert(blocks_[i].ptr);
    }
    Use();
    hooks_.Register(pool_.get());
  }

  // Work in a scope and outside; what may move at level 2 is declared.
  void Use() {
    {
      const LaunchScope scope(*pool_, stream_);
      for (FilledBlock& block : blocks_) {
        block.seed += 1000;
        EXPECT_EQ(FillOnStream(cpu_.get(), block, stream_),
                  DriverResult::kSuccess);
      }
    }
    FIRN_EXPECT_OK(pool_->RecordUse(blocks_[1].ptr, stream_));
    if (level_ == CompactionLevel::kDeclaredIdle) {
      for (size_t i = 1; i < blocks_.size(); ++i) {
        FIRN_EXPECT_OK(is_read_only_
                           ? pool_->MarkReadOnly(blocks_[i].ptr, stream_)
                           : pool_->MarkIdle(blocks_[i].ptr, stream_));
      }
    }
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
  }

  void ExpectFiguresAgree() {
    const PoolStats stats = pool_->GetStats();
    uint64_t live_bytes = 0;
    for (const FilledBlock& block : blocks_) live_bytes += block.bytes;
    EXPECT_EQ(stats.live_bytes, live_bytes);
    EXPECT_EQ(stats.live_allocations, blocks_.size());
    EXPECT_EQ(stats.allocations - stats.frees, stats.live_allocations);
    EXPECT_EQ(stats.held_bytes,
              (stats.handles_created - stats.handles_released) * kGranuleBytes);
    EXPECT_LE(stats.used_bytes + stats.cached_bytes, stats.held_bytes);
    EXPECT_LE(stats.live_vgs, stats.mapped_vgs);
    EXPECT_EQ(stats.pinned_blocks, pins_.size());
    EXPECT_LE(stats.idle_blocks + stats.read_only_blocks,
              stats.live_allocations);
    EXPECT_LE(stats.failed_passes, stats.compaction_passes);
  }

  bool IsReachable(const FilledBlock& block) const {
    MemLocation device;
    device.type = LocationType::kDevice;
    AccessFlags flags = AccessFlags::kNone;
    // No block reaches into a second granule.
    return cpu_->MemGetAccess(&flags, &device,
                              reinterpret_cast<uintptr_t>(block.ptr)) ==
               DriverResult::kSuccess &&
           flags == AccessFlags::kReadWrite;
  }

  const CompactionLevel level_;
  const bool is_read_only_;
  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<LedgerDriver> ledger_;
  std::unique_ptr<FaultingDriver> faults_;
  std::unique_ptr<StepDriver> steps_;
  std::unique_ptr<Pool> pool_;
  HookLog hooks_;
  StreamHandle stream_ = nullptr;
  std::vector<FilledBlock> blocks_;
  std::set<void*> pinned_;
  std::vector<Pin> pins_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_POOL_PASS_SCENE_H_
