// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_options.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/trace_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<KvOptions> Read(absl::string_view keys,
                               uint64_t piece_tokens = 0) {
  absl::StatusOr<TraceSpec> spec = ParseTraceSpec(absl::StrCat("f", keys));
  if (!spec.ok()) return spec.status();
  TraceKeys reader(*spec, "a log");
  KvOptions options = ReadKvOptions(&reader, piece_tokens);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return options;
}

TEST(KvOptionsTest, BlocksAreTheDefault) {
  FIRN_ASSERT_OK_AND_ASSIGN(const KvOptions options, Read(""));
  EXPECT_EQ(options.layout, KvLayout::kBlocks);
  EXPECT_EQ(UnitTokens(options), 16u);
  EXPECT_THAT(UnitBytes(options), ElementsAre(32 << 10, 192 << 10, 512 << 10));
  EXPECT_EQ(options.shared_piece_tokens, 0u);
}

TEST(KvOptionsTest, AUnitIsABlockOr16TokensOfASequence) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      KvOptions options, Read(",layout=blocks,block_tokens=32,block_bytes=5"));
  EXPECT_EQ(UnitTokens(options), 32u);
  EXPECT_THAT(UnitBytes(options), ElementsAre(5));
  FIRN_ASSERT_OK_AND_ASSIGN(options, Read(",layout=sequences"));
  EXPECT_EQ(UnitTokens(options), 16u);
  EXPECT_THAT(UnitBytes(options), ElementsAre(2 << 20));
  FIRN_ASSERT_OK_AND_ASSIGN(options, Read(",layout=sequences,token_bytes=3+7"));
  EXPECT_THAT(UnitBytes(options), ElementsAre(48, 112));
}

TEST(KvOptionsTest, KeysWithoutMeaningBesideTheLayoutAreErrors) {
  EXPECT_THAT(
      Read(",layout=rows"),
      StatusIs(kInvalid, "f: key layout='rows': give blocks or sequences"));
  EXPECT_THAT(Read(",block_bytes=1KiB,layout=sequences"),
              StatusIs(kInvalid,
                       "f: key block_bytes='1KiB': layout=sequences has no "
                       "blocks; give token_bytes, or layout=blocks"));
  EXPECT_THAT(Read(",block_tokens=16,layout=sequences"),
              StatusIs(kInvalid, StartsWith("f: key block_tokens='16': layout="
                                            "sequences has no blocks")));
  EXPECT_THAT(
      Read(",token_bytes=1KiB"),
      StatusIs(kInvalid, StartsWith("f: key token_bytes='1KiB': layout=blocks "
                                    "goes by block_bytes and block_tokens")));
  EXPECT_THAT(Read(",layout=sequences,token_bytes=2GiB"),
              StatusIs(kInvalid, StartsWith("f: key token_bytes='2GiB': out of "
                                            "range; give 1B to 1GiB")));
}

TEST(KvOptionsTest, KnownContentsShareBlocksInsteadOfRetainAndHit) {
  FIRN_ASSERT_OK_AND_ASSIGN(const KvOptions options,
                            Read(",retain_budget=1GiB", 512));
  EXPECT_EQ(options.shared_piece_tokens, 512u);
  for (const std::string key : {"retain", "hit"}) {
    EXPECT_THAT(
        Read(absl::StrCat(",", key, "=0.5"), 512),
        StatusIs(kInvalid,
                 absl::StrCat("f: key ", key,
                              "='0.5': this log tells which prompts have "
                              "contents in common, and blocks are shared by "
                              "that; leave the key out, or give "
                              "layout=sequences")));
  }
}

TEST(KvOptionsTest, SequencesDoNotShareByContents) {
  FIRN_ASSERT_OK_AND_ASSIGN(const KvOptions options,
                            Read(",layout=sequences,retain=0.5,hit=1", 512));
  EXPECT_EQ(options.shared_piece_tokens, 0u);
}

TEST(KvOptionsTest, SharedPiecesAreWholeBlocks) {
  FIRN_ASSERT_OK_AND_ASSIGN(const KvOptions options,
                            Read(",block_tokens=512", 512));
  EXPECT_EQ(options.block_tokens, 512u);
  for (const std::string tokens : {"24", "1024"}) {
    EXPECT_THAT(
        Read(absl::StrCat(",block_tokens=", tokens), 512),
        StatusIs(kInvalid,
                 absl::StrCat("f: key block_tokens='", tokens,
                              "': this log tells contents by pieces of 512 "
                              "tokens, which must be whole blocks; give a "
                              "divisor of 512")));
  }
}

}  // namespace
}  // namespace firn::bench
