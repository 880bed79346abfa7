// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/unpickler.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

constexpr uint64_t kContainerCost = 4;
constexpr uint64_t kMemoCost = 3;

}  // namespace

Unpickler::Unpickler(absl::string_view file, std::string data,
                     PickleLimits limits)
    : file_(file), limits_(limits) {
  document_.data_ = std::move(data);
}

absl::StatusOr<PickleDocument> Unpickler::Unpickle(absl::string_view file,
                                                   std::string data,
                                                   PickleLimits limits) {
  Unpickler unpickler(file, std::move(data), limits);
  if (absl::Status status = unpickler.Run(); !status.ok()) return status;
  return std::move(unpickler.document_);
}

absl::Status Unpickler::Run() {
  const std::string& data = document_.data_;
  while (!stopped_) {
    opcode_at_ = position_;
    opcode_name_ = "";
    if (position_ == data.size()) {
      return Error("the pickle ends without STOP; the file is cut off");
    }
    const auto opcode = static_cast<PickleOpcode>(data[position_]);
    ++position_;
    if (opcode_at_ == 0 && opcode != PickleOpcode::kProto) {
      return Error("no pickle of protocol 2 or later: it would start with 80");
    }
    opcode_name_ = PickleOpcodeName(opcode);
    if (absl::Status status = Perform(opcode); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Unpickler::Perform(PickleOpcode opcode) {
  if (RunsCode(opcode)) return Refuse(opcode);
  switch (opcode) {
    case PickleOpcode::kProto: {
      uint64_t protocol = 0;
      absl::Status status = ReadNumber(1, &protocol);
      if (!status.ok()) return status;
      if (protocol >= 2 && protocol <= 5) return absl::OkStatus();
      return Error(
          absl::StrCat("pickle protocol ", protocol, "; only 2 to 5 are read"));
    }
    case PickleOpcode::kFrame: {
      uint64_t frame_bytes = 0;  // of no use here: the file is in memory
      return ReadNumber(8, &frame_bytes);
    }
    case PickleOpcode::kNone:
      return Push({});
    case PickleOpcode::kNewTrue:
    case PickleOpcode::kNewFalse: {
      PickleValue value;
      value.kind = PickleKind::kBool;
      value.integer = opcode == PickleOpcode::kNewTrue ? 1 : 0;
      return Push(value);
    }
    case PickleOpcode::kBinInt:
      return PushInteger(4, /*is_signed=*/true);
    case PickleOpcode::kBinInt1:
      return PushInteger(1, /*is_signed=*/false);
    case PickleOpcode::kBinInt2:
      return PushInteger(2, /*is_signed=*/false);
    case PickleOpcode::kLong1:
      return PushLong(1);
    case PickleOpcode::kLong4:
      return PushLong(4);
    case PickleOpcode::kBinFloat:
      return PushReal();
    case PickleOpcode::kShortBinUnicode:
      return PushText(PickleKind::kText, 1);
    case PickleOpcode::kBinUnicode:
      return PushText(PickleKind::kText, 4);
    case PickleOpcode::kBinUnicode8:
      return PushText(PickleKind::kText, 8);
    case PickleOpcode::kShortBinString:
      return PushText(PickleKind::kText, 1);
    case PickleOpcode::kBinString:
      return PushText(PickleKind::kText, 4);
    case PickleOpcode::kShortBinBytes:
      return PushText(PickleKind::kBytes, 1);
    case PickleOpcode::kBinBytes:
      return PushText(PickleKind::kBytes, 4);
    case PickleOpcode::kBinBytes8:
      return PushText(PickleKind::kBytes, 8);
    case PickleOpcode::kBinGet:
    case PickleOpcode::kLongBinGet:
    case PickleOpcode::kBinPut:
    case PickleOpcode::kLongBinPut:
    case PickleOpcode::kMemoize:
      return PerformOnMemo(opcode);
    default:
      return PerformOnStack(opcode);
  }
}

absl::Status Unpickler::PerformOnStack(PickleOpcode opcode) {
  size_t count = 0;
  absl::Status status;
  switch (opcode) {
    case PickleOpcode::kStop:
      status = Need(1);
      if (!status.ok()) return status;
      document_.root_ = stack_.back();
      stopped_ = true;
      return absl::OkStatus();
    case PickleOpcode::kMark:
      if (marks_.size() == limits_.max_depth) {
        return Error(
            absl::StrCat("values nested deeper than ", limits_.max_depth));
      }
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case PickleOpcode::kPopMark:
      status = TakeMark(&count);
      if (status.ok()) stack_.resize(stack_.size() - count);
      return status;
    case PickleOpcode::kPop:
      status = Need(1);
      if (status.ok()) stack_.pop_back();
      return status;
    case PickleOpcode::kDup: {
      status = Need(1);
      if (!status.ok()) return status;
      const PickleValue top = stack_.back();
      return Push(top);
    }
    case PickleOpcode::kEmptyTuple:
      return PushContainer(PickleKind::kTuple, 0);
    case PickleOpcode::kTuple1:
      return PushContainer(PickleKind::kTuple, 1);
    case PickleOpcode::kTuple2:
      return PushContainer(PickleKind::kTuple, 2);
    case PickleOpcode::kTuple3:
      return PushContainer(PickleKind::kTuple, 3);
    case PickleOpcode::kEmptyList:
      return PushContainer(PickleKind::kList, 0);
    case PickleOpcode::kEmptyDict:
      return PushContainer(PickleKind::kDict, 0);
    case PickleOpcode::kTuple:
    case PickleOpcode::kList:
    case PickleOpcode::kDict:
      status = TakeMark(&count);
      if (!status.ok()) return status;
      return PushContainer(opcode == PickleOpcode::kTuple  ? PickleKind::kTuple
                           : opcode == PickleOpcode::kList ? PickleKind::kList
                                                           : PickleKind::kDict,
                           count);
    case PickleOpcode::kAppend:
      return ExtendContainer(PickleKind::kList, 1);
    case PickleOpcode::kSetItem:
      return ExtendContainer(PickleKind::kDict, 2);
    case PickleOpcode::kAppends:
    case PickleOpcode::kSetItems:
      status = TakeMark(&count);
      if (!status.ok()) return status;
      return ExtendContainer(opcode == PickleOpcode::kAppends
                                 ? PickleKind::kList
                                 : PickleKind::kDict,
                             count);
    default:
      if (absl::string_view(opcode_name_) != "unknown") {
        return Error("this opcode is not read");
      }
      return Error(absl::StrCat(
          "0x", absl::Hex(static_cast<uint8_t>(opcode), absl::kZeroPad2),
          " is no opcode of a pickle of builtin types; the file is damaged or "
          "no memory snapshot"));
  }
}

absl::Status Unpickler::PerformOnMemo(PickleOpcode opcode) {
  uint64_t key = memo_.size();
  size_t key_bytes = 0;
  if (opcode == PickleOpcode::kBinGet || opcode == PickleOpcode::kBinPut) {
    key_bytes = 1;
  } else if (opcode != PickleOpcode::kMemoize) {
    key_bytes = 4;
  }
  if (key_bytes > 0) {
    absl::Status status = ReadNumber(key_bytes, &key);
    if (!status.ok()) return status;
  }
  if (opcode == PickleOpcode::kBinGet || opcode == PickleOpcode::kLongBinGet) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      return Error(absl::StrCat("memo entry ", key, " was never stored"));
    }
    return Push(found->second);
  }
  if (absl::Status status = Need(1); !status.ok()) return status;
  if (absl::Status status = Charge(kMemoCost); !status.ok()) return status;
  memo_[key] = stack_.back();
  return absl::OkStatus();
}

absl::Status Unpickler::Refuse(PickleOpcode opcode) {
  const absl::string_view rest =
      absl::string_view(document_.data_).substr(position_);
  std::string what = "would run code";
  if (opcode == PickleOpcode::kGlobal || opcode == PickleOpcode::kInst) {
    const size_t module_end = rest.find('\n');
    const absl::string_view module = rest.substr(0, module_end);
    absl::string_view name;
    if (module_end != absl::string_view::npos) {
      name = rest.substr(module_end + 1);
      name = name.substr(0, name.find('\n'));
    }
    what = absl::StrCat(
        "names the class ",
        Quoted(absl::StrCat(module.substr(0, 100), ".", name.substr(0, 100))));
  } else if (opcode == PickleOpcode::kStackGlobal && stack_.size() >= 2 &&
             stack_[stack_.size() - 2].kind == PickleKind::kText &&
             stack_.back().kind == PickleKind::kText) {
    what = absl::StrCat(
        "names the class ",
        Quoted(absl::StrCat(
            document_.Text(stack_[stack_.size() - 2]).substr(0, 100), ".",
            document_.Text(stack_.back()).substr(0, 100))));
  }
  return Error(absl::StrCat(
      what, "; only builtin types are read and no code is ever run"));
}

absl::Status Unpickler::ReadNumber(size_t bytes, uint64_t* number) {
  if (absl::Status status = NeedBytes(bytes); !status.ok()) return status;
  *number = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<uint8_t>(document_.data_[position_ + i]);
    *number |= uint64_t{byte} << (8 * i);
  }
  position_ += bytes;
  return absl::OkStatus();
}

absl::Status Unpickler::PushInteger(size_t bytes, bool is_signed) {
  uint64_t number = 0;
  if (absl::Status status = ReadNumber(bytes, &number); !status.ok()) {
    return status;
  }
  PickleValue value;
  value.kind = PickleKind::kInteger;
  value.integer = is_signed
                      ? static_cast<int32_t>(static_cast<uint32_t>(number))
                      : static_cast<int64_t>(number);
  return Push(value);
}

absl::Status Unpickler::PushReal() {
  if (absl::Status status = NeedBytes(8); !status.ok()) return status;
  uint64_t bits = 0;  // big-endian, alone among pickle's numbers
  for (size_t i = 0; i < 8; ++i) {
    bits = bits << 8 | static_cast<uint8_t>(document_.data_[position_ + i]);
  }
  position_ += 8;
  PickleValue value;
  value.kind = PickleKind::kReal;
  std::memcpy(&value.real, &bits, sizeof(bits));
  return Push(value);
}

absl::Status Unpickler::PushLong(size_t length_bytes) {
  uint64_t length = 0;
  absl::Status status = ReadNumber(length_bytes, &length);
  if (status.ok()) status = NeedBytes(length);
  if (!status.ok()) return status;
  const absl::string_view digits =
      absl::string_view(document_.data_).substr(position_, length);
  position_ += length;
  // Two's complement, little-endian; leading bytes may repeat the sign.
  const bool negative =
      length > 0 && (static_cast<uint8_t>(digits.back()) & 0x80) != 0;
  uint64_t bits = negative ? ~uint64_t{0} : 0;
  bool huge = false;
  for (size_t i = length; i-- > 0;) {
    const auto byte = static_cast<uint8_t>(digits[i]);
    if (i >= 8) {
      huge = huge || byte != (negative ? 0xff : 0);
    } else {
      bits = (bits & ~(uint64_t{0xff} << (8 * i))) | uint64_t{byte} << (8 * i);
    }
  }
  PickleValue value;
  value.kind = huge || (static_cast<int64_t>(bits) < 0) != negative
                   ? PickleKind::kHugeInteger
                   : PickleKind::kInteger;
  value.integer = static_cast<int64_t>(bits);
  return Push(value);
}

absl::Status Unpickler::PushText(PickleKind kind, size_t length_bytes) {
  uint64_t length = 0;
  absl::Status status = ReadNumber(length_bytes, &length);
  if (status.ok()) status = NeedBytes(length);
  if (!status.ok()) return status;
  if (length > std::numeric_limits<uint32_t>::max()) {
    return Error("a text beyond 4 GiB");
  }
  PickleValue value;
  value.kind = kind;
  value.text_bytes = static_cast<uint32_t>(length);
  value.index = position_;
  position_ += length;
  return Push(value);
}

absl::Status Unpickler::PushContainer(PickleKind kind, size_t count) {
  if (absl::Status status = Need(count); !status.ok()) return status;
  if (kind == PickleKind::kDict && count % 2 != 0) {
    return Error("a dict key without a value");
  }
  absl::Status status = Charge(kContainerCost + count);
  if (!status.ok()) return status;
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
  PickleValue value;
  value.kind = kind;
  value.index = document_.containers_.size();
  document_.containers_.emplace_back(first, stack_.end());
  stack_.erase(first, stack_.end());
  return Push(value);
}

absl::Status Unpickler::ExtendContainer(PickleKind kind, size_t count) {
  if (absl::Status status = Need(count + 1); !status.ok()) return status;
  if (kind == PickleKind::kDict && count % 2 != 0) {
    return Error("a dict key without a value");
  }
  if (absl::Status status = Charge(count); !status.ok()) return status;
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
  const PickleValue& container = *(first - 1);
  if (container.kind != kind) {
    return Error(kind == PickleKind::kList ? "appends to what is no list"
                                           : "sets items of what is no dict");
  }
  std::vector<PickleValue>& items = document_.containers_[container.index];
  items.insert(items.end(), first, stack_.end());
  stack_.erase(first, stack_.end());
  return absl::OkStatus();
}

absl::Status Unpickler::Push(PickleValue value) {
  if (absl::Status status = Charge(1); !status.ok()) return status;
  stack_.push_back(value);
  return absl::OkStatus();
}

absl::Status Unpickler::TakeMark(size_t* count) {
  if (marks_.empty()) return Error("no MARK belongs to it");
  *count = stack_.size() - marks_.back();
  marks_.pop_back();
  return absl::OkStatus();
}

absl::Status Unpickler::Need(size_t count) const {
  // Values below a mark belong to what is being built there.
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor >= count) return absl::OkStatus();
  return Error(absl::StrCat("needs ", count, " values on the stack, finds ",
                            stack_.size() - floor));
}

absl::Status Unpickler::NeedBytes(uint64_t count) const {
  const size_t left = document_.data_.size() - position_;
  if (left >= count) return absl::OkStatus();
  return Error(absl::StrCat("needs ", count, " more bytes, finds ", left,
                            "; the file is cut off"));
}

absl::Status Unpickler::Charge(uint64_t values) {
  charged_values_ += values;
  if (charged_values_ <= limits_.max_values) return absl::OkStatus();
  return Error(absl::StrCat("more than ", limits_.max_values,
                            " values; record a shorter history"));
}

absl::Status Unpickler::Error(absl::string_view reason) const {
  return absl::InvalidArgumentError(
      absl::StrCat(file_, ": byte ", opcode_at_, ": ", opcode_name_,
                   *opcode_name_ == '\0' ? "" : ": ", reason));
}

}  // namespace firn::bench
