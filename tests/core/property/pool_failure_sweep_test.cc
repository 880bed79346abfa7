// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool grows, shrinks, is trimmed and compacted, and grows again, while one
// driver call fails, or all from one on: contents stay, nothing is lost but
// what the pool says is, and it goes on working afterwards.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/status_matchers.h"

namespace firn::testing::property {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr uint64_t kGranule = 64 << 10;
constexpr uint64_t kCapacity = 16 * kGranule;

struct Fault {
  DriverResult result = DriverResult::kUnknown;
  bool lasting = false;
};

// The whole scenario on a pool of its own.
class Scene {
 public:
  Scene(CpuSync sync, PlacementKind placement) {
    CpuDriverOptions driver_options;
    driver_options.sync = sync;
    driver_options.device_bytes = 2 * kCapacity;
    driver_options.granularity_bytes = kGranule;
    absl::StatusOr<std::unique_ptr<CpuDriver>> cpu =
        CpuDriver::Create(driver_options);
    FIRN_EXPECT_OK(cpu.status());
    cpu_ = *std::move(cpu);
    ledger_ = std::make_unique<LedgerDriver>(cpu_.get());
    faults_ = std::make_unique<FaultingDriver>(ledger_.get());
    PoolOptions options;
    options.driver = std::shared_ptr<Driver>(faults_.get(), [](Driver*) {});
    options.capacity_bytes = kCapacity;
    options.move_on_failure = true;
    options.placement = placement;
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
    FIRN_EXPECT_OK(pool.status());
    pool_ = *std::move(pool);
    for (StreamHandle& stream : streams_) {
      EXPECT_EQ(cpu_->StreamCreate(&stream, kStreamNonBlocking),
                DriverResult::kSuccess);
    }
    faults_->Reset();
  }

  ~Scene() {
    pool_.reset();
    for (const StreamHandle stream : streams_) cpu_->StreamDestroy(stream);
  }

  // Returns the calls that were made to fail.
  uint64_t Play(uint64_t call, const Fault& fault) {
    if (fault.lasting) {
      faults_->FailFrom(call, fault.result);
    } else {
      faults_->FailNth(call, fault.result);
    }
    Grow(kCapacity * 7 / 8);
    Shrink(kCapacity / 5);
    Check("Trim", pool_->Trim(4 * kGranule).status());
    Check("Compact", pool_->Compact().status());
    CompactOptions gated;
    gated.level = CompactionLevel::kLaunchScopes;
    // Work outside of scopes would be nobody's to wait for.
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    Check("Compact in scopes", pool_->Compact(gated).status());
    Allocate(5 * kGranule + 1000, 0);
    {
      const LaunchScope scope(*pool_, streams_[1]);
      Allocate(3000, 1);
    }
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    Grow(kCapacity * 3 / 4);
    const uint64_t failures = faults_->failures();
    faults_->Reset();
    return failures;
  }

  // What must hold after Play. Returns whether addresses were lost.
  bool CheckWhatIsLeft() {
    const absl::Status invariants = pool_->CheckInvariants();
    const bool has_lost = !invariants.ok();
    if (has_lost) {
      EXPECT_THAT(
          std::string(invariants.message()),
          AnyOf(HasSubstr("could not be restored"), HasSubstr("was given up")));
    }
    uint64_t live_bytes = 0;
    for (const FilledBlock& block : blocks_) live_bytes += block.bytes;
    EXPECT_EQ(pool_->GetStats().live_bytes, live_bytes);
    ExpectIntact(has_lost);
    // It goes on working, on what it has.
    FIRN_EXPECT_OK(pool_->Compact().status());
    const PoolStats stats = pool_->GetStats();
    const size_t blocks_before = blocks_.size();
    while (Allocate(kGranule / 2, 0)) {
    }
    if (!has_lost && stats.used_bytes < stats.capacity_bytes) {
      EXPECT_GT(blocks_.size(), blocks_before);
    }
    ExpectIntact(has_lost);
    return has_lost;
  }

  // Frees all, and expects that nothing is left.
  void Finish(bool has_lost) {
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool_->Free(block.ptr, StreamOf(block)));
    }
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool_->Trim().status());
    const PoolStats stats = pool_->GetStats();
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.pending_free_bytes, 0u);
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_TRUE(has_lost || stats.held_bytes == 0) << stats.held_bytes;
    pool_.reset();
    EXPECT_TRUE(ledger_->empty()) << ledger_->Describe();
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(cpu_->MemGetInfo(&free_bytes, &total_bytes),
              DriverResult::kSuccess);
    EXPECT_EQ(free_bytes, total_bytes);
    EXPECT_EQ(cpu_->loss(), "");
  }

 private:
  // Only what the fault has caused may fail.
  void Check(const char* what, const absl::Status& status) {
    EXPECT_TRUE(status.ok() || faults_->failures() > 0)
        << what << " failed by itself: " << status;
  }

  StreamHandle StreamOf(const FilledBlock& block) const {
    return streams_[block.seed % 2];
  }

  bool Allocate(uint64_t bytes, uint64_t stream) {
    AllocateOptions options;
    options.stream = streams_[stream];
    const absl::StatusOr<void*> ptr = pool_->Allocate(bytes, options);
    if (!ptr.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(ptr.status()) ||
                  faults_->failures() > 0)
          << ptr.status();
      return false;
    }
    FilledBlock block;
    block.ptr = *ptr;
    block.bytes = bytes;
    block.seed = 2 * ++last_seed_ + stream;
    EXPECT_EQ(FillOnStream(cpu_.get(), block, options.stream),
              DriverResult::kSuccess);
    // What follows may rely on all work being in scopes.
    EXPECT_EQ(cpu_->StreamSynchronize(options.stream), DriverResult::kSuccess);
    blocks_.push_back(block);
    return true;
  }

  void Grow(uint64_t live_bytes) {
    constexpr uint64_t kBytes[] = {512,   1536,  4096,  10240,
                                   30720, 65536, 70000, 150000};
    for (int tries = 0; tries < 40; ++tries) {
      if (pool_->GetStats().live_bytes >= live_bytes) return;
      Allocate(kBytes[random_() % std::size(kBytes)], random_() % 2);
    }
  }

  void Shrink(uint64_t live_bytes) {
    for (int tries = 0; tries < 60 && !blocks_.empty(); ++tries) {
      if (pool_->GetStats().live_bytes <= live_bytes) return;
      FilledBlock& block = blocks_[random_() % blocks_.size()];
      const absl::Status status = pool_->Free(block.ptr, StreamOf(block));
      Check("Free", status);
      if (!status.ok()) continue;
      block = blocks_.back();
      blocks_.pop_back();
    }
  }

  bool IsReachable(const FilledBlock& block) const {
    MemLocation device;
    device.type = LocationType::kDevice;
    const DevicePtr begin = reinterpret_cast<uintptr_t>(block.ptr);
    const DevicePtr first = begin / kGranule * kGranule;
    for (DevicePtr at = first; at < begin + block.bytes; at += kGranule) {
      AccessFlags flags = AccessFlags::kNone;
      if (cpu_->MemGetAccess(&flags, &device, at) != DriverResult::kSuccess ||
          flags != AccessFlags::kReadWrite) {
        return false;
      }
    }
    return true;
  }

  void ExpectIntact(bool has_lost) const {
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    for (const FilledBlock& block : blocks_) {
      if (IsReachable(block)) {
        EXPECT_TRUE(IsIntact(block)) << block.bytes << " bytes";
      } else {
        EXPECT_TRUE(has_lost)
            << "a block of " << block.bytes << " bytes cannot be reached";
      }
    }
  }

  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<LedgerDriver> ledger_;
  std::unique_ptr<FaultingDriver> faults_;
  std::unique_ptr<Pool> pool_;
  StreamHandle streams_[2] = {nullptr, nullptr};
  std::vector<FilledBlock> blocks_;
  uint64_t last_seed_ = 0;
  std::mt19937_64 random_{5};
};

using Case = std::tuple<CpuSync, DriverResult, bool, PlacementKind>;

class PoolFailureSweepTest : public ::testing::TestWithParam<Case> {};

TEST_P(PoolFailureSweepTest, APoolSurvivesAFailureAtEveryCall) {
  const CpuSync sync = std::get<0>(GetParam());
  Fault fault;
  fault.result = std::get<1>(GetParam());
  fault.lasting = std::get<2>(GetParam());
  uint64_t calls = 0;
  uint64_t losses = 0;
  for (;; ++calls) {
    SCOPED_TRACE(absl::StrCat("call ", calls));
    Scene scene(sync, std::get<3>(GetParam()));
    const uint64_t failures = scene.Play(calls, fault);
    const bool has_lost = scene.CheckWhatIsLeft();
    scene.Finish(has_lost);
    if (has_lost) ++losses;
    if (HasFailure() || failures == 0) break;
  }
  EXPECT_GT(calls, 100u);
  // A single failure can always be undone.
  EXPECT_TRUE(fault.lasting || losses == 0) << losses;
  EXPECT_LT(losses, calls / 2);
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const PlacementKind placement = std::get<3>(info.param);
  return absl::StrCat(
      placement == PlacementKind::kFirn ? "" : PlacementKindName(placement),
      std::get<0>(info.param) == CpuSync::kLazy ? "Lazy" : "Draining",
      std::get<1>(info.param) == DriverResult::kOutOfMemory ? "OutOfMemory"
                                                            : "Unknown",
      std::get<2>(info.param) ? "FromThenOn" : "Once");
}

INSTANTIATE_TEST_SUITE_P(
    Faults, PoolFailureSweepTest,
    ::testing::Combine(::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                       ::testing::Values(DriverResult::kOutOfMemory,
                                         DriverResult::kUnknown),
                       ::testing::Bool(),
                       ::testing::Values(PlacementKind::kFirn)),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Structures, PoolFailureSweepTest,
    ::testing::Combine(
        ::testing::Values(CpuSync::kLazy),
        ::testing::Values(DriverResult::kOutOfMemory), ::testing::Bool(),
        ::testing::Values(PlacementKind::kFreeList, PlacementKind::kSlab,
                          PlacementKind::kBuddy, PlacementKind::kTiered)),
    CaseName);

}  // namespace
}  // namespace firn::testing::property
