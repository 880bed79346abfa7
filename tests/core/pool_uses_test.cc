// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory freed on a stream, and used on several: when it is used again.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::HeldStream;
using ::firn::testing::StatusIs;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCapacityBytes = 16 * kMiB;

class PoolUsesTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    CpuDriverOptions device;
    device.sync = GetParam();
    device.device_bytes = 2 * kCapacityBytes;
    auto cpu = CpuDriver::Create(std::move(device));
    FIRN_ASSERT_OK(cpu.status());
    cpu_ = std::move(*cpu);
    PoolOptions options;
    options.driver = cpu_;
    options.capacity_bytes = kCapacityBytes;
    auto pool = Pool::Create(std::move(options));
    FIRN_ASSERT_OK(pool.status());
    pool_ = std::move(*pool);
    // Two streams are known from the start.
    FIRN_ASSERT_OK_AND_ASSIGN(void* const first, pool_->Allocate(1));
    FIRN_ASSERT_OK(pool_->Free(first, nullptr));
    AllocateOptions on_stream;
    on_stream.stream = held_stream().stream();
    FIRN_ASSERT_OK_AND_ASSIGN(void* const second,
                              pool_->Allocate(1, on_stream));
    FIRN_ASSERT_OK(pool_->Free(second, on_stream.stream));
  }
  void TearDown() override {
    held_.reset();
    pool_.reset();
  }

  HeldStream& held_stream() {
    if (held_ == nullptr) held_ = std::make_unique<HeldStream>(cpu_.get());
    return *held_;
  }
  absl::StatusOr<void*> AllocateOn(StreamHandle stream, uint64_t bytes) {
    AllocateOptions options;
    options.stream = stream;
    return pool_->Allocate(bytes, options);
  }

  // Memory for one more block that takes no call of the driver: while a stream
  // is held, such calls may wait for it.
  void MapSpare(uint64_t bytes) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const spare, AllocateOn(nullptr, bytes));
    FIRN_ASSERT_OK(pool_->Free(spare, nullptr));
    ASSERT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    // Looks at what is pending; there is nothing to give back.
    FIRN_ASSERT_OK(pool_->Trim(kCapacityBytes).status());
  }

  std::shared_ptr<CpuDriver> cpu_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<HeldStream> held_;
};

TEST_P(PoolUsesTest, ABlockFreedOnABusyStreamIsUsedAgainThereAtOnce) {
  const StreamHandle stream = held_stream().stream();
  for (const uint64_t bytes : {3 * kMiB, 5 * kMiB + 512, 700 * 1024ul}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(stream, bytes));
    MapSpare(bytes);
    ASSERT_EQ(held_stream().Hold(), DriverResult::kSuccess);
    FIRN_ASSERT_OK(pool_->Free(block, stream));
    EXPECT_EQ(pool_->GetStats().pending_free_bytes, bytes);
    // Elsewhere it is not.
    FIRN_ASSERT_OK_AND_ASSIGN(void* const other, AllocateOn(nullptr, bytes));
    EXPECT_NE(other, block);
    FIRN_ASSERT_OK_AND_ASSIGN(void* const again, AllocateOn(stream, bytes));
    EXPECT_EQ(again, block);
    EXPECT_EQ(pool_->GetStats().pending_free_bytes, 0u);
    EXPECT_EQ(pool_->GetStats().live_bytes, 2 * bytes);
    held_stream().Release();
    ASSERT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    FIRN_ASSERT_OK(pool_->Free(again, stream));
    FIRN_ASSERT_OK(pool_->Free(other, nullptr));
    ASSERT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    FIRN_ASSERT_OK(pool_->CheckInvariants());
  }
}

TEST_P(PoolUsesTest, AFreedBlockWaitsForTheStreamsThatUsedIt) {
  for (const uint64_t bytes : {uint64_t{1000}, 3 * kMiB}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(nullptr, bytes));
    MapSpare(bytes);
    ASSERT_EQ(held_stream().Hold(), DriverResult::kSuccess);
    FIRN_ASSERT_OK(pool_->RecordUse(block, held_stream().stream()));
    FIRN_ASSERT_OK(pool_->RecordUse(block, held_stream().stream()));
    FIRN_ASSERT_OK(pool_->Free(block, nullptr));
    EXPECT_THAT(pool_->Free(block, nullptr),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(pool_->GetStats().pending_free_bytes, bytes);
    // Not even the stream that it was freed on gets it.
    FIRN_ASSERT_OK_AND_ASSIGN(void* const other, AllocateOn(nullptr, bytes));
    EXPECT_NE(other, block);
    held_stream().Release();
    ASSERT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    FIRN_ASSERT_OK(AllocateOn(nullptr, 9 * kMiB).status());
    EXPECT_EQ(pool_->GetStats().pending_free_bytes, 0u);
    FIRN_ASSERT_OK(pool_->CheckInvariants());
    held_.reset();
    SetUp();
  }
}

TEST_P(PoolUsesTest, AUseThatCannotBeRecordedChangesNothing) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(nullptr, 1000));
  int no_stream = 0;
  EXPECT_THAT(
      pool_->RecordUse(block, reinterpret_cast<StreamHandle>(&no_stream)),
      StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      pool_->RecordUse(static_cast<char*>(block) + 512, held_stream().stream()),
      StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK(pool_->Free(block, nullptr));
  EXPECT_THAT(pool_->RecordUse(block, held_stream().stream()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pool_->GetStats().live_bytes, 0u);
}

TEST_P(PoolUsesTest, WhatThreadsKeepForAStreamIsHandedBackBeforeItGoes) {
  const StreamHandle stream = held_stream().stream();
  FIRN_ASSERT_OK_AND_ASSIGN(void* const keep, AllocateOn(stream, 4096));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(stream, 4096));
  FIRN_ASSERT_OK(pool_->Free(block, stream));
  const uint64_t parked_blocks = pool_->GetStats().parked_blocks;
  ASSERT_GT(parked_blocks, 0u);
  FIRN_ASSERT_OK(pool_->ReleaseStream(stream));
  EXPECT_LT(pool_->GetStats().parked_blocks, parked_blocks);
  FIRN_ASSERT_OK(pool_->ReleaseStream(nullptr));
  EXPECT_EQ(pool_->GetStats().parked_blocks, 0u);
  FIRN_ASSERT_OK(pool_->Free(keep, nullptr));
  FIRN_EXPECT_OK(pool_->CheckInvariants());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Extremes, PoolUsesTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         [](const auto& info) {
                           return std::string(info.param == CpuSync::kLazy
                                                  ? "Lazy"
                                                  : "Draining");
                         });

}  // namespace firn
