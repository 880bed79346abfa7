// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

// How KvServer shares the blocks of prompts whose contents are known.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bench/traces/kv_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;

// One model, 10 tokens a second, pieces of 32 tokens and two blocks; all that
// is not used any more stays cached.
KvOptions SharingOptions() {
  KvOptions options;
  options.block_bytes = {100};
  options.decode_tps = 10;
  options.shared_piece_tokens = 32;
  options.retain_budget_bytes = 1'000'000;
  return options;
}

Request Prompt(int64_t time_us, uint32_t context_tokens,
               uint32_t generated_tokens, std::vector<uint64_t> pieces) {
  return {time_us, context_tokens, generated_tokens, std::move(pieces), 32};
}

std::vector<TraceEvent> Serve(std::vector<Request> requests,
                              const KvOptions& options) {
  KvServer server("kv", std::make_unique<ListedRequests>(std::move(requests)),
                  options);
  std::vector<TraceEvent> events = Gather(&server);
  FIRN_EXPECT_OK(server.Rewind());
  EXPECT_EQ(Gather(&server), events);
  return events;
}

TEST(KvServerSharingTest, ACommonPrefixIsAllocatedOnce) {
  // Both are in flight: the second allocates its second piece alone.
  EXPECT_THAT(
      Serve({Prompt(0, 64, 1, {1, 2}), Prompt(1, 64, 1, {1, 3})},
            SharingOptions()),
      ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                  Allocated(0, 2, 100), Allocated(0, 3, 100),
                  Allocated(1, 4, 100), Allocated(1, 5, 100),
                  // The answers have blocks of their own, freed at the end.
                  Allocated(100'000, 6, 100), Freed(100'000, 6, 100),
                  Allocated(100'001, 6, 100), Freed(100'001, 6, 100)));
}

TEST(KvServerSharingTest, ALastPieceOfFewerTokensIsNotShared) {
  // 40 tokens: a piece, and 8 tokens in a block that the answer fills up.
  EXPECT_THAT(Serve({Prompt(0, 40, 9, {1, 2}), Prompt(1, 40, 0, {1, 2})},
                    SharingOptions()),
              ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                          Allocated(0, 2, 100), Allocated(1, 3, 100),
                          Freed(1, 3, 100), Allocated(900'000, 3, 100),
                          Freed(900'000, 3, 100), Freed(900'000, 2, 100)));
}

TEST(KvServerSharingTest, ALastPieceNeedsOnlyTheBlocksOfItsTokens) {
  // 17 tokens of the second piece need both of its blocks, 1 token one.
  EXPECT_EQ(
      TotalsOf(Serve({Prompt(0, 49, 0, {1, 2})}, SharingOptions())).allocs, 4u);
  EXPECT_EQ(
      TotalsOf(Serve({Prompt(0, 33, 0, {1, 2})}, SharingOptions())).allocs, 3u);
  EXPECT_EQ(TotalsOf(Serve({Prompt(0, 32, 0, {1})}, SharingOptions())).allocs,
            2u);
}

TEST(KvServerSharingTest, NothingIsSharedBehindTheFirstPieceThatDiffers) {
  EXPECT_EQ(
      TotalsOf(Serve({Prompt(0, 96, 0, {1, 2, 3}), Prompt(1, 96, 0, {4, 2, 3})},
                     SharingOptions()))
          .allocs,
      12u);
}

TEST(KvServerSharingTest, WithoutBudgetAPieceGoesWithItsLastReference) {
  KvOptions options = SharingOptions();
  options.retain_budget_bytes = 0;
  // The second outlives the first, and the piece that both have with it. What
  // goes, goes deepest piece and last block first.
  EXPECT_THAT(
      Serve({Prompt(0, 64, 0, {1, 2}), Prompt(0, 32, 1, {1})}, options),
      ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                  Allocated(0, 2, 100), Allocated(0, 3, 100),
                  // An end comes before an arrival of the same time.
                  Freed(0, 3, 100), Freed(0, 2, 100), Freed(0, 1, 100),
                  Freed(0, 0, 100), Allocated(0, 0, 100), Allocated(0, 1, 100),
                  Allocated(100'000, 2, 100), Freed(100'000, 2, 100),
                  Freed(100'000, 1, 100), Freed(100'000, 0, 100)));
  EXPECT_THAT(Serve({Prompt(0, 64, 1, {1, 2}), Prompt(1, 32, 2, {1})}, options),
              ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                          Allocated(0, 2, 100), Allocated(0, 3, 100),
                          Allocated(100'000, 4, 100), Freed(100'000, 4, 100),
                          Freed(100'000, 3, 100), Freed(100'000, 2, 100),
                          Allocated(100'001, 2, 100), Freed(200'001, 2, 100),
                          Freed(200'001, 1, 100), Freed(200'001, 0, 100)));
}

TEST(KvServerSharingTest, ACachedPrefixIsUsedAgain) {
  EXPECT_THAT(Serve({Prompt(0, 64, 0, {1, 2}), Prompt(1'000'000, 64, 0, {1, 2}),
                     Prompt(2'000'000, 32, 0, {1})},
                    SharingOptions()),
              ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                          Allocated(0, 2, 100), Allocated(0, 3, 100)));
}

TEST(KvServerSharingTest,
     TheLeastRecentlyUsedPieceGoesFirstAndOfOnePromptTheDeepest) {
  KvOptions options = SharingOptions();
  options.retain_budget_bytes = 600;  // three pieces
  EXPECT_THAT(
      Serve({Prompt(0, 64, 0, {1, 2}), Prompt(1, 32, 0, {3}),
             // Full. Now 1 is used again, so 2, then 3 are the oldest.
             Prompt(2, 32, 0, {1}), Prompt(3, 64, 0, {4, 5})},
            options),
      ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                  Allocated(0, 2, 100), Allocated(0, 3, 100),
                  Allocated(1, 4, 100), Allocated(1, 5, 100),
                  Allocated(3, 6, 100), Allocated(3, 7, 100),
                  Allocated(3, 8, 100), Allocated(3, 9, 100), Freed(3, 3, 100),
                  Freed(3, 2, 100), Freed(3, 5, 100), Freed(3, 4, 100)));
}

TEST(KvServerSharingTest, PiecesInUseDoNotCountTowardsTheBudget) {
  KvOptions options = SharingOptions();
  options.retain_budget_bytes = 200;  // one piece
  EXPECT_THAT(Serve({Prompt(0, 64, 5, {1, 2}), Prompt(1, 32, 0, {3})}, options),
              ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                          Allocated(0, 2, 100), Allocated(0, 3, 100),
                          Allocated(1, 4, 100), Allocated(1, 5, 100),
                          Allocated(100'000, 6, 100), Freed(500'000, 6, 100),
                          Freed(500'000, 5, 100), Freed(500'000, 4, 100),
                          Freed(500'000, 3, 100), Freed(500'000, 2, 100)));
}

TEST(KvServerSharingTest, ABudgetThatIsNoWholeNumberOfPiecesKeepsFewer) {
  KvOptions options = SharingOptions();
  options.retain_budget_bytes = 399;
  const TraceTotals totals =
      TotalsOf(Serve({Prompt(0, 64, 0, {1, 2})}, options));
  EXPECT_EQ(totals.end_live_bytes, 200u);
}

TEST(KvServerSharingTest, ModelsDoNotShare) {
  KvOptions options = SharingOptions();
  options.block_bytes = {100, 7};
  std::vector<Request> requests;
  for (int64_t i = 0; i < 50; ++i) requests.push_back(Prompt(i, 32, 0, {1}));
  const TraceTotals totals = TotalsOf(Serve(std::move(requests), options));
  EXPECT_EQ(totals.allocs, 4u);
  EXPECT_EQ(totals.end_live_bytes, 214u);
}

TEST(KvServerSharingTest, RetainAndHitDoNotMatter) {
  const std::vector<Request> requests = {Prompt(0, 64, 1, {1, 2}),
                                         Prompt(200'000, 64, 1, {1, 3})};
  KvOptions options = SharingOptions();
  options.retain = 1;
  options.hit = 1;
  const std::vector<TraceEvent> events = Serve(requests, options);
  options.retain = options.hit = 0;
  EXPECT_EQ(Serve(requests, options), events);
  EXPECT_EQ(TotalsOf(events).end_live_bytes, 600u);
}

TEST(KvServerSharingTest, APromptWithoutPiecesSharesNothing) {
  EXPECT_THAT(
      Serve({Prompt(0, 32, 0, {}), Prompt(1, 0, 1, {})}, SharingOptions()),
      ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100), Freed(0, 1, 100),
                  Freed(0, 0, 100), Allocated(100'001, 0, 100),
                  Freed(100'001, 0, 100)));
}

TEST(KvServerSharingTest, WithoutSharingThePiecesOfPromptsDoNotMatter) {
  KvOptions options = SharingOptions();
  options.shared_piece_tokens = 0;
  options.retain = 0;
  EXPECT_EQ(
      TotalsOf(Serve({Prompt(0, 32, 1, {1}), Prompt(1, 32, 1, {1})}, options))
          .allocs,
      6u);
}

}  // namespace
}  // namespace firn::bench
