// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/trace_range.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nvtx3/nvToolsExt.h"

namespace firn {
namespace {

TEST(TraceRangeTest, RangesNestInTheDomainOfTheirOwn) {
  ASSERT_TRUE(TraceRange::IsAvailable());
  {
    const TraceRange outer("pass");
    const TraceRange inner("remap");
  }
  EXPECT_THAT(NvtxRecord(), ::testing::ElementsAre("firn: pass", "firn: remap",
                                                   "firn: end", "firn: end"));
}

}  // namespace
}  // namespace firn
