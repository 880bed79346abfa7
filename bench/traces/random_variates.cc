// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/random_variates.h"

#include <cmath>

namespace firn::bench {
namespace {

constexpr double kPi = 3.14159265358979323846;

// In (0, 1], so that it has a logarithm.
double PositiveFraction(SeededRandom* random) { return 1 - random->Fraction(); }

}  // namespace

double DrawNormal(SeededRandom* random) {
  const double radius = std::sqrt(-2 * std::log(PositiveFraction(random)));
  return radius * std::cos(2 * kPi * random->Fraction());
}

double DrawGamma(double shape, SeededRandom* random) {
  if (shape < 1) {
    // U^(1/shape) brings a draw of shape + 1 down to one of shape.
    const double drawn = DrawGamma(shape + 1, random);
    return drawn * std::exp(std::log(PositiveFraction(random)) / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = DrawNormal(random);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    // The first test accepts nearly all without a logarithm.
    const double u = PositiveFraction(random);
    const double x2 = x * x;
    if (u < 1 - 0.0331 * x2 * x2 ||
        std::log(u) < x2 / 2 + d * (1 - v + std::log(v))) {
      return d * v;
    }
  }
}

uint64_t DrawTries(double share, SeededRandom* random) {
  if (share >= 1) return 1;
  // No more than 10^18, whatever the share.
  const double misses = std::log(PositiveFraction(random)) / std::log1p(-share);
  return 1 + static_cast<uint64_t>(std::fmin(misses, 1e18));
}

}  // namespace firn::bench
