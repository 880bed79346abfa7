// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_arrivals.h"

#include <algorithm>

#include "bench/traces/random_variates.h"

namespace firn::bench {
namespace {

// Purposes of draws for one window.
enum Purpose : uint64_t { kDrawCount = 1, kDrawGaps, kDrawLengths };

// Sets clients' draws apart from all others of the same seed.
constexpr uint64_t kDrawClient = 0x5e7e6e;

}  // namespace

ServeGenArrivals::ServeGenArrivals(const ServeGenClient* client, double span_s,
                                   double end_s, double share, uint64_t seed)
    : client_(*client),
      span_s_(span_s),
      end_s_(end_s),
      share_(share),
      seed_(HashedDraw(seed, client->number, kDrawClient)) {}

bool ServeGenArrivals::Next() {
  while (left_ == 0) {
    window_ = next_window_;
    if (round_start_s() + window().start_s >= end_s_) return false;
    ++next_window_;
    StartWindow();
  }
  const double window_s =
      std::min(window().start_s + offset_ * scale_, window().end_s);
  // Rounding must not set back the clock where a round ends.
  time_s_ = std::max(time_s_, round_start_s() + window_s);
  input_tokens_ = lengths_->input.At(length_draws_.Fraction());
  output_tokens_ = lengths_->output.At(length_draws_.Fraction());
  if (--left_ == 0) return true;
  // The gap that the cut fell into is the one around the window's ends.
  if (gap_++ == cut_gap_) {
    DrawGap(&gaps_);
    ++gap_;
  }
  offset_ += DrawGap(&gaps_);
  return true;
}

void ServeGenArrivals::StartWindow() {
  SeededRandom draws(HashedDraw(seed_, window_, kDrawCount));
  left_ = static_cast<uint64_t>(window().requests * share_ + draws.Fraction());
  if (left_ == 0) return;
  gaps_ = SeededRandom(HashedDraw(seed_, window_, kDrawGaps));
  length_draws_ = SeededRandom(HashedDraw(seed_, window_, kDrawLengths));
  lengths_ = &client_.LengthsAt(window().start_s);
  // One pass over the gaps to learn their sum and to choose where to cut: in
  // each with a probability as large as it is. The same ones follow in Next.
  SeededRandom measured = gaps_;
  double total = 0;
  double cut_length = 0;
  cut_gap_ = 0;
  for (uint64_t i = 0; i < left_; ++i) {
    const double gap = DrawGap(&measured);
    total += gap;
    if (draws.Fraction() * total < gap) {
      cut_gap_ = i;
      cut_length = gap;
    }
  }
  // Where all gaps are too small for a double, all requests come at once.
  if (total == 0) total = cut_length = 1;
  gap_ = 0;
  offset_ = draws.Fraction() * cut_length;
  scale_ = (window().end_s - window().start_s) / total;
}

double ServeGenArrivals::DrawGap(SeededRandom* random) const {
  const uint64_t gaps = DrawTries(share_, random);
  return window().gaps.DrawSum(gaps, random);
}

void ServeGenArrivals::Rewind() {
  next_window_ = 0;
  left_ = 0;
  time_s_ = 0;
}

}  // namespace firn::bench
