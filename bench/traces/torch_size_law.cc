// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_size_law.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/numeric/int128.h"

namespace firn::bench {
namespace {

using Wide = absl::int128;

// A block's two sizes, by rising length.
struct Points {
  Wide shorter;  // lengths
  Wide longer;
  Wide less;  // bytes at `shorter`
  Wide more;  // bytes at `longer`
};

Points PointsOf(const TorchLengths& lengths, uint64_t own, uint64_t pair) {
  Points points{lengths.own, lengths.pair, own, pair};
  if (lengths.own > lengths.pair) {
    std::swap(points.shorter, points.longer);
    std::swap(points.less, points.more);
  }
  return points;
}

// Whether a and b differ by at most a tenth of `step`.
bool AreNear(Wide a, Wide b, Wide step) {
  return (a > b ? a - b : b - a) * 10 <= step;
}

bool IsNearQuadratic(const Points& p) {
  return AreNear(p.more * p.shorter * p.shorter, p.less * p.longer * p.longer,
                 p.less * p.longer * (p.longer - p.shorter));
}

uint64_t Rounded(Wide numerator, Wide denominator) {
  const Wide rounded = (2 * numerator + denominator) / (2 * denominator);
  const Wide most = std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(std::clamp(rounded, Wide{1}, most));
}

}  // namespace

bool AreCounterparts(const TorchLengths& lengths, uint64_t own, uint64_t pair) {
  const Points p = PointsOf(lengths, own, pair);
  const Wide step = p.less * (p.longer - p.shorter);
  return AreNear(p.more * p.shorter, p.less * p.shorter, step) ||
         AreNear(p.more * p.shorter, p.less * p.longer, step) ||
         IsNearQuadratic(p);
}

TorchSizeLaw::TorchSizeLaw(const TorchLengths& lengths, uint64_t own_bytes,
                           uint64_t pair_bytes)
    : own_bytes_(own_bytes), pair_bytes_(pair_bytes) {
  const Points p = PointsOf(lengths, own_bytes, pair_bytes);
  if (p.more == p.less) {
    form_ = Form::kState;
  } else if (p.more < p.less) {
    form_ = Form::kUnexplained;
  } else if (p.more * p.shorter <= p.less * p.longer) {
    form_ = Form::kLinear;
  } else if (p.more * p.shorter * p.shorter <= p.less * p.longer * p.longer) {
    form_ = Form::kQuadratic;
  } else if (IsNearQuadratic(p)) {
    // Rounding took it beyond: the square that goes through its own size.
    form_ = Form::kQuadratic;
    const Wide own = lengths.own;
    const Wide pair = lengths.pair;
    pair_bytes_ = Rounded(own_bytes * pair * pair, own * own);
  }
}

uint64_t TorchSizeLaw::BytesAt(const TorchLengths& lengths,
                               uint64_t length) const {
  if (form_ == Form::kState || form_ == Form::kUnexplained ||
      length == lengths.own) {
    return own_bytes_;
  }
  const Points p = PointsOf(lengths, own_bytes_, pair_bytes_);
  const Wide at = length;
  if (form_ == Form::kLinear) {
    return Rounded(p.less * (p.longer - at) + p.more * (at - p.shorter),
                   p.longer - p.shorter);
  }
  return Rounded(at * (p.less * p.longer * (p.longer - at) +
                       p.more * p.shorter * (at - p.shorter)),
                 p.shorter * p.longer * (p.longer - p.shorter));
}

}  // namespace firn::bench
