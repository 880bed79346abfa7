// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each driver call of a short life of a pool with DebugOptions fails once:
// nothing is found that is not there, nothing is left, and trying again
// succeeds.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/pool.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/debug_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::DebugDriverOptions;
using ::firn::testing::DebugPoolOptions;
using ::firn::testing::DebugSetting;
using ::firn::testing::DebugSettingName;
using ::firn::testing::DebugSettings;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::IsIntact;
using ::firn::testing::kMiB;
using ::firn::testing::LedgerDriver;
using ::firn::testing::ReportLog;
using ::testing::IsEmpty;

// Each life takes ten times as long with sanitizers.
constexpr uint64_t kStride =
    testing::kUnderThreadSanitizer || testing::kUnderAddressSanitizer ? 11 : 1;

class DebugModeFailureTest : public ::testing::TestWithParam<DebugSetting> {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK_AND_ASSIGN(
        cpu_, CpuDriver::Create(DebugDriverOptions(GetParam())));
    ledger_ = std::make_unique<LedgerDriver>(cpu_.get());
    faults_ = std::make_unique<FaultingDriver>(ledger_.get());
    ASSERT_EQ(cpu_->StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  void TearDown() override { cpu_->StreamDestroy(stream_); }

  absl::Status MakePool() {
    PoolOptions options = DebugPoolOptions(&log_);
    options.driver = std::shared_ptr<Driver>(faults_.get(), [](Driver*) {});
    options.capacity_bytes = kMiB;
    options.address_space_factor = 4;
    options.debug.quarantine_bytes = 20'000;
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
    if (!pool.ok()) return pool.status();
    pool_ = *std::move(pool);
    return absl::OkStatus();
  }

  // Once more if it fails.
  void Do(const char* name, const std::function<absl::Status()>& operation) {
    const absl::Status status = operation();
    if (status.ok()) return;
    EXPECT_GT(faults_->failures(), 0u) << name << ": " << status;
    FIRN_EXPECT_OK(operation()) << name;
  }

  void Allocate(uint64_t bytes) {
    Do("Allocate", [&] {
      const absl::StatusOr<void*> block =
          pool_->Allocate(bytes, {.stream = stream_});
      if (!block.ok()) return block.status();
      blocks_.push_back({*block, bytes, blocks_.size()});
      Fill(blocks_.back());
      return absl::OkStatus();
    });
  }

  void FreeLast() {
    ASSERT_FALSE(blocks_.empty());
    const FilledBlock block = blocks_.back();
    EXPECT_TRUE(IsIntact(block));
    Do("RecordUse", [&] { return pool_->RecordUse(block.ptr, nullptr); });
    Do("Free", [&] { return pool_->Free(block.ptr, stream_); });
    blocks_.pop_back();
  }

  void Live() {
    for (const uint64_t bytes : {1'000u, 10'000u, 70'000u}) Allocate(bytes);
    FreeLast();
    if (GetParam().moves) {
      Do("Compact", [&] { return pool_->Compact().status(); });
    }
    FreeLast();
    // Needs what is in quarantine.
    Allocate(700'000);
    FreeLast();
    Allocate(700'000);
    Do("CheckInvariants", [&] { return pool_->CheckInvariants(); });
    FreeLast();
    Do("Trim", [&] { return pool_->Trim().status(); });
  }

  void EndAndExpectNothingLeft() {
    faults_->Reset();
    FIRN_EXPECT_OK(pool_->CheckInvariants());
    while (!blocks_.empty()) FreeLast();
    FIRN_EXPECT_OK(pool_->Trim().status());
    const PoolStats stats = pool_->GetStats();
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.live_allocations, 0u);
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_EQ(stats.allocations, stats.frees);
    pool_.reset();
    EXPECT_TRUE(ledger_->empty()) << ledger_->Describe();
    EXPECT_THAT(log_.Take(), IsEmpty());
  }

  ReportLog log_;
  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<LedgerDriver> ledger_;
  std::unique_ptr<FaultingDriver> faults_;
  StreamHandle stream_ = nullptr;
  std::unique_ptr<Pool> pool_;
  std::vector<FilledBlock> blocks_;
};

INSTANTIATE_TEST_SUITE_P(All, DebugModeFailureTest,
                         ::testing::ValuesIn(DebugSettings()),
                         DebugSettingName);

TEST_P(DebugModeFailureTest, EachCallOfALifeMayFailOnce) {
  uint64_t n = 0;
  for (bool has_failed = true; has_failed && !HasFailure(); n += kStride) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    FIRN_ASSERT_OK(MakePool());
    faults_->Reset();
    faults_->FailNth(n, DriverResult::kUnknown);
    Live();
    has_failed = faults_->failures() > 0;
    EndAndExpectNothingLeft();
  }
  EXPECT_GT(n, 100u);
}

TEST_P(DebugModeFailureTest, EachCallOfItsEndMayFailOnce) {
  for (uint64_t n = 0; n < 60 && !HasFailure(); n += kStride) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    FIRN_ASSERT_OK(MakePool());
    for (const uint64_t bytes : {1'000u, 10'000u, 30'000u}) Allocate(bytes);
    FreeLast();
    blocks_.clear();
    faults_->Reset();
    faults_->FailNth(n, DriverResult::kUnknown);
    pool_.reset();
    faults_->Reset();
    EXPECT_THAT(log_.Take(), IsEmpty());
    ledger_->CleanUp();
  }
}

TEST_P(DebugModeFailureTest, ALostDeviceEndsQuietly) {
  FIRN_ASSERT_OK(MakePool());
  for (const uint64_t bytes : {1'000u, 10'000u, 30'000u}) Allocate(bytes);
  FreeLast();
  faults_->FailFrom(0, DriverResult::kIllegalAddress);
  EXPECT_FALSE(pool_->CheckInvariants().ok());
  EXPECT_FALSE(pool_->Allocate(10).ok());
  pool_->Free(blocks_.back().ptr).IgnoreError();
  pool_.reset();
  EXPECT_THAT(log_.Take(), IsEmpty());
  faults_->Reset();
  ledger_->CleanUp();
}

}  // namespace
}  // namespace firn
