// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_sample.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsSubsetOf;

// `count` requests of 16 tokens and hence 2 events, a microsecond apart, each
// with its number as its piece's name. Counts how often they are read.
class CountedRequests : public RequestSource {
 public:
  CountedRequests(int64_t count, int* reads) : count_(count), reads_(reads) {}

  absl::StatusOr<bool> Next(Request* request) override {
    if (next_ == 0) ++*reads_;
    if (next_ == count_) return false;
    request->time_us = next_++;
    request->context_tokens = 16;
    request->prefix_pieces = {static_cast<uint64_t>(request->time_us)};
    return true;
  }
  absl::Status Rewind() override {
    next_ = 0;
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  int64_t next_ = 0;
  int* const reads_;
};

KvOptions Options(uint64_t events) {
  KvOptions options;
  options.events = events;
  return options;
}

std::unique_ptr<KvSample> Sample(int64_t count, const KvOptions& options,
                                 int* reads) {
  absl::StatusOr<std::unique_ptr<KvSample>> sample = KvSample::Create(
      std::make_unique<CountedRequests>(count, reads), options);
  EXPECT_TRUE(sample.ok()) << sample.status();
  return *std::move(sample);
}

std::vector<int64_t> Times(KvSample* sample) {
  std::vector<int64_t> times_us;
  Request request;
  while (*sample->Next(&request)) {
    times_us.push_back(request.time_us);
    EXPECT_THAT(request.prefix_pieces, ElementsAre(request.time_us));
  }
  return times_us;
}

TEST(KvSampleTest, AShareKeepsOrderAndContents) {
  int reads = 0;
  const auto sample = Sample(10'000, Options(20'000), &reads);
  EXPECT_EQ(sample->most_events(), 20'000);
  EXPECT_EQ(Times(sample.get()).size(), 10'000u);
  FIRN_ASSERT_OK(sample->SetShare(0.3));
  const std::vector<int64_t> times_us = Times(sample.get());
  EXPECT_NEAR(static_cast<double>(times_us.size()), 3'000, 150);
  EXPECT_TRUE(std::is_sorted(times_us.begin(), times_us.end()));
  FIRN_ASSERT_OK(sample->Rewind());
  EXPECT_EQ(Times(sample.get()), times_us);
}

TEST(KvSampleTest, AGreaterShareHasAllRequestsOfASmallerOne) {
  int reads = 0;
  const auto sample = Sample(2'000, Options(400), &reads);
  FIRN_ASSERT_OK(sample->SetShare(0.5));
  const std::vector<int64_t> half = Times(sample.get());
  FIRN_ASSERT_OK(sample->SetShare(0.01));
  EXPECT_THAT(Times(sample.get()), IsSubsetOf(half));
}

TEST(KvSampleTest, WhatTheTargetCanNeedIsReadOnce) {
  int reads = 0;
  const auto sample = Sample(100'000, Options(2'000), &reads);
  // Twice the target, 2000 requests, at the least; twice that at the most.
  EXPECT_GT(sample->kept_share(), 0.019);
  EXPECT_LT(sample->kept_share(), 0.042);
  EXPECT_EQ(sample->most_events(), 200'000);
  FIRN_ASSERT_OK(sample->SetShare(0.01));
  EXPECT_NEAR(static_cast<double>(Times(sample.get()).size()), 1'000, 100);
  EXPECT_EQ(reads, 1);
}

TEST(KvSampleTest, MemoryAndSourceGiveTheSameRequests) {
  int reads = 0;
  const auto small = Sample(100'000, Options(2'000), &reads);
  const auto large = Sample(100'000, Options(200'000), &reads);
  FIRN_ASSERT_OK(small->SetShare(0.1));
  FIRN_ASSERT_OK(large->SetShare(0.1));
  EXPECT_EQ(Times(small.get()), Times(large.get()));
  EXPECT_EQ(reads, 3);
}

TEST(KvSampleTest, AnotherSeedDrawsOthers) {
  int reads = 0;
  KvOptions options = Options(2'000);
  const auto one = Sample(10'000, options, &reads);
  options.seed = 2;
  const auto two = Sample(10'000, options, &reads);
  FIRN_ASSERT_OK(one->SetShare(0.05));
  FIRN_ASSERT_OK(two->SetShare(0.05));
  EXPECT_NE(Times(one.get()), Times(two.get()));
}

TEST(KvSampleTest, ReturnsTheErrorOfItsSource) {
  class Broken : public RequestSource {
   public:
    absl::StatusOr<bool> Next(Request*) override {
      return absl::InvalidArgumentError("line 7");
    }
    absl::Status Rewind() override { return absl::OkStatus(); }
  };
  EXPECT_THAT(KvSample::Create(std::make_unique<Broken>(), Options(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, "line 7"));
}

}  // namespace
}  // namespace firn::bench
