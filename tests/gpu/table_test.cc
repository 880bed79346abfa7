// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/table.h"

#include "gtest/gtest.h"

namespace firn::gpu_check {
namespace {

TEST(TableTest, AlignsTextLeftAndNumbersRight) {
  const Table table = {"t",
                       "title",
                       {"call", "us"},
                       {{TextCell("cuMemMap"), NumberCell(1.5)},
                        {TextCell("x"), NumberCell(12)}}};
  EXPECT_EQ(ToText(table),
            "  call        us\n"
            "  cuMemMap  1.50\n"
            "  x           12\n");
}

TEST(TableTest, NumbersHaveTheDigitsThatMeanSomething) {
  EXPECT_EQ(CellText(NumberCell(0.123456)), "0.12");
  EXPECT_EQ(CellText(NumberCell(12.345)), "12.3");
  EXPECT_EQ(CellText(NumberCell(1234.5678)), "1235");
  EXPECT_EQ(CellText(NumberCell(uint64_t{2} << 40)), "2199023255552");
}

}  // namespace
}  // namespace firn::gpu_check
