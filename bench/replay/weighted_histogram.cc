// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/weighted_histogram.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace firn::bench {
namespace {

constexpr int kMantissaBits = 52;
constexpr int kBinBits = 11;
constexpr size_t kOctaves = 32;
constexpr size_t kBins = kOctaves << kBinBits;

}  // namespace

WeightedHistogram::WeightedHistogram() : bins_(kBins) {}

// The bits of a positive double, read as an integer, grow with its logarithm
// in pieces that are linear: exponent and leading mantissa bits are the bin.
size_t WeightedHistogram::BinOf(double value) {
  if (!(value > 1)) return 0;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t bits_of_one = std::bit_cast<uint64_t>(1.0);
  const uint64_t bin = (bits - bits_of_one) >> (kMantissaBits - kBinBits);
  return static_cast<size_t>(std::min<uint64_t>(bin, kBins - 1));
}

void WeightedHistogram::Add(double value, double weight) {
  Bin& bin = bins_[BinOf(value)];
  bin.largest = bin.weight > 0 ? std::max(bin.largest, value) : value;
  bin.weight += weight;
  total_weight_ += weight;
}

double WeightedHistogram::Quantile(double quantile) const {
  const double wanted_weight = quantile * total_weight_;
  double weight = 0;
  double last = 0;
  for (const Bin& bin : bins_) {
    if (bin.weight <= 0) continue;
    weight += bin.weight;
    last = bin.largest;
    if (weight >= wanted_weight) break;
  }
  return last;
}

}  // namespace firn::bench
