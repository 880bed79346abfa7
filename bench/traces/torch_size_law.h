// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the size of a block depends on the sequence length, told by its sizes in
// two recordings of one program.
//
// With s at the shorter length and S at the longer, whose ratio is r:
// - S = s: state, the same at every length;
// - s < S <= r s: a + b L, linear where a = 0 (S = r s);
// - r s < S <= r^2 s: b L + c L^2, quadratic where b = 0 (S = r^2 s).
// Each pair of numbers is fixed by the two points, and none is negative. A size
// that falls or grows faster is unexplained and keeps the first recording's
// size: scratch of a library, say, that tries algorithms out.

#ifndef FIRN_BENCH_TRACES_TORCH_SIZE_LAW_H_
#define FIRN_BENCH_TRACES_TORCH_SIZE_LAW_H_

#include <cstdint>

namespace firn::bench {

// The sequence lengths of the snapshot and of its pair: different, and at most
// 2^20, so that the sums below stay within 128 bits.
struct TorchLengths {
  static constexpr uint64_t kMost = uint64_t{1} << 20;

  uint64_t own = 0;
  uint64_t pair = 0;
};

// Whether sizes of `own` and `pair` bytes are those of one block: off from
// state, from linear or from quadratic by at most a tenth of the step between
// two of them.
bool AreCounterparts(const TorchLengths& lengths, uint64_t own, uint64_t pair);

class TorchSizeLaw {
 public:
  enum class Form : uint8_t { kState, kLinear, kQuadratic, kUnexplained };

  // Unexplained: `own_bytes` at every length.
  explicit TorchSizeLaw(uint64_t own_bytes) : own_bytes_(own_bytes) {}
  TorchSizeLaw(const TorchLengths& lengths, uint64_t own_bytes,
               uint64_t pair_bytes);

  Form form() const { return form_; }
  // To the nearest byte, at least 1, at most 2^64 - 1.
  uint64_t BytesAt(const TorchLengths& lengths, uint64_t length) const;

 private:
  Form form_ = Form::kUnexplained;
  uint64_t own_bytes_ = 0;
  uint64_t pair_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TORCH_SIZE_LAW_H_
