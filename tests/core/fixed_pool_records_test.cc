// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is on record of blocks of a pool whose memory never moves: pins, tags,
// hooks and uses by other streams.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "firn/core/move_hooks.h"
#include "firn/core/pin.h"
#include "firn/core/pool.h"
#include "firn/core/tags.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::HeldStream;
using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class FixedPoolRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CpuDriverOptions device;
    device.virtual_memory = false;
    device.device_bytes = 64 * kMiB;
    auto cpu = CpuDriver::Create(std::move(device));
    FIRN_ASSERT_OK(cpu.status());
    cpu_ = std::move(*cpu);
    PoolOptions options;
    options.driver = cpu_;
    options.capacity_bytes = 16 * kMiB;
    auto pool = Pool::Create(std::move(options));
    FIRN_ASSERT_OK(pool.status());
    pool_ = std::move(*pool);
    ASSERT_FALSE(pool_->GetStats().moving);
  }

  std::shared_ptr<CpuDriver> cpu_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(FixedPoolRecordsTest, APinnedBlockCannotBeFreed) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, pool_->Allocate(1000));
  EXPECT_THAT(pool_->PinBlock(block, ""),
              StatusIs(absl::StatusCode::kInvalidArgument));
  {
    FIRN_ASSERT_OK_AND_ASSIGN(const Pin pin, pool_->PinBlock(block, "a card"));
    EXPECT_THAT(
        pool_->Free(block),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a card")));
    EXPECT_EQ(pool_->GetStats().pinned_bytes, 1000u);
  }
  EXPECT_EQ(pool_->GetStats().pinned_blocks, 0u);
  FIRN_EXPECT_OK(pool_->Free(block));
  EXPECT_THAT(pool_->PinBlock(block, "too late"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FixedPoolRecordsTest, TagsDivideTheFigures) {
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool_->RegisterTag("weights"));
  AllocateOptions options;
  options.tag = tag;
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, pool_->Allocate(5000, options));
  FIRN_ASSERT_OK(pool_->Allocate(300).status());
  std::vector<TagStats> stats = pool_->GetTagStats();
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_EQ(stats[0].live_bytes, 300u);
  EXPECT_EQ(stats[1].live_bytes, 5000u);
  FIRN_ASSERT_OK(pool_->Free(block));
  stats = pool_->GetTagStats();
  EXPECT_EQ(stats[1].live_bytes, 0u);
  EXPECT_EQ(stats[1].allocations, 1u);
  options.tag = static_cast<Tag>(77);
  EXPECT_THAT(pool_->Allocate(1, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FixedPoolRecordsTest, AHookIsTakenAndAnEmptyOneRefused) {
  MoveHook hook;
  EXPECT_THAT(pool_->AddMoveHook(hook),
              StatusIs(absl::StatusCode::kInvalidArgument));
  hook.after_move = [](absl::Span<const MovingBlock>) {};
  FIRN_EXPECT_OK(pool_->AddMoveHook(hook).status());
}

TEST_F(FixedPoolRecordsTest, AFreedBlockWaitsForTheStreamsThatUsedIt) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, pool_->Allocate(1000));
  HeldStream held(cpu_.get());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool_->RecordUse(block, held.stream()));
  FIRN_ASSERT_OK(pool_->Free(block));
  EXPECT_THAT(pool_->Free(block), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pool_->GetStats().pending_free_bytes, 1000u);
  held.Release();
  ASSERT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool_->Allocate(1).status());
  EXPECT_EQ(pool_->GetStats().pending_free_bytes, 0u);
  FIRN_EXPECT_OK(pool_->CheckInvariants());
}

}  // namespace
}  // namespace firn
