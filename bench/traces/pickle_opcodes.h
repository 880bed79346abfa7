// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The opcodes of Python's pickle protocols 2 to 5 that matter here.

#ifndef FIRN_BENCH_TRACES_PICKLE_OPCODES_H_
#define FIRN_BENCH_TRACES_PICKLE_OPCODES_H_

#include <cstdint>

namespace firn::bench {

enum class PickleOpcode : uint8_t {
  // Builtin values.
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kAppend = 'a',
  kAppends = 'e',
  kDict = 'd',
  kEmptyDict = '}',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kSetItems = 'u',
  kTuple = 't',
  kEmptyTuple = ')',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
  // What would import a class or call something.
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kInst = 'i',
  kObj = 'o',
  kReduce = 'R',
  kBuild = 'b',
  kNewObj = 0x81,
  kNewObjEx = 0x92,
  kExt1 = 0x82,
  kExt2 = 0x83,
  kExt4 = 0x84,
  kPersId = 'P',
  kBinPersId = 'Q',
};

// "BINUNICODE", as in Python's pickletools; "unknown" for other bytes.
const char* PickleOpcodeName(PickleOpcode opcode);

// Whether running `opcode` would import a class or call something.
bool RunsCode(PickleOpcode opcode);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_PICKLE_OPCODES_H_
