// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the keys of a trace spec for one format: typed, checked against a range
// and remembered, so that a key nobody asked for is an error that lists those
// of the format.

#ifndef FIRN_BENCH_TRACES_TRACE_KEYS_H_
#define FIRN_BENCH_TRACES_TRACE_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// Each getter returns the key's value, or `otherwise` where the key is absent
// or wrong; the first wrong one is kept and comes back from Finish().
class TraceKeys {
 public:
  // `format` is for messages: "a gen:kv trace". `spec` must outlive this.
  TraceKeys(const TraceSpec& spec, absl::string_view format);

  uint64_t Bytes(absl::string_view key, uint64_t otherwise, uint64_t least,
                 uint64_t most);
  // Joined by '+': 32KiB+192KiB. Each is at least 1 byte, at most `most`.
  std::vector<uint64_t> ByteList(absl::string_view key,
                                 std::vector<uint64_t> otherwise,
                                 uint64_t most);
  uint64_t Count(absl::string_view key, uint64_t otherwise, uint64_t least,
                 uint64_t most);
  std::vector<uint64_t> CountList(absl::string_view key,
                                  std::vector<uint64_t> otherwise,
                                  uint64_t least, uint64_t most);
  // Decimal; `least` is not negative.
  double Real(absl::string_view key, double otherwise, double least,
              double most);
  // One of `names`, by its place among them.
  size_t Choice(absl::string_view key, size_t otherwise,
                const std::vector<absl::string_view>& names);
  // Any text but none, such as a file's name; empty where the key is absent.
  std::string Text(absl::string_view key);
  // For a format that draws nothing at random: the key `seed`, which all
  // generators take, has no effect.
  void UnusedSeed() { Count("seed", 0, 0, ~uint64_t{0}); }
  // Makes `key`, where it is given, an error with this reason: beside the other
  // keys it has no meaning. It counts as a key of the format all the same.
  void Refuse(absl::string_view key, absl::string_view reason);

  // OK, or the first wrong value, or a key that no getter asked for. Call it
  // after all getters.
  absl::Status Finish() const;

 private:
  // The value given for `key`, or null; remembers that the format has it.
  const std::string* Find(absl::string_view key);
  void Fail(absl::string_view key, absl::string_view value,
            absl::string_view reason);

  const TraceSpec& spec_;
  std::string format_;
  std::vector<std::string> known_;
  absl::Status first_error_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TRACE_KEYS_H_
