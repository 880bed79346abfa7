// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a drawn sequence of operations takes its decisions from: a seed, or the
// bytes of a fuzzer.

#ifndef FIRN_TESTS_CORE_PROPERTY_CHOICES_H_
#define FIRN_TESTS_CORE_PROPERTY_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <random>

#include "absl/types/span.h"

namespace firn::testing::property {

class Choices {
 public:
  virtual ~Choices() = default;

  // A number in [0, bound); `bound` is 1 or more.
  virtual uint64_t Below(uint64_t bound) = 0;

  // A number in [lo, hi].
  uint64_t Between(uint64_t lo, uint64_t hi) { return lo + Below(hi - lo + 1); }
  uint32_t Index(uint32_t bound) { return static_cast<uint32_t>(Below(bound)); }
  bool OneIn(uint64_t bound) { return Below(bound) == 0; }
};

// The same on every platform.
class SeededChoices : public Choices {
 public:
  explicit SeededChoices(uint64_t seed) : engine_(seed) {}
  uint64_t Below(uint64_t bound) override { return engine_() % bound; }

 private:
  std::mt19937_64 engine_;
};

// Takes as few bytes a decision as its bound needs, so that a fuzzer's changes
// stay local; 0 once there are none left.
class ByteChoices : public Choices {
 public:
  // `bytes` must outlive this object.
  explicit ByteChoices(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  uint64_t Below(uint64_t bound) override {
    uint64_t value = 0;
    for (uint64_t rest = bound - 1; rest > 0 && !empty(); rest >>= 8) {
      value = (value << 8) | bytes_[next_++];
    }
    return value % bound;
  }
  bool empty() const { return next_ == bytes_.size(); }

 private:
  const absl::Span<const uint8_t> bytes_;
  size_t next_ = 0;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_CHOICES_H_
