// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/pickle_opcodes.h"

namespace firn::bench {

const char* PickleOpcodeName(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kMark:
      return "MARK";
    case PickleOpcode::kStop:
      return "STOP";
    case PickleOpcode::kPop:
      return "POP";
    case PickleOpcode::kPopMark:
      return "POP_MARK";
    case PickleOpcode::kDup:
      return "DUP";
    case PickleOpcode::kBinFloat:
      return "BINFLOAT";
    case PickleOpcode::kBinInt:
      return "BININT";
    case PickleOpcode::kBinInt1:
      return "BININT1";
    case PickleOpcode::kBinInt2:
      return "BININT2";
    case PickleOpcode::kNone:
      return "NONE";
    case PickleOpcode::kBinString:
      return "BINSTRING";
    case PickleOpcode::kShortBinString:
      return "SHORT_BINSTRING";
    case PickleOpcode::kBinUnicode:
      return "BINUNICODE";
    case PickleOpcode::kBinBytes:
      return "BINBYTES";
    case PickleOpcode::kShortBinBytes:
      return "SHORT_BINBYTES";
    case PickleOpcode::kAppend:
      return "APPEND";
    case PickleOpcode::kAppends:
      return "APPENDS";
    case PickleOpcode::kDict:
      return "DICT";
    case PickleOpcode::kEmptyDict:
      return "EMPTY_DICT";
    case PickleOpcode::kBinGet:
      return "BINGET";
    case PickleOpcode::kLongBinGet:
      return "LONG_BINGET";
    case PickleOpcode::kList:
      return "LIST";
    case PickleOpcode::kEmptyList:
      return "EMPTY_LIST";
    case PickleOpcode::kBinPut:
      return "BINPUT";
    case PickleOpcode::kLongBinPut:
      return "LONG_BINPUT";
    case PickleOpcode::kSetItem:
      return "SETITEM";
    case PickleOpcode::kSetItems:
      return "SETITEMS";
    case PickleOpcode::kTuple:
      return "TUPLE";
    case PickleOpcode::kEmptyTuple:
      return "EMPTY_TUPLE";
    case PickleOpcode::kProto:
      return "PROTO";
    case PickleOpcode::kTuple1:
      return "TUPLE1";
    case PickleOpcode::kTuple2:
      return "TUPLE2";
    case PickleOpcode::kTuple3:
      return "TUPLE3";
    case PickleOpcode::kNewTrue:
      return "NEWTRUE";
    case PickleOpcode::kNewFalse:
      return "NEWFALSE";
    case PickleOpcode::kLong1:
      return "LONG1";
    case PickleOpcode::kLong4:
      return "LONG4";
    case PickleOpcode::kShortBinUnicode:
      return "SHORT_BINUNICODE";
    case PickleOpcode::kBinUnicode8:
      return "BINUNICODE8";
    case PickleOpcode::kBinBytes8:
      return "BINBYTES8";
    case PickleOpcode::kMemoize:
      return "MEMOIZE";
    case PickleOpcode::kFrame:
      return "FRAME";
    case PickleOpcode::kGlobal:
      return "GLOBAL";
    case PickleOpcode::kStackGlobal:
      return "STACK_GLOBAL";
    case PickleOpcode::kInst:
      return "INST";
    case PickleOpcode::kObj:
      return "OBJ";
    case PickleOpcode::kReduce:
      return "REDUCE";
    case PickleOpcode::kBuild:
      return "BUILD";
    case PickleOpcode::kNewObj:
      return "NEWOBJ";
    case PickleOpcode::kNewObjEx:
      return "NEWOBJ_EX";
    case PickleOpcode::kExt1:
      return "EXT1";
    case PickleOpcode::kExt2:
      return "EXT2";
    case PickleOpcode::kExt4:
      return "EXT4";
    case PickleOpcode::kPersId:
      return "PERSID";
    case PickleOpcode::kBinPersId:
      return "BINPERSID";
  }
  return "unknown";
}

bool RunsCode(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kGlobal:
    case PickleOpcode::kStackGlobal:
    case PickleOpcode::kInst:
    case PickleOpcode::kObj:
    case PickleOpcode::kReduce:
    case PickleOpcode::kBuild:
    case PickleOpcode::kNewObj:
    case PickleOpcode::kNewObjEx:
    case PickleOpcode::kExt1:
    case PickleOpcode::kExt2:
    case PickleOpcode::kExt4:
    case PickleOpcode::kPersId:
    case PickleOpcode::kBinPersId:
      return true;
    default:
      return false;
  }
}

}  // namespace firn::bench
