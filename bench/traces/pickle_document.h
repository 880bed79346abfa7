// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What an unpickled file holds: plain data of Python's builtin types.

#ifndef FIRN_BENCH_TRACES_PICKLE_DOCUMENT_H_
#define FIRN_BENCH_TRACES_PICKLE_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace firn::bench {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kHugeInteger,  // beyond 64 bits; its value is not kept
  kReal,
  kText,
  kBytes,
  kTuple,
  kList,
  kDict,
};

// 16 bytes. Text, tuples, lists and dicts live in the document, so a value that
// appears in many places, or within itself, costs nothing and is never copied.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  uint32_t text_bytes = 0;
  union {
    int64_t integer = 0;  // kBool, kInteger
    double real;
    uint64_t index;  // of the container, or of the first byte of the text
  };
};

class PickleDocument {
 public:
  const PickleValue& root() const { return root_; }

  bool IsText(const PickleValue& value, absl::string_view text) const {
    return value.kind == PickleKind::kText && Text(value) == text;
  }
  // REQUIRES: kText or kBytes.
  absl::string_view Text(const PickleValue& value) const {
    return absl::string_view(data_).substr(value.index, value.text_bytes);
  }
  // Of a tuple or list, its items; of a dict, key, value, key, value... Empty
  // for every other kind.
  const std::vector<PickleValue>& Items(const PickleValue& value) const;
  // The value for the text `key`; null where `dict` is no dict or lacks it.
  const PickleValue* Find(const PickleValue& dict, absl::string_view key) const;

 private:
  friend class Unpickler;

  std::string data_;  // the file; texts are parts of it
  std::vector<std::vector<PickleValue>> containers_;
  PickleValue root_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_PICKLE_DOCUMENT_H_
