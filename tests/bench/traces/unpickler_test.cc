// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/unpickler.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/pickle_writer.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<PickleDocument> Unpickle(const std::string& data) {
  return Unpickler::Unpickle("f", data);
}

// `bytes` may hold zeros.
template <size_t kSize>
std::string Bytes(const char (&bytes)[kSize]) {
  return std::string(bytes, kSize - 1);
}

TEST(UnpicklerTest, ReadsEveryBuiltinTypeAsPythonWroteIt) {
  // pickle.dumps({"a": [1, -2, 70000, 2**40, True, None, 1.5], "b": (b"x", ()),
  //               "c": {}}, protocol=4)
  FIRN_ASSERT_OK_AND_ASSIGN(
      const PickleDocument document,
      Unpickle(Bytes("\x80\x04\x95\x44\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c"
                     "\x01"
                     "a\x94]\x94(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00\x8a\x06"
                     "\x00\x00\x00\x00\x00\x01\x88NG?\xf8\x00\x00\x00\x00\x00"
                     "\x00"
                     "e\x8c\x01"
                     "b\x94"
                     "C\x01x\x94)\x86\x94\x8c\x01"
                     "c\x94}\x94u.")));
  const PickleValue& root = document.root();
  ASSERT_EQ(root.kind, PickleKind::kDict);
  const PickleValue* a = document.Find(root, "a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(a->kind, PickleKind::kList);
  const std::vector<PickleValue>& items = document.Items(*a);
  ASSERT_EQ(items.size(), 7u);
  EXPECT_EQ(items[0].integer, 1);
  EXPECT_EQ(items[1].integer, -2);
  EXPECT_EQ(items[2].integer, 70000);
  EXPECT_EQ(items[3].integer, int64_t{1} << 40);
  EXPECT_EQ(items[4].kind, PickleKind::kBool);
  EXPECT_EQ(items[4].integer, 1);
  EXPECT_EQ(items[5].kind, PickleKind::kNone);
  EXPECT_EQ(items[6].kind, PickleKind::kReal);
  EXPECT_EQ(items[6].real, 1.5);
  const PickleValue* b = document.Find(root, "b");
  ASSERT_NE(b, nullptr);
  ASSERT_EQ(b->kind, PickleKind::kTuple);
  ASSERT_EQ(document.Items(*b).size(), 2u);
  EXPECT_EQ(document.Items(*b)[0].kind, PickleKind::kBytes);
  EXPECT_EQ(document.Text(document.Items(*b)[0]), "x");
  EXPECT_EQ(document.Items(*b)[1].kind, PickleKind::kTuple);
  EXPECT_EQ(document.Find(root, "c")->kind, PickleKind::kDict);
  EXPECT_EQ(document.Find(root, "d"), nullptr);
}

TEST(UnpicklerTest, ReadsLongsOfAnyLength) {
  struct Case {
    std::string digits;
    PickleKind kind;
    int64_t integer;
  };
  for (const Case& c : {
           Case{"", PickleKind::kInteger, 0},
           Case{Bytes("\xff"), PickleKind::kInteger, -1},
           Case{Bytes("\xff\x00"), PickleKind::kInteger, 255},
           Case{Bytes("\x00\x00\x00\x00\x00\x00\x00\x80"), PickleKind::kInteger,
                INT64_MIN},
           Case{Bytes("\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00"),
                PickleKind::kInteger, INT64_MAX},
           Case{Bytes("\xff\xff\xff\xff\xff\xff\xff\xff\x00"),
                PickleKind::kHugeInteger, -1},
           Case{Bytes("\x01\x00\x00\x00\x00\x00\x00\x00\x01"),
                PickleKind::kHugeInteger, 1},
       }) {
    for (const int length_bytes : {1, 4}) {
      const std::string opcode = length_bytes == 1 ? "\x8a" : "\x8b";
      FIRN_ASSERT_OK_AND_ASSIGN(
          const PickleDocument document,
          Unpickle(Pickled(opcode +
                           PickledNumber(c.digits.size(), length_bytes) +
                           c.digits)));
      EXPECT_EQ(document.root().kind, c.kind);
      EXPECT_EQ(document.root().integer, c.integer);
    }
  }
}

TEST(UnpicklerTest, SharesMemoEntriesAndHoldsValuesThatContainThemselves) {
  // x = []; x.append(x); x.append("t"); (x, x)
  FIRN_ASSERT_OK_AND_ASSIGN(
      const PickleDocument document,
      Unpickle(Bytes("\x80\x02]q\x07(h\x07U\x01teh\x07\x86.")));
  const std::vector<PickleValue>& pair = document.Items(document.root());
  ASSERT_EQ(pair.size(), 2u);
  EXPECT_EQ(pair[0].index, pair[1].index);
  const std::vector<PickleValue>& list = document.Items(pair[0]);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].index, pair[0].index);
  EXPECT_TRUE(document.IsText(list[1], "t"));
}

TEST(UnpicklerTest, OfTwoEqualKeysTheLaterValueCounts) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const PickleDocument document,
      Unpickle(Pickled(
          PickledDict({{"k", PickledInteger(1)}, {"k", PickledInteger(2)}}))));
  EXPECT_EQ(document.Find(document.root(), "k")->integer, 2);
}

TEST(UnpicklerTest, RefusesEveryOpcodeThatCouldRunCode) {
  struct Case {
    std::string opcodes;
    const char* message;
  };
  for (const Case& c : {
           Case{"cos\nsystem\n(U\x02idtR",
                "f: byte 2: GLOBAL: names the class 'os.system'; only builtin"},
           Case{"U\x08"
                "builtinsU\x04"
                "eval\x93",
                "f: byte 18: STACK_GLOBAL: names the class 'builtins.eval'"},
           Case{"(ios\nsystem\n", "f: byte 3: INST: names the class"},
           Case{"N)R", "f: byte 4: REDUCE: would run code"},
           Case{"N}b", "f: byte 4: BUILD: would run code"},
           Case{"(No", "f: byte 4: OBJ: would run code"},
           Case{"N)\x81", "f: byte 4: NEWOBJ: would run code"},
           Case{"N)}\x92", "f: byte 5: NEWOBJ_EX: would run code"},
           Case{"Pid\n", "f: byte 2: PERSID: would run code"},
           Case{"NQ", "f: byte 3: BINPERSID: would run code"},
           Case{"\x82\x01", "f: byte 2: EXT1: would run code"},
           Case{"\x83\x01\x01", "f: byte 2: EXT2: would run code"},
           Case{"\x84\x01\x01\x01\x01", "f: byte 2: EXT4: would run code"},
       }) {
    EXPECT_THAT(Unpickle(Pickled(c.opcodes)),
                StatusIs(kInvalid, StartsWith(c.message)));
  }
}

TEST(UnpicklerTest, AClassNameWithoutEndStaysAShortMessage) {
  const absl::StatusOr<PickleDocument> document = Unpickle(
      "\x80\x02"
      "c" +
      std::string(1'000'000, 'x'));
  EXPECT_THAT(document, StatusIs(kInvalid, HasSubstr("GLOBAL")));
  EXPECT_LT(document.status().message().size(), 200u);
}

TEST(UnpicklerTest, NamesTheByteAtWhichAFileIsCutOffWhereverThatIs) {
  const std::string whole =
      Pickled(PickledDict({{"key", PickledList({PickledInteger(5), "K\x07",
                                                "G12345678", "N\x85"})}}));
  FIRN_ASSERT_OK(Unpickle(whole).status());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(
        Unpickle(whole.substr(0, bytes)),
        StatusIs(kInvalid, AllOf(StartsWith("f: byte "), HasSubstr("cut off"))))
        << bytes;
  }
  EXPECT_THAT(Unpickle(whole.substr(0, 8)),
              StatusIs(kInvalid,
                       Eq("f: byte 4: BINUNICODE: needs 4 more bytes, finds 3; "
                          "the file is cut off")));
}

TEST(UnpicklerTest, RefusesWhatMakesNoSense) {
  struct Case {
    std::string opcodes;
    const char* message;
  };
  for (const Case& c : {
           Case{"", "STOP: needs 1 values on the stack, finds 0"},
           Case{"0", "POP: needs 1 values"},
           Case{"K\x01\x86", "TUPLE2: needs 2 values on the stack, finds 1"},
           Case{"K\x01(\x85", "TUPLE1: needs 1 values on the stack, finds 0"},
           Case{"t", "TUPLE: no MARK belongs to it"},
           Case{"h\x05", "BINGET: memo entry 5 was never stored"},
           Case{"q\x05", "BINPUT: needs 1 values"},
           Case{"}K\x01"
                "a",
                "APPEND: appends to what is no list"},
           Case{"]NNs", "SETITEM: sets items of what is no dict"},
           Case{"}(Nu", "SETITEMS: a dict key without a value"},
           Case{"(Nd", "DICT: a dict key without a value"},
           Case{"\xff", "unknown: 0xff is no opcode"},
           Case{"I5\n", "unknown: 0x49 is no opcode"},
           Case{"\x80\x09", "PROTO: pickle protocol 9; only 2 to 5"},
       }) {
    EXPECT_THAT(Unpickle(Pickled(c.opcodes)),
                StatusIs(kInvalid, HasSubstr(c.message)));
  }
  EXPECT_THAT(Unpickle("(lp0\n."), StatusIs(kInvalid, HasSubstr("protocol 2")));
}

TEST(UnpicklerTest, LimitsDepthAndValues) {
  EXPECT_THAT(Unpickle(Pickled(std::string(1'000'000, '('))),
              StatusIs(kInvalid, HasSubstr("nested deeper than 1000")));
  PickleLimits limits;
  limits.max_values = 1000;
  const std::string numbers(999, 'N');
  FIRN_EXPECT_OK(Unpickler::Unpickle("f", Pickled(numbers), limits).status());
  EXPECT_THAT(Unpickler::Unpickle("f", Pickled(numbers + "22"), limits),
              StatusIs(kInvalid, HasSubstr("byte 1002: DUP: more than 1000")));
  EXPECT_THAT(
      Unpickler::Unpickle("f", Pickled(std::string(1000, ']')), limits),
      StatusIs(kInvalid, HasSubstr("EMPTY_LIST: more than 1000 values")));
  std::string puts = "N";
  for (int i = 0; i < 400; ++i) puts += "\x94";
  EXPECT_THAT(Unpickler::Unpickle("f", Pickled(puts), limits),
              StatusIs(kInvalid, HasSubstr("MEMOIZE: more than 1000 values")));
}

TEST(UnpicklerTest, ATextThatClaimsMoreBytesThanThereAreAllocatesNothing) {
  EXPECT_THAT(Unpickle("\x80\x04\x8d" + std::string(8, '\xff') + "abc"),
              StatusIs(kInvalid, HasSubstr("finds 3; the file is cut off")));
  EXPECT_THAT(Unpickle("\x80\x04\x8b" + std::string(4, '\xff') + "abc"),
              StatusIs(kInvalid, HasSubstr("finds 3; the file is cut off")));
}

}  // namespace
}  // namespace firn::bench
