// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes values of Python's builtin types as a pickle of protocol 2, which
// every unpickler reads without importing anything.
//
//   PickleWriter writer;
//   writer.BeginDict();
//   writer.Text("answer");
//   writer.Integer(42);
//   writer.EndDict();
//   file << std::move(writer).Finish();

#ifndef FIRN_CORE_PICKLE_WRITER_H_
#define FIRN_CORE_PICKLE_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace firn {

// Values come one after the other: those between the begin and the end of a
// list or tuple are its items, those of a dict keys and values by turns.
// Thread safety: none.
class PickleWriter {
 public:
  PickleWriter();
  PickleWriter(const PickleWriter&) = delete;
  PickleWriter& operator=(const PickleWriter&) = delete;

  void None();
  void Bool(bool value);
  void Integer(int64_t value);
  void Unsigned(uint64_t value);
  void Real(double value);
  // UTF-8; what is none is replaced. Written once, and referred to after that.
  void Text(absl::string_view text);

  void BeginDict();
  void EndDict();
  void BeginList();
  void EndList();
  void BeginTuple();
  void EndTuple();

  // The value written last, to be written again by Again.
  uint32_t Remember();
  void Again(uint32_t remembered);

  // The file. REQUIRES: one value has been written, and all have ended.
  std::string Finish() &&;

 private:
  void Number(uint64_t value, int bytes);  // little-endian

  std::string data_;
  uint32_t remembered_ = 0;
  absl::flat_hash_map<std::string, uint32_t> texts_;
};

}  // namespace firn

#endif  // FIRN_CORE_PICKLE_WRITER_H_
