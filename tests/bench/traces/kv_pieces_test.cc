// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_pieces.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;

using Piece = KvPieces::Piece;

// Refers to the pieces of these names to model `model`; gives the last.
Piece Refer(KvPieces* pieces, uint32_t model,
            const std::vector<uint64_t>& names) {
  Piece last = pieces->Start(model);
  for (const uint64_t name : names) {
    Piece piece = pieces->Find(last, name);
    if (piece == KvPieces::kNone) {
      piece = pieces->Add(last, name);
    } else {
      pieces->Refer(piece);
    }
    last = piece;
  }
  return last;
}

// Removes all cached pieces; gives them in the order in which they go.
std::vector<Piece> RemoveAll(KvPieces* pieces) {
  std::vector<Piece> removed;
  while (pieces->cached_bytes() > 0) {
    removed.push_back(pieces->oldest());
    pieces->RemoveOldest();
  }
  return removed;
}

TEST(KvPiecesTest, APieceIsKnownByItsModelThoseBeforeItAndItsName) {
  KvPieces pieces({100, 100}, 2);
  const Piece a = Refer(&pieces, 0, {7});
  const Piece ab = Refer(&pieces, 0, {7, 8});
  EXPECT_EQ(pieces.Find(pieces.Start(0), 7), a);
  EXPECT_EQ(pieces.Find(a, 8), ab);
  EXPECT_EQ(pieces.Find(pieces.Start(1), 7), KvPieces::kNone);
  EXPECT_EQ(pieces.Find(pieces.Start(0), 8), KvPieces::kNone);
  EXPECT_EQ(pieces.Find(ab, 7), KvPieces::kNone);
  EXPECT_EQ(pieces.model(ab), 0u);
  EXPECT_EQ(pieces.model(Refer(&pieces, 1, {7, 8})), 1u);
}

TEST(KvPiecesTest, APieceIsCachedWhenTheLastReferenceGoes) {
  KvPieces pieces({100}, 2);
  const Piece a = Refer(&pieces, 0, {1});
  const Piece ab = Refer(&pieces, 0, {1, 2});
  EXPECT_EQ(pieces.cached_bytes(), 0u);
  pieces.Release(ab);
  EXPECT_EQ(pieces.cached_bytes(), 200u);
  EXPECT_EQ(pieces.oldest(), ab);
  pieces.Release(a);
  EXPECT_EQ(pieces.cached_bytes(), 400u);
  // Whoever comes back takes both out of the cache.
  Refer(&pieces, 0, {1, 2});
  EXPECT_EQ(pieces.cached_bytes(), 0u);
}

TEST(KvPiecesTest, DeeperPiecesGoFirstThenThoseUsedLater) {
  KvPieces pieces({100}, 1);
  const Piece abc = Refer(&pieces, 0, {1, 2, 3});
  const Piece ab = pieces.Find(pieces.Find(pieces.Start(0), 1), 2);
  const Piece a = pieces.Find(pieces.Start(0), 1);
  const Piece d = Refer(&pieces, 0, {4});
  pieces.Release(abc);
  pieces.Release(d);
  // Used again, the first two are younger than d.
  pieces.Release(Refer(&pieces, 0, {1, 2}));
  EXPECT_THAT(RemoveAll(&pieces), ElementsAre(abc, d, ab, a));
  EXPECT_EQ(pieces.Find(pieces.Start(0), 1), KvPieces::kNone);
}

TEST(KvPiecesTest, KeepsTheBlocksOfEachPieceAndUsesPlacesAgain) {
  KvPieces pieces({100}, 2);
  const Piece a = Refer(&pieces, 0, {1});
  pieces.blocks(a)[0] = 10;
  pieces.blocks(a)[1] = 11;
  const Piece b = Refer(&pieces, 0, {2});
  pieces.blocks(b)[0] = 12;
  pieces.blocks(b)[1] = 13;
  EXPECT_THAT(pieces.blocks(a), ElementsAre(10, 11));
  EXPECT_THAT(pieces.blocks(b), ElementsAre(12, 13));
  pieces.Release(a);
  pieces.RemoveOldest();
  EXPECT_EQ(Refer(&pieces, 0, {3}), a);
  EXPECT_EQ(pieces.Find(pieces.Start(0), 1), KvPieces::kNone);
  EXPECT_THAT(pieces.blocks(b), ElementsAre(12, 13));
}

TEST(KvPiecesTest, BytesGoByTheModelsBlocks) {
  KvPieces pieces({1, 1000}, 4);
  pieces.Release(Refer(&pieces, 0, {1}));
  pieces.Release(Refer(&pieces, 1, {1}));
  EXPECT_EQ(pieces.cached_bytes(), 4004u);
  pieces.RemoveOldest();
  EXPECT_EQ(pieces.cached_bytes(), 4000u);
  pieces.Clear();
  EXPECT_EQ(pieces.cached_bytes(), 0u);
  EXPECT_EQ(pieces.Find(pieces.Start(1), 1), KvPieces::kNone);
}

TEST(KvPiecesTest, ANameThatComesTwiceInAPromptIsTwoPieces) {
  KvPieces pieces({100}, 1);
  const Piece aa = Refer(&pieces, 0, {1, 1});
  EXPECT_NE(aa, pieces.Find(pieces.Start(0), 1));
  pieces.Release(aa);
  EXPECT_EQ(RemoveAll(&pieces).size(), 2u);
}

}  // namespace
}  // namespace firn::bench
