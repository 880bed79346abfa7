// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/trace_keys.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TraceSpec SpecOf(absl::string_view text) { return *ParseTraceSpec(text); }

TEST(TraceKeysTest, ReadsGivenKeysAndLeavesOthersAsTheyWere) {
  const TraceSpec spec =
      SpecOf("f,size=2MiB,list=1KiB+3,count=20M,counts=1+2K,real=0.25");
  TraceKeys keys(spec, "a test");
  EXPECT_EQ(keys.Bytes("size", 1, 0, ~uint64_t{0}), 2u << 20);
  EXPECT_THAT(keys.ByteList("list", {7}, 1 << 20), ElementsAre(1024, 3));
  EXPECT_EQ(keys.Count("count", 1, 0, ~uint64_t{0}), 20'000'000u);
  EXPECT_THAT(keys.CountList("counts", {7}, 1, 5000), ElementsAre(1, 2000));
  EXPECT_EQ(keys.Real("real", 1, 0, 1), 0.25);
  EXPECT_EQ(keys.Bytes("absent", 5, 0, 9), 5u);
  EXPECT_THAT(keys.ByteList("absent list", {7}, 9), ElementsAre(7));
  EXPECT_EQ(keys.Real("absent real", 0.5, 0, 1), 0.5);
  FIRN_EXPECT_OK(keys.Finish());
}

TEST(TraceKeysTest, AnUnknownKeyListsThoseThereAre) {
  const TraceSpec spec = SpecOf("log.csv,tps=3");
  TraceKeys keys(spec, "an Azure request log");
  keys.Real("decode_tps", 30, 0, 100);
  keys.Real("hit", 0, 0, 1);
  EXPECT_THAT(
      keys.Finish(),
      StatusIs(kInvalid, Eq("log.csv: unknown key 'tps'; the keys of an Azure "
                            "request log are decode_tps, hit")));
}

TEST(TraceKeysTest, AFormatWithoutKeysSaysSo) {
  const TraceSpec spec = SpecOf("log.csv,days=3");
  EXPECT_THAT(TraceKeys(spec, "an RMM log").Finish(),
              StatusIs(kInvalid, HasSubstr("an RMM log has no keys")));
}

TEST(TraceKeysTest, AWrongValueNamesKeyValueAndWhatWouldBeRight) {
  struct Case {
    const char* spec;
    const char* message;
  };
  for (const Case& c : {
           Case{"f,size=2MB", "f: key size='2MB': '2MB' is not a size such as"},
           Case{"f,size=2GiB", "out of range; give 1KiB to 1GiB"},
           Case{"f,real=abc", "f: key real='abc': give a number from 0 to 1"},
           Case{"f,real=nan", "give a number from 0 to 1"},
           Case{"f,real=1.5", "give a number from 0 to 1"},
           Case{"f,real=0x1", "give a number from 0 to 1"},
           Case{"f,real=0x1p-1", "give a number from 0 to 1"},
           Case{"f,real=inf", "give a number from 0 to 1"},
           Case{"f,real=-0.5", "give a number from 0 to 1"},
           Case{"f,real=", "give a number from 0 to 1"},
           Case{"f,list=1KiB++2", "'' is not a size"},
           Case{"f,list=0", "out of range; give 1B to 1MiB"},
           Case{"f,count=-3", "'-3' is negative"},
           Case{"f,count=11", "out of range; give 1 to 10"},
       }) {
    const TraceSpec spec = SpecOf(c.spec);
    TraceKeys keys(spec, "a test");
    keys.Bytes("size", 1 << 20, 1 << 10, 1 << 30);
    keys.Real("real", 0.5, 0, 1);
    keys.ByteList("list", {1}, 1 << 20);
    keys.Count("count", 1, 1, 10);
    EXPECT_THAT(keys.Finish(), StatusIs(kInvalid, HasSubstr(c.message)))
        << c.spec;
  }
}

TEST(TraceKeysTest, AChoiceIsOneOfTheNames) {
  const TraceSpec spec = SpecOf("f,fruit=pear,drink=beer");
  TraceKeys keys(spec, "a test");
  EXPECT_EQ(keys.Choice("fruit", 0, {"apple", "pear"}), 1u);
  EXPECT_EQ(keys.Choice("absent", 1, {"apple", "pear"}), 1u);
  EXPECT_EQ(keys.Choice("drink", 0, {"tea", "water"}), 0u);
  EXPECT_THAT(keys.Finish(),
              StatusIs(kInvalid, "f: key drink='beer': give tea or water"));
}

TEST(TraceKeysTest, ATextIsAnythingButEmpty) {
  const TraceSpec spec = SpecOf("f,pair=/a b/c=d");
  TraceKeys keys(spec, "a test");
  EXPECT_EQ(keys.Text("pair"), "/a b/c=d");
  EXPECT_EQ(keys.Text("absent"), "");
  FIRN_EXPECT_OK(keys.Finish());
  const TraceSpec empty = SpecOf("f,pair=");
  TraceKeys others(empty, "a test");
  EXPECT_EQ(others.Text("pair"), "");
  EXPECT_THAT(others.Finish(), StatusIs(kInvalid, "f: key pair='': empty"));
}

TEST(TraceKeysTest, ARefusedKeyIsAnErrorWhereItIsGivenAndListedOnce) {
  const TraceSpec given = SpecOf("f,hit=0.5");
  TraceKeys keys(given, "a test");
  keys.Real("hit", 0, 0, 1);
  keys.Refuse("hit", "it means nothing here");
  EXPECT_THAT(keys.Finish(),
              StatusIs(kInvalid, "f: key hit='0.5': it means nothing here"));
  const TraceSpec absent = SpecOf("f,pace=2");
  TraceKeys others(absent, "a test");
  others.Real("hit", 0, 0, 1);
  others.Refuse("hit", "it means nothing here");
  EXPECT_THAT(others.Finish(), StatusIs(kInvalid, HasSubstr("are hit")));
  EXPECT_THAT(others.Finish(), StatusIs(kInvalid, Not(HasSubstr("hit, hit"))));
}

TEST(TraceKeysTest, AListOfTooManyEntriesIsRefused) {
  std::string text = "f,list=1";
  for (int i = 0; i < 64; ++i) text += "+1";
  const TraceSpec spec = SpecOf(text);
  TraceKeys keys(spec, "a test");
  keys.ByteList("list", {1}, 9);
  EXPECT_THAT(keys.Finish(),
              StatusIs(kInvalid, HasSubstr("more than 64 entries")));
}

}  // namespace
}  // namespace firn::bench
