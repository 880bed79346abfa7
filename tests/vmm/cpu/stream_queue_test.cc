// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/stream_queue.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

using cpu::OperationState;
using cpu::PointRef;

class StreamQueueTest : public ::testing::Test {
 protected:
  cpu::StreamOperation* Append(uint64_t sequence) {
    auto operation = std::make_unique<cpu::StreamOperation>();
    operation->sequence = sequence;
    cpu::StreamOperation* const appended = operation.get();
    stream_.Append(std::move(operation));
    return appended;
  }

  cpu::Stream stream_{cpu::StreamIdentity(), 1};
};

TEST_F(StreamQueueTest, WhatWaitsForStreamsIsParkedOnlyUntilTheyAreDone) {
  cpu::StreamOperation* const operation = Append(0);
  for (int i = 0; i < 2; ++i) {
    operation->waits_for.push_back(std::make_shared<cpu::StreamPoint>());
  }
  stream_.head_waits_for = &operation->waits_for;
  for (const OperationState state :
       {OperationState::kWaitsForStream, OperationState::kWaitsInDriver}) {
    stream_.head = state;
    operation->waits_for[0]->complete = true;
    operation->waits_for[1]->complete = false;
    EXPECT_TRUE(stream_.IsParked());
    // Its thread has not been woken yet, but will be.
    operation->waits_for[1]->complete = true;
    EXPECT_FALSE(stream_.IsParked());
  }
}

TEST_F(StreamQueueTest, WhatWaitsForAConditionIsParkedAndWhatRunsIsNot) {
  Append(0);
  EXPECT_FALSE(stream_.IsParked());
  stream_.head = OperationState::kWaitsForCondition;
  EXPECT_TRUE(stream_.IsParked());
  stream_.head = OperationState::kRuns;
  EXPECT_FALSE(stream_.IsParked());
}

TEST_F(StreamQueueTest, TheFirstOperationHasBegunOnceItRuns) {
  EXPECT_EQ(stream_.FirstNotBegun(), nullptr);
  const cpu::StreamOperation* const first = Append(0);
  EXPECT_EQ(stream_.FirstNotBegun(), first);
  stream_.head = OperationState::kWaitsForStream;
  EXPECT_EQ(stream_.FirstNotBegun(), first);
  stream_.head = OperationState::kRuns;
  EXPECT_EQ(stream_.FirstNotBegun(), nullptr);
  const cpu::StreamOperation* const second = Append(1);
  EXPECT_EQ(stream_.FirstNotBegun(), second);
  stream_.head = OperationState::kWaitsInDriver;
  EXPECT_EQ(stream_.FirstNotBegun(), second);
}

TEST_F(StreamQueueTest, AConditionThatWillShowAllCountsAsBegun) {
  Append(0)->work.ready = [](uint64_t) { return false; };
  Append(1);
  stream_.head = OperationState::kWaitsForCondition;
  EXPECT_EQ(stream_.FirstNotBegun(), nullptr);
}

}  // namespace
}  // namespace firn::cpu_testing
