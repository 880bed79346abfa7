// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The requests of one ServeGen client, drawn window by window.

#ifndef FIRN_BENCH_TRACES_SERVEGEN_ARRIVALS_H_
#define FIRN_BENCH_TRACES_SERVEGEN_ARRIVALS_H_

#include <cstddef>
#include <cstdint>

#include "bench/traces/seeded_random.h"
#include "bench/traces/servegen_folder.h"

namespace firn::bench {

// In each window a client sends as many requests as recorded: rate x length,
// rounded down or up at random so that the mean is right. As many gaps are
// drawn from the window's distribution and laid around a circle, scaled to the
// window's length; the circle is cut at a random point, which is the window's
// start and end. So the process is stationary within the window, with the CV as
// given while the requests are many.
//
// Of the requests the share `share` is drawn evenly: as many as that share of
// those recorded, rounded likewise, a geometric number of gaps apart.
//
// Lengths of prompt and answer are drawn independently, from the histograms of
// the last window of lengths that has begun.
//
// The data are played again and again, drawn anew each time. Draws depend on
// the seed, the client's number, the window and the round alone. Constant
// memory. Thread safety: none.
class ServeGenArrivals {
 public:
  // `client` must outlive this; `span_s` is that of its folder. Ends with the
  // window that holds `end_s`.
  ServeGenArrivals(const ServeGenClient* client, double span_s, double end_s,
                   double share, uint64_t seed);

  // Moves to the next request, in order of time; false at the end.
  bool Next();
  void Rewind();

  // Of the current request, in seconds since the start of the data.
  double time_s() const { return time_s_; }
  uint32_t input_tokens() const { return input_tokens_; }
  uint32_t output_tokens() const { return output_tokens_; }

 private:
  // Draws the window numbered `window_`: how many requests and how their gaps
  // are scaled.
  void StartWindow();
  double DrawGap(SeededRandom* random) const;
  const RateWindow& window() const {
    return client_.rates[window_ % client_.rates.size()];
  }
  double round_start_s() const {
    return span_s_ * static_cast<double>(window_ / client_.rates.size());
  }

  const ServeGenClient& client_;
  const double span_s_;
  const double end_s_;
  const double share_;
  const uint64_t seed_;  // the client's own

  uint64_t next_window_ = 0;  // counts through the rounds
  uint64_t window_ = 0;       // the current one
  const LengthWindow* lengths_ = nullptr;
  uint64_t left_ = 0;     // requests of the window still to come
  uint64_t gap_ = 0;      // number of the next gap on the circle
  uint64_t cut_gap_ = 0;  // number of the one that the cut falls into
  double offset_ = 0;     // of the next request from the cut, before scaling
  double scale_ = 0;      // seconds a unit
  SeededRandom gaps_{0};
  SeededRandom length_draws_{0};

  double time_s_ = 0;
  uint32_t input_tokens_ = 0;
  uint32_t output_tokens_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SERVEGEN_ARRIVALS_H_
