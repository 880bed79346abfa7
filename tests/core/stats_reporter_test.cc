// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports of a pool's statistics at a rhythm.

#include "firn/core/stats_reporter.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/pool.h"
#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::MakeFixedPool;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Keeps the reports, and lets a test wait for them.
class Log {
 public:
  void Add(absl::string_view text) {
    MutexLock lock(&mutex_);
    reports_.emplace_back(text);
    changed_.SignalAll();
  }
  std::function<void(absl::string_view)> sink() {
    return [this](absl::string_view text) { Add(text); };
  }
  void WaitFor(size_t count) {
    MutexLock lock(&mutex_);
    while (reports_.size() < count) changed_.Wait(&mutex_);
  }
  std::vector<std::string> reports() const {
    MutexLock lock(&mutex_);
    return reports_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> reports_ ABSL_GUARDED_BY(mutex_);
};

// What stands behind each name.
std::map<std::string, std::string> ValuesOf(const std::string& report,
                                            absl::string_view prefix) {
  std::map<std::string, std::string> values;
  for (const absl::string_view line :
       absl::StrSplit(report, '\n', absl::SkipEmpty())) {
    EXPECT_THAT(std::string(line), StartsWith(std::string(prefix)));
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line.substr(prefix.size()), absl::MaxSplits(": ", 1));
    EXPECT_TRUE(values.insert(parts).second) << line;
  }
  return values;
}

class StatsReporterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, PoolOnCpu::Ghost(64 * kMiB));
    options_.interval = absl::InfiniteDuration();
    options_.pool_name = "kv";
    options_.sink = log_.sink();
  }
  Pool& pool() { return on_cpu_->pool(); }
  std::unique_ptr<StatsReporter> MustStart() {
    auto reporter = StatsReporter::Start(&pool(), options_);
    FIRN_EXPECT_OK(reporter.status());
    return reporter.ok() ? *std::move(reporter) : nullptr;
  }

  Log log_;  // outlives the reporters
  std::unique_ptr<PoolOnCpu> on_cpu_;
  StatsReporterOptions options_;
};

TEST_F(StatsReporterTest, AnIntervalThatIsNoneIsRefusedByName) {
  for (const absl::Duration interval :
       {absl::ZeroDuration(), absl::Seconds(-1), -absl::InfiniteDuration()}) {
    options_.interval = interval;
    EXPECT_THAT(
        StatsReporter::Start(&pool(), options_).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("interval: ")));
  }
  options_.interval = absl::Seconds(1);
  EXPECT_THAT(
      StatsReporter::Start(nullptr, options_).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pool: ")));
  EXPECT_THAT(log_.reports(), IsEmpty());
}

TEST_F(StatsReporterTest, CountersComeWithTheirGrowth) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* const first, pool().Allocate(100 * kKiB));
  const auto reporter = MustStart();
  FIRN_ASSERT_OK_AND_ASSIGN(void* const second, pool().Allocate(50 * kKiB));
  EXPECT_FALSE(pool().Allocate(kMiB * 100).ok());
  reporter->ReportNow();
  FIRN_ASSERT_OK(pool().Free(first));
  FIRN_ASSERT_OK(pool().Free(second));
  FIRN_ASSERT_OK(pool().Compact().status());
  reporter->ReportNow();
  reporter->ReportNow();
  const std::vector<std::string> reports = log_.reports();
  ASSERT_THAT(reports, SizeIs(3));
  EXPECT_THAT(reports[0], AllOf(StartsWith("firn[kv] report 1, "),
                                HasSubstr(" after the start\n")));
  EXPECT_THAT(reports[1], AllOf(StartsWith("firn[kv] report 2, "),
                                HasSubstr(" after the last one\n")));
  auto values = ValuesOf(reports[0], "firn[kv] ");
  EXPECT_EQ(values["live_bytes"], "153600");
  EXPECT_EQ(values["allocations"], "2 (+1)");
  EXPECT_EQ(values["frees"], "0 (+0)");
  EXPECT_EQ(values["failed_allocations"], "1 (+1)");
  EXPECT_EQ(values["compaction_passes"], "0 (+0)");
  EXPECT_EQ(values["moving"], "yes");
  EXPECT_EQ(values["fragmentation live_blocks"], "2");
  EXPECT_EQ(values["fragmentation live_sizes up to 65536"],
            "pieces 1, sum_bytes 51200");
  values = ValuesOf(reports[1], "firn[kv] ");
  EXPECT_EQ(values["live_bytes"], "0");
  EXPECT_EQ(values["allocations"], "2 (+0)");
  EXPECT_EQ(values["frees"], "2 (+2)");
  EXPECT_EQ(values["failed_allocations"], "1 (+0)");
  EXPECT_EQ(values["compaction_passes"], "1 (+1)");
  values = ValuesOf(reports[2], "firn[kv] ");
  EXPECT_EQ(values["frees"], "2 (+0)");
  EXPECT_EQ(values["compaction_passes"], "1 (+0)");
}

TEST_F(StatsReporterTest, FragmentationCanBeLeftOut) {
  options_.with_fragmentation = false;
  MustStart()->ReportNow();
  ASSERT_THAT(log_.reports(), SizeIs(1));
  EXPECT_THAT(log_.reports()[0],
              AllOf(HasSubstr("held_bytes"), Not(HasSubstr("fragmentation"))));
}

TEST_F(StatsReporterTest, EveryLineHasTheNameOfThePoolWhateverThatIs) {
  options_.pool_name = "a\n\"b\"\xFF";
  MustStart()->ReportNow();
  ASSERT_THAT(log_.reports(), SizeIs(1));
  const std::vector<std::string> lines =
      absl::StrSplit(log_.reports()[0], '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, SizeIs(::testing::Gt(60)));
  EXPECT_THAT(lines, Each(StartsWith("firn[a\\n\\\"b\\\"")));
}

TEST_F(StatsReporterTest, AReportComesEveryInterval) {
  options_.interval = absl::Milliseconds(5);
  const absl::Time start = absl::Now();
  const auto reporter = MustStart();
  log_.WaitFor(4);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
}

TEST_F(StatsReporterTest, TheEndDoesNotWaitForTheInterval) {
  for (const absl::Duration interval :
       {absl::Hours(24), absl::Hours(24 * 365 * 1000),
        absl::InfiniteDuration()}) {
    options_.interval = interval;
    const absl::Time start = absl::Now();
    MustStart();
    EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  }
  EXPECT_THAT(log_.reports(), IsEmpty());
}

TEST_F(StatsReporterTest, TheSinkMayUseThePoolAndAskForAReport) {
  StatsReporter* reporter = nullptr;
  options_.sink = [&](absl::string_view text) {
    log_.Add(text);
    const absl::StatusOr<void*> ptr = pool().Allocate(3 * kMiB);
    FIRN_EXPECT_OK(ptr.status());
    FIRN_EXPECT_OK(pool().Free(*ptr));
    FIRN_EXPECT_OK(pool().Compact().status());
    reporter->ReportNow();
  };
  const auto owned = MustStart();
  reporter = owned.get();
  reporter->ReportNow();
  reporter->ReportNow();
  ASSERT_THAT(log_.reports(), SizeIs(2));
  // What the sink did counts for the next report.
  EXPECT_THAT(log_.reports()[1], HasSubstr("allocations: 1 (+1)\n"));
}

TEST_F(StatsReporterTest, TwoReportersCountByThemselves) {
  const auto first = MustStart();
  FIRN_ASSERT_OK(pool().Allocate(kMiB).status());
  Log log;
  options_.sink = log.sink();
  const auto second = MustStart();
  FIRN_ASSERT_OK(pool().Allocate(kMiB).status());
  second->ReportNow();
  first->ReportNow();
  ASSERT_THAT(log_.reports(), SizeIs(1));
  EXPECT_THAT(log_.reports()[0], HasSubstr("allocations: 2 (+2)\n"));
  ASSERT_THAT(log.reports(), SizeIs(1));
  EXPECT_THAT(log.reports()[0], HasSubstr("allocations: 2 (+1)\n"));
}

TEST_F(StatsReporterTest, WithoutASinkItGoesToStderr) {
  options_.sink = nullptr;
  ::testing::internal::CaptureStderr();
  MustStart()->ReportNow();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(StartsWith("firn[kv] report 1, "),
                    HasSubstr("\nfirn[kv] used_bytes: 0\n"),
                    ::testing::EndsWith("\n")));
}

TEST_F(StatsReporterTest, APoolThatNeverMovesReportsToo) {
  FIRN_ASSERT_OK_AND_ASSIGN(const auto fixed, MakeFixedPool(64 * kMiB));
  FIRN_ASSERT_OK(fixed->pool().Allocate(kMiB).status());
  FIRN_ASSERT_OK_AND_ASSIGN(const auto reporter,
                            StatsReporter::Start(&fixed->pool(), options_));
  reporter->ReportNow();
  ASSERT_THAT(log_.reports(), SizeIs(1));
  EXPECT_THAT(log_.reports()[0],
              AllOf(HasSubstr("moving: no\n"),
                    HasSubstr("fragmentation requested_bytes: 1048576\n")));
}

// --- Threads ---

// Until it is opened nobody passes.
class Gate {
 public:
  void Open() { is_open_.store(true); }
  void Wait() const {
    while (!is_open_.load()) std::this_thread::yield();
  }

 private:
  std::atomic<bool> is_open_{false};
};

TEST_F(StatsReporterTest, TheEndWaitsForASinkThatIsUnderWay) {
  Gate entered;
  Gate leave;
  std::atomic<int> left{0};
  options_.interval = absl::Milliseconds(1);
  options_.sink = [&](absl::string_view) {
    entered.Open();
    leave.Wait();
    ++left;
  };
  auto reporter = MustStart();
  entered.Wait();
  std::atomic<bool> is_gone{false};
  std::thread end([&] {
    reporter.reset();
    is_gone.store(true);
  });
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(is_gone.load());
  leave.Open();
  end.join();
  // None comes afterwards.
  const int left_at_end = left.load();
  EXPECT_GE(left_at_end, 1);
  absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(left.load(), left_at_end);
}

TEST_F(StatsReporterTest, ASlowSinkHoldsUpNobodyInThePool) {
  Gate entered;
  Gate leave;
  options_.interval = absl::Milliseconds(1);
  options_.sink = [&](absl::string_view) {
    entered.Open();
    leave.Wait();
  };
  const auto reporter = MustStart();
  entered.Wait();
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(3 * kMiB));
  FIRN_EXPECT_OK(pool().Free(ptr));
  FIRN_EXPECT_OK(pool().Compact().status());
  EXPECT_EQ(pool().GetStats().allocations, 1u);
  leave.Open();
}

TEST_F(StatsReporterTest, ReportsOfSeveralThreadsComeOneByOneAndAddUp) {
  std::atomic<int> inside{0};
  options_.interval = absl::Microseconds(100);
  options_.with_fragmentation = false;
  options_.sink = [&](absl::string_view text) {
    EXPECT_EQ(++inside, 1);
    log_.Add(text);
    --inside;
  };
  auto reporter = MustStart();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const absl::StatusOr<void*> ptr = pool().Allocate(i % 2 ? 1000 : kMiB);
        FIRN_EXPECT_OK(ptr.status());
        FIRN_EXPECT_OK(pool().Free(*ptr));
        reporter->ReportNow();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  reporter->ReportNow();
  reporter.reset();
  uint64_t grown = 0;
  uint64_t last = 0;
  for (const std::string& report : log_.reports()) {
    const std::string line = ValuesOf(report, "firn[kv] ")["allocations"];
    uint64_t growth = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lu (+%lu)", &last, &growth), 2)
        << line;
    grown += growth;
    ASSERT_EQ(grown, last);
  }
  EXPECT_EQ(last, 200u);
}

}  // namespace
}  // namespace firn
