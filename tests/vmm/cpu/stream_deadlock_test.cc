// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Waiting for all work gives up where it would wait for ever, and says why.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/cpu/stream_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

cpu::StreamSetOptions Timeouts(absl::Duration parked, absl::Duration deadlock) {
  cpu::StreamSetOptions options;
  options.device_count = 2;
  options.parked_timeout = parked;
  options.deadlock_timeout = deadlock;
  return options;
}

// Whatever waits is found out soon, whatever runs is not.
class ParkedStreamsTest : public StreamScene {
 protected:
  ParkedStreamsTest()
      : StreamScene(Timeouts(absl::Milliseconds(50), absl::Hours(1))) {}
};

TEST_F(ParkedStreamsTest, AnIdleSetIsDrainedAtOnce) {
  EXPECT_EQ(streams_.Drain(), "");
  Log(NewStream(), "work");
  EXPECT_EQ(streams_.Drain(), "");
  EXPECT_TRUE(streams_.IsIdle());
}

TEST_F(ParkedStreamsTest, AStreamThatWaitsForAValueIsNamedWithIt) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, /*device=*/1);
  Log(stream, "before", /*device=*/1);
  WaitForFlag(stream, /*device=*/1);
  Log(stream, "after", /*device=*/1);
  EXPECT_EQ(streams_.Drain(),
            absl::StrCat("stream ", IdOf(stream),
                         " (device 1), operation 2 of 3 (value wait): waits "
                         "for the flag"));
}

TEST_F(ParkedStreamsTest,
       StreamsThatWaitForOthersAreNamedAfterWhatTheyWaitFor) {
  // The first to be created is the last to be told: it waits for others.
  const StreamHandle last = NewStream();
  const StreamHandle middle = NewStream();
  const StreamHandle root = NewStream();
  const EventHandle events[] = {NewEvent(), NewEvent()};
  WaitForFlag(root);
  Record(events[0], root);
  Wait(middle, events[0]);
  Record(events[1], middle);
  Wait(last, events[1]);
  Log(last, "last");
  EXPECT_EQ(
      streams_.Drain(),
      absl::StrCat("stream ", IdOf(root),
                   " (device 0), operation 1 of 1 (value wait): waits for the "
                   "flag; stream ",
                   IdOf(last),
                   " (device 0), operation 1 of 2 (event wait): waits for "
                   "stream ",
                   IdOf(middle), "; stream ", IdOf(middle),
                   " (device 0), operation 1 of 1 (event wait): waits for "
                   "stream ",
                   IdOf(root)));
}

TEST_F(ParkedStreamsTest, TheLegacyStreamIsNamedWhenItWaitsForABlockingOne) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  WaitForFlag(blocking);
  Log(nullptr, "legacy");
  EXPECT_THAT(streams_.Drain(),
              HasSubstr(absl::StrCat("stream ", IdOf(nullptr),
                                     " (device 0), operation 1 of 1 (kernel): "
                                     "waits for stream ",
                                     IdOf(blocking))));
}

TEST_F(ParkedStreamsTest, AStreamThatWasDestroyedIsNamedAsWell) {
  const StreamHandle stream = NewStream();
  const uint64_t id = IdOf(stream);
  WaitForFlag(stream);
  ASSERT_EQ(streams_.Destroy(stream).result, kOk);
  EXPECT_THAT(streams_.Drain(), StartsWith(absl::StrCat("stream ", id, " ")));
}

TEST_F(ParkedStreamsTest, WorkGoesOnAfterTheReport) {
  const StreamHandle stream = NewStream();
  WaitForFlag(stream);
  Log(stream, "after");
  EXPECT_NE(streams_.Drain(), "");
  flag_.store(true);
  EXPECT_EQ(streams_.Drain(), "");
  EXPECT_EQ(streams_.Query(0, stream).result, kOk);
}

TEST_F(ParkedStreamsTest, WorkThatDrainsIsADeadlockWithItself) {
  const StreamHandle stream = NewStream();
  std::string report;
  ASSERT_EQ(Enqueue(stream, [&] { report = streams_.Drain(); }), kOk);
  Synchronize(stream);
  EXPECT_EQ(report,
            absl::StrCat("stream ", IdOf(stream),
                         " (device 0), operation 1 of 1 (kernel): waits in a "
                         "call of the driver that it makes itself"));
}

TEST_F(ParkedStreamsTest, ADrainBesideWorkThatDrainsEndsToo) {
  Gate started;
  std::string report;
  ASSERT_EQ(Enqueue(NewStream(),
                    [&] {
                      started.Open();
                      report = streams_.Drain();
                    }),
            kOk);
  started.Pass();
  // Ends with the inner one, or as it does.
  const std::string outer = streams_.Drain();
  EXPECT_EQ(streams_.SynchronizeContext(0).result, kOk);
  EXPECT_THAT(report, HasSubstr("that it makes itself"));
  if (!outer.empty()) {
    EXPECT_THAT(outer, HasSubstr("that it makes itself"));
  }
}

TEST_F(ParkedStreamsTest, RunningWorkThatEndsIsNoDeadlock) {
  // Parked streams are not reported while one runs that may help them.
  const StreamHandle runs = NewStream();
  WaitForFlag(NewStream());
  Gate started;
  ASSERT_EQ(Enqueue(runs,
                    [&] {
                      started.Open();
                      gate_.Pass();
                      flag_.store(true);
                    }),
            kOk);
  started.Pass();
  std::string report = "none";
  std::atomic<bool> drained{false};
  std::thread drainer([&] {
    report = streams_.Drain();
    drained.store(true);
  });
  // Longer than what is parked may be; a report would be there by then.
  absl::SleepFor(absl::Milliseconds(150));
  EXPECT_FALSE(drained.load());
  gate_.Open();
  drainer.join();
  EXPECT_EQ(report, "");
}

// Whatever waits is given time.
class PatientDrainTest : public StreamScene {
 protected:
  PatientDrainTest()
      : StreamScene(Timeouts(absl::Minutes(10), absl::Minutes(10))) {}
};

TEST_F(PatientDrainTest, AnotherThreadMayStillWriteTheValues) {
  constexpr int kWaits = 50;
  const StreamHandle stream = NewStream();
  std::atomic<int> allowed{0};
  std::atomic<int> passed{0};
  for (int i = 1; i <= kWaits; ++i) {
    cpu::StreamWork work;
    work.ready = [&, i](uint64_t) { return allowed.load() >= i; };
    work.run = [&](const cpu::WorkOrder&) { ++passed; };
    ASSERT_EQ(streams_.Enqueue(0, stream, std::move(work)).result, kOk);
  }
  std::thread writer([&] {
    for (int i = 1; i <= kWaits; ++i) {
      allowed.store(i);
      while (passed.load() < i) std::this_thread::yield();
    }
  });
  EXPECT_EQ(streams_.Drain(), "");
  EXPECT_EQ(passed.load(), kWaits);
  writer.join();
}

class EndlessWorkTest : public StreamScene {
 protected:
  EndlessWorkTest()
      : StreamScene(Timeouts(absl::Milliseconds(20), absl::Milliseconds(50))) {}
};

TEST_F(EndlessWorkTest, WorkThatRunsAndDoesNotEndIsNamed) {
  const StreamHandle stream = NewStream();
  HoldUp(stream);
  EXPECT_EQ(streams_.Drain(),
            absl::StrCat("stream ", IdOf(stream),
                         " (device 0), operation 1 of 1 (kernel): runs and "
                         "does not end"));
}

TEST_F(EndlessWorkTest, WorkElsewhereDoesNotPutTheEndOff) {
  const StreamHandle stuck = NewStream();
  const StreamHandle busy = NewStream();
  WaitForFlag(stuck);
  std::atomic<bool> stop{false};
  std::atomic<bool> gave_up{false};
  Gate started;
  std::thread worker([&] {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (!stop.load() && !gave_up.load()) {
      EXPECT_EQ(Enqueue(busy, [] { absl::SleepFor(absl::Milliseconds(1)); }),
                kOk);
      Synchronize(busy);
      started.Open();
      if (absl::Now() > end) gave_up.store(true);
    }
  });
  started.Pass();
  const std::string report = streams_.Drain();
  EXPECT_FALSE(gave_up.load());
  stop.store(true);
  worker.join();
  // The other stream is not what it waits for.
  EXPECT_EQ(report,
            absl::StrCat("stream ", IdOf(stuck),
                         " (device 0), operation 1 of 1 (value wait): waits "
                         "for the flag"));
}

TEST_F(EndlessWorkTest, ADrainForParkedWorkLetsWorkRunAsLongAsItLikes) {
  HoldUp(NewStream());
  const StreamHandle waits = NewStream();
  WaitForFlag(waits);
  std::string report;
  std::atomic<bool> drained{false};
  std::thread drainer([&] {
    report = streams_.DrainParked();
    drained.store(true);
  });
  // Several times what either rule of Drain() allows.
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(drained.load());
  gate_.Open();
  drainer.join();
  EXPECT_EQ(report,
            absl::StrCat("stream ", IdOf(waits),
                         " (device 0), operation 1 of 1 (value wait): waits "
                         "for the flag"));
}

TEST_F(EndlessWorkTest, ADrainForParkedWorkWaitsForWorkThatWorkQueues) {
  const StreamHandle stream = NewStream();
  ASSERT_EQ(Enqueue(stream,
                    [&] {
                      gate_.Pass();
                      Enqueue(stream,
                              [] { absl::SleepFor(absl::Milliseconds(100)); });
                    }),
            kOk);
  std::thread drainer([&] {
    EXPECT_EQ(streams_.DrainParked(), "");
    EXPECT_TRUE(streams_.IsIdle());
  });
  absl::SleepFor(absl::Milliseconds(20));
  gate_.Open();
  drainer.join();
}

// Exits with 0 if the process could be stopped without a false report. The work
// takes less time than it may, but for the stop.
void DrainWhileStopped() {
  cpu::StreamSet streams(Timeouts(absl::Hours(1), absl::Milliseconds(700)));
  cpu::StreamWork work;
  work.run = [](const cpu::WorkOrder&) {
    for (int i = 0; i < 20; ++i) absl::SleepFor(absl::Milliseconds(10));
  };
  EXPECT_EQ(streams.Enqueue(0, nullptr, std::move(work)).result, kOk);
  const pid_t drainer = getpid();
  const pid_t stopper = fork();
  if (stopper == 0) {
    usleep(100'000);
    kill(drainer, SIGSTOP);
    usleep(900'000);
    kill(drainer, SIGCONT);
    _exit(0);
  }
  const absl::Time start = absl::Now();
  const std::string report = streams.Drain();
  const bool was_stopped = absl::Now() - start > absl::Milliseconds(800);
  int status = 0;
  waitpid(stopper, &status, 0);
  _exit(report.empty() && was_stopped ? 0 : 1);
}

TEST(StoppedProcessTest, TimeThatDidNotPassForTheProcessDoesNotCount) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(DrainWhileStopped(), ::testing::ExitedWithCode(0), "");
}

TEST(DefaultDeadlockTest, AParkedStreamIsReportedWithinASecond) {
  std::atomic<bool> flag{false};
  cpu::StreamSet streams{cpu::StreamSetOptions()};
  cpu::StreamWork work;
  work.ready = [&](uint64_t) { return flag.load(); };
  work.waits_for = "a flag";
  ASSERT_EQ(streams.Enqueue(0, nullptr, std::move(work)).result, kOk);
  const absl::Time start = absl::Now();
  EXPECT_THAT(streams.Drain(), HasSubstr("waits for a flag"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
  flag.store(true);
}

}  // namespace
}  // namespace firn::cpu_testing
