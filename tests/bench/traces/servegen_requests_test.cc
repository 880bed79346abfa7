// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_requests.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/servegen_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

constexpr int64_t kSecond = 1'000'000;

std::shared_ptr<const ServeGenFolder> Read(const std::string& path) {
  absl::StatusOr<ServeGenFolder> folder = ReadServeGenFolder(path);
  EXPECT_TRUE(folder.ok()) << folder.status();
  return std::make_shared<const ServeGenFolder>(*std::move(folder));
}

// Two clients, whose prompts tell them apart: 60 and 30 requests in ten
// minutes, then 30 of the first in the next ten.
std::shared_ptr<const ServeGenFolder> TwoClients() {
  return Read(WriteServeGenFolder({
      {"chunk-0-trace.csv", "0,0.1,2,Gamma,1,1\n600,0.05,2,Weibull,1,1\n"},
      {"chunk-0-dataset.json", LengthsFile("10: 1", "1: 1")},
      {"chunk-1-trace.csv", "0,0.05,1,Exponential,1,1\n600,0,0,,0,0\n"},
      {"chunk-1-dataset.json", LengthsFile("20: 1", "2: 1")},
  }));
}

struct Seen {
  int64_t time_us;
  uint32_t context_tokens;
  uint32_t generated_tokens;
  bool operator==(const Seen& other) const {
    return time_us == other.time_us && context_tokens == other.context_tokens &&
           generated_tokens == other.generated_tokens;
  }
};

std::vector<Seen> ReadAll(RequestSource* requests) {
  std::vector<Seen> all;
  Request request;
  int64_t time_us = 0;
  while (*requests->Next(&request)) {
    EXPECT_GE(request.time_us, time_us);
    time_us = request.time_us;
    all.push_back({time_us, request.context_tokens, request.generated_tokens});
  }
  EXPECT_FALSE(*requests->Next(&request)) << "the end is the end";
  return all;
}

TEST(ServeGenRequestsTest, MergesClientsInOrderOfTime) {
  ServeGenRequests requests(TwoClients(), 1200. / 86'400, 1, 1, 1);
  const std::vector<Seen> all = ReadAll(&requests);
  EXPECT_EQ(all.size(), 120u);
  size_t first = 0;
  size_t changes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    first += all[i].context_tokens == 10;
    EXPECT_EQ(all[i].generated_tokens, all[i].context_tokens / 10);
    changes += i > 0 && all[i].context_tokens != all[i - 1].context_tokens;
  }
  EXPECT_EQ(first, 90u);
  EXPECT_GT(changes, 5u);
}

TEST(ServeGenRequestsTest, RewindingGivesTheSame) {
  ServeGenRequests requests(TwoClients(), 0.1, 1, 1, 1);
  ServeGenRequests other(TwoClients(), 0.1, 1, 1, 2);
  const std::vector<Seen> all = ReadAll(&requests);
  ASSERT_TRUE(requests.Rewind().ok());
  EXPECT_TRUE(ReadAll(&requests) == all);
  EXPECT_FALSE(ReadAll(&other) == all);
}

TEST(ServeGenRequestsTest, PlaysShorterDataAgainWithoutASwing) {
  // Four days of twenty minutes of data: 120 requests a round throughout.
  ServeGenRequests requests(TwoClients(), 4, 1, 1, 1);
  const std::vector<Seen> all = ReadAll(&requests);
  EXPECT_EQ(all.size(), 4u * 72 * 120);
  std::vector<size_t> by_quarter(16);
  for (const Seen& seen : all) {
    ++by_quarter[static_cast<size_t>(seen.time_us / (21'600 * kSecond))];
  }
  EXPECT_THAT(by_quarter, ::testing::Each(18u * 120));
}

TEST(ServeGenRequestsTest, DilatingStretchesTheSameRequests) {
  ServeGenRequests plain(TwoClients(), 1200. / 86'400, 1, 1, 1);
  ServeGenRequests dilated(TwoClients(), 3600. / 86'400, 3, 1, 1);
  const std::vector<Seen> all = ReadAll(&plain);
  const std::vector<Seen> stretched = ReadAll(&dilated);
  ASSERT_EQ(all.size(), stretched.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(stretched[i].time_us),
                3 * static_cast<double>(all[i].time_us), 4);
  }
}

TEST(ServeGenRequestsTest, CutsLongerData) {
  ServeGenRequests requests(TwoClients(), 300. / 86'400, 1, 1, 1);
  ServeGenRequests longer(TwoClients(), 1200. / 86'400, 1, 1, 1);
  const std::vector<Seen> cut = ReadAll(&requests);
  std::vector<Seen> start = ReadAll(&longer);
  ASSERT_LT(cut.size(), start.size());
  EXPECT_GE(start[cut.size()].time_us, 300 * kSecond);
  start.resize(cut.size());
  EXPECT_TRUE(cut == start);
}

TEST(ServeGenRequestsTest, ADayOfTheRealFolderHasTheRequestsOfItsRates) {
  FIRN_PUBLIC_TRACE_OR_SKIP(path, "servegen/language/m-small");
  const auto folder = Read(path);
  EXPECT_EQ(folder->clients.size(), 38u);
  EXPECT_EQ(folder->span_s, 14 * 86'400);
  // Sums over the files of rate x 600 s.
  EXPECT_NEAR(ExpectedLoad(*folder, 14 * 86'400).requests, 613'549'778, 1);
  const ServeGenLoad day = ExpectedLoad(*folder, 86'400);
  EXPECT_NEAR(day.requests, 33'086'045, 1);
  ServeGenRequests requests(folder, 1, 1, 0.01, 1);
  const std::vector<Seen> all = ReadAll(&requests);
  const double count = static_cast<double>(all.size());
  EXPECT_NEAR(count, 330'860, 200);
  double tokens = 0;
  for (const Seen& seen : all) {
    tokens += seen.context_tokens + seen.generated_tokens;
  }
  EXPECT_NEAR(tokens / count, day.tokens / day.requests, 3);
}

}  // namespace
}  // namespace firn::bench
