// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/progress_line.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ProgressLineTest, ShowsTheShareDoneAndWipesItselfOut) {
  std::ostringstream out;
  {
    ProgressLine line(&out, true);
    line.SetTask("working");
    line.Update(30, 120);
    EXPECT_THAT(out.str(), HasSubstr("working: 25 %"));
  }
  EXPECT_THAT(out.str(), EndsWith("\r\x1b[K"));
}

TEST(ProgressLineTest, IsNotWrittenAtEveryUpdate) {
  std::ostringstream out;
  ProgressLine line(&out, true);
  line.Update(1, 100);
  const std::string once = out.str();
  for (uint64_t i = 0; i < 10; ++i) line.Update(i, 100);
  EXPECT_EQ(out.str(), once);
}

TEST(ProgressLineTest, IsSilentWhenNotEnabled) {
  std::ostringstream out;
  {
    ProgressLine line(&out, false);
    line.SetTask("working");
    line.Update(1, 2);
    line.Clear();
  }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace firn::bench
