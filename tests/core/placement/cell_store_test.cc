// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/cell_store.h"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace firn {
namespace {

TEST(CellStoreTest, NewRowsAreZeroAndNoTwoOverlap) {
  CellStore store;
  std::mt19937_64 random(1);
  std::vector<std::pair<SlotCell*, uint32_t>> rows;
  // Some MiB: chunks of all sizes, huge pages among them.
  for (int i = 0; i < 300; ++i) {
    const auto cells =
        static_cast<uint32_t>(random() % (i % 50 == 0 ? 65536 : 600) + 1);
    SlotCell* const row = store.Take(cells);
    for (uint32_t c = 0; c < cells; ++c) {
      ASSERT_EQ(row[c].load(), 0u) << "row " << i << ", cell " << c;
    }
    for (uint32_t c = 0; c < cells; ++c) row[c] = rows.size() + 1;
    rows.emplace_back(row, cells);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    for (uint32_t c = 0; c < rows[i].second; ++c) {
      ASSERT_EQ(rows[i].first[c].load(), i + 1)
          << "row " << i << ", cell " << c;
    }
  }
}

TEST(CellStoreTest, ReturnedRowsAreUsedAgainForAsManyCells) {
  CellStore store;
  SlotCell* const row = store.Take(100);
  store.Return(row, 100);
  EXPECT_NE(store.Take(64), row);
  EXPECT_EQ(store.Take(128), row);
}

TEST(CellStoreTest, WhatIsLeftOfAChunkMakesSmallerRows) {
  CellStore store;
  SlotCell* const first = store.Take(1);
  // More than is left of the first chunk.
  store.Take(CellStore::kMostCells);
  // All of it is found again: its first chunk has 4,096 cells.
  for (uint32_t cells = 2048; cells > 0; cells /= 2) {
    SlotCell* const row = store.Take(cells);
    EXPECT_GT(row, first);
    EXPECT_LT(row, first + 4096) << cells;
  }
}

TEST(CellStoreTest, TheLargestRowsHaveRoom) {
  CellStore store;
  for (int i = 0; i < 8; ++i) {
    SlotCell* const row = store.Take(CellStore::kMostCells);
    row[0] = 1;
    row[CellStore::kMostCells - 1] = 1;
  }
}

}  // namespace
}  // namespace firn
