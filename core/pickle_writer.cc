// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pickle_writer.h"

#include <cstring>
#include <limits>
#include <utility>

#include "firn/core/text_escapes.h"

namespace firn {
namespace {

// Opcodes, by the names that they have in Python's pickletools.
constexpr char kAppends = 'e';
constexpr char kBinFloat = 'G';
constexpr char kBinInt = 'J';
constexpr char kBinUnicode = 'X';
constexpr char kEmptyDict = '}';
constexpr char kEmptyList = ']';
constexpr char kLong1 = '\x8a';
constexpr char kLongBinGet = 'j';
constexpr char kLongBinPut = 'r';
constexpr char kMark = '(';
constexpr char kNewFalse = '\x89';
constexpr char kNewTrue = '\x88';
constexpr char kNone = 'N';
constexpr char kProto = '\x80';
constexpr char kSetItems = 'u';
constexpr char kStop = '.';
constexpr char kTuple = 't';

}  // namespace

PickleWriter::PickleWriter() : data_{kProto, '\x02'} {}

void PickleWriter::Number(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    data_.push_back(static_cast<char>(value >> (8 * i)));
  }
}

void PickleWriter::None() { data_.push_back(kNone); }

void PickleWriter::Bool(bool value) {
  data_.push_back(value ? kNewTrue : kNewFalse);
}

void PickleWriter::Integer(int64_t value) {
  if (value >= std::numeric_limits<int32_t>::min() &&
      value <= std::numeric_limits<int32_t>::max()) {
    data_.push_back(kBinInt);
    Number(static_cast<uint64_t>(value), 4);
    return;
  }
  data_.push_back(kLong1);
  data_.push_back(8);
  Number(static_cast<uint64_t>(value), 8);
}

void PickleWriter::Unsigned(uint64_t value) {
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Integer(static_cast<int64_t>(value));
  }
  // A ninth byte for the sign.
  data_.push_back(kLong1);
  data_.push_back(9);
  Number(value, 8);
  data_.push_back(0);
}

void PickleWriter::Real(double value) {
  uint64_t bits;
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(bits));
  data_.push_back(kBinFloat);
  // Alone among all, big-endian.
  for (int i = 7; i >= 0; --i) {
    data_.push_back(static_cast<char>(bits >> (8 * i)));
  }
}

void PickleWriter::Text(absl::string_view text) {
  const auto found = texts_.find(text);
  if (found != texts_.end()) return Again(found->second);
  const std::string valid = ToValidUtf8(text);
  data_.push_back(kBinUnicode);
  Number(valid.size(), 4);
  data_ += valid;
  texts_.emplace(text, Remember());
}

void PickleWriter::BeginDict() {
  data_.push_back(kEmptyDict);
  data_.push_back(kMark);
}
void PickleWriter::EndDict() { data_.push_back(kSetItems); }

void PickleWriter::BeginList() {
  data_.push_back(kEmptyList);
  data_.push_back(kMark);
}
void PickleWriter::EndList() { data_.push_back(kAppends); }

void PickleWriter::BeginTuple() { data_.push_back(kMark); }
void PickleWriter::EndTuple() { data_.push_back(kTuple); }

uint32_t PickleWriter::Remember() {
  data_.push_back(kLongBinPut);
  Number(remembered_, 4);
  return remembered_++;
}

void PickleWriter::Again(uint32_t remembered) {
  data_.push_back(kLongBinGet);
  Number(remembered, 4);
}

std::string PickleWriter::Finish() && {
  data_.push_back(kStop);
  return std::move(data_);
}

}  // namespace firn
