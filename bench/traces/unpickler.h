// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A reader of Python pickles that never runs code: it knows the builtin types
// None, bool, int, float, str, bytes, tuple, list and dict, and refuses every
// opcode that would import a class or call something. Pickles of unknown origin
// are safe to read.

#ifndef FIRN_BENCH_TRACES_UNPICKLER_H_
#define FIRN_BENCH_TRACES_UNPICKLER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/pickle_document.h"
#include "bench/traces/pickle_opcodes.h"

namespace firn::bench {

// A hostile file of n bytes can ask for some 30 n bytes of memory; these stop
// it. One unit is a value of 16 bytes; a container costs four, a memo entry
// three.
struct PickleLimits {
  uint64_t max_values = uint64_t{1} << 27;  // about 2 GiB
  size_t max_depth = 1000;                  // values within values
};

// Reads protocols 2 to 5, one document. Bytes after its STOP are passed over.
// Thread safety: none.
class Unpickler {
 public:
  // InvalidArgument reads "FILE: byte N: reason", N being the offset of the
  // opcode concerned.
  static absl::StatusOr<PickleDocument> Unpickle(absl::string_view file,
                                                 std::string data,
                                                 PickleLimits limits = {});

 private:
  Unpickler(absl::string_view file, std::string data, PickleLimits limits);

  absl::Status Run();
  absl::Status Perform(PickleOpcode opcode);
  absl::Status PerformOnStack(PickleOpcode opcode);
  absl::Status PerformOnMemo(PickleOpcode opcode);
  absl::Status Refuse(PickleOpcode opcode);

  // Reads a little-endian number of `bytes` bytes after the opcode.
  absl::Status ReadNumber(size_t bytes, uint64_t* number);
  absl::Status PushInteger(size_t bytes, bool is_signed);
  absl::Status PushReal();
  // A long whose length takes `length_bytes` bytes.
  absl::Status PushLong(size_t length_bytes);
  absl::Status PushText(PickleKind kind, size_t length_bytes);
  // The top `count` values become one container.
  absl::Status PushContainer(PickleKind kind, size_t count);
  // The values above the last mark move to the end of the container below it.
  absl::Status ExtendContainer(PickleKind kind, size_t count);
  absl::Status Push(PickleValue value);
  // Values above the last mark; takes the mark off.
  absl::Status TakeMark(size_t* count);
  absl::Status Need(size_t count) const;
  absl::Status NeedBytes(uint64_t count) const;
  absl::Status Charge(uint64_t values);
  absl::Status Error(absl::string_view reason) const;

  std::string file_;
  PickleLimits limits_;
  PickleDocument document_;
  size_t position_ = 0;   // of the next byte
  size_t opcode_at_ = 0;  // of the current opcode
  const char* opcode_name_ = "";
  bool stopped_ = false;
  uint64_t charged_values_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  // stack heights
  absl::flat_hash_map<uint64_t, PickleValue> memo_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_UNPICKLER_H_
