// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes of values; that readers understand whole files is tested with them:
// tests/bench/traces/pool_snapshot_test.cc.

#include "firn/core/pickle_writer.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace firn {
namespace {

using ::std::string_literals::operator""s;

template <typename Write>
std::string Pickled(Write write) {
  PickleWriter writer;
  write(writer);
  return std::move(writer).Finish();
}

TEST(PickleWriterTest, NumbersTakeTheShortestForm) {
  EXPECT_EQ(Pickled([](PickleWriter& writer) { writer.Integer(-1); }),
            "\x80\x02J\xff\xff\xff\xff."s);
  EXPECT_EQ(
      Pickled([](PickleWriter& writer) { writer.Integer(int64_t{1} << 40); }),
      "\x80\x02\x8a\x08\0\0\0\0\0\x01\0\0."s);
  EXPECT_EQ(Pickled([](PickleWriter& writer) {
              writer.Unsigned(std::numeric_limits<uint64_t>::max());
            }),
            "\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."s);
  EXPECT_EQ(Pickled([](PickleWriter& writer) { writer.Real(1); }),
            "\x80\x02G\x3f\xf0\0\0\0\0\0\0."s);
}

TEST(PickleWriterTest, ATextIsWrittenOnce) {
  EXPECT_EQ(Pickled([](PickleWriter& writer) {
              writer.BeginList();
              writer.Text("ab");
              writer.Text("ab");
              writer.EndList();
            }),
            "\x80\x02](X\x02\0\0\0abr\0\0\0\0j\0\0\0\0e."s);
}

TEST(PickleWriterTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Pickled([](PickleWriter& writer) { writer.Text("\xff"); }),
            "\x80\x02X\x03\0\0\0\xef\xbf\xbdr\0\0\0\0."s);
}

TEST(PickleWriterTest, ContainersAndConstants) {
  EXPECT_EQ(Pickled([](PickleWriter& writer) {
              writer.BeginTuple();
              writer.Bool(true);
              writer.Bool(false);
              writer.None();
              writer.BeginDict();
              writer.EndDict();
              writer.EndTuple();
            }),
            "\x80\x02(\x88\x89N}(ut."s);
}

}  // namespace
}  // namespace firn
