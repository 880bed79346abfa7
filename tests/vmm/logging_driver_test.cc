// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/logging_driver.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/thread_ordinal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/all_driver_calls.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr DevicePtr kAddress = 0x7f0000200000;

// Answers with the numbers of the handles it is given; keeps nothing.
class EchoingDriver : public DriverWrapper {
 public:
  EchoingDriver() : DriverWrapper(nullptr) {}

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()>) override {
    return static_cast<DriverResult>(args.values[0]);
  }
};

TEST(LoggingDriverTest, ALineSpellsTheCallAndItsResult) {
  NotingDriver base;
  LoggingDriver driver(&base);
  EXPECT_EQ(driver.MemMap(kAddress, 2097152, 0, 5, 0), DriverResult::kSuccess);
  base.result = DriverResult::kOutOfMemory;
  EXPECT_EQ(driver.CtxSynchronize(), DriverResult::kOutOfMemory);
  base.result = static_cast<DriverResult>(12345);
  EXPECT_EQ(driver.MemRelease(5), static_cast<DriverResult>(12345));
  const std::string thread = absl::StrCat("t", ThisThreadOrdinal());
  EXPECT_EQ(driver.Format(),
            absl::StrCat("0 ", thread,
                         " cuMemMap(address=0x7f0000200000, bytes=2097152, "
                         "offset_bytes=0, handle=5, flags=0) = CUDA_SUCCESS\n",
                         "1 ", thread,
                         " cuCtxSynchronize() = CUDA_ERROR_OUT_OF_MEMORY (2)\n",
                         "2 ", thread,
                         " cuMemRelease(handle=5) = unknown result (12345)\n"));
}

TEST(LoggingDriverTest, RecordsHoldWhatWasCalled) {
  NotingDriver base;
  base.result = DriverResult::kNotReady;
  LoggingDriver driver(&base);
  EXPECT_THAT(driver.Records(), IsEmpty());
  driver.MemUnmap(kAddress, 4096);
  const std::vector<DriverCallRecord> records = driver.Records();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].sequence, 0u);
  EXPECT_EQ(records[0].thread, ThisThreadOrdinal());
  EXPECT_EQ(records[0].args.call, DriverCall::kMemUnmap);
  EXPECT_EQ(records[0].args.values[0], kAddress);
  EXPECT_EQ(records[0].args.values[1], 4096u);
  EXPECT_TRUE(records[0].has_returned);
  EXPECT_EQ(records[0].result, DriverResult::kNotReady);
}

TEST(LoggingDriverTest, EveryCallIsKept) {
  NotingDriver base;
  LoggingDriver driver(&base);
  for (const NamedDriverCall& call : AllDriverCalls()) call.make(driver);
  const std::vector<DriverCallRecord> records = driver.Records();
  ASSERT_EQ(records.size(), AllDriverCalls().size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].args.call, AllDriverCalls()[i].kind);
  }
}

TEST(LoggingDriverTest, OnlyTheLastCallsAreKeptOldestFirst) {
  EchoingDriver base;
  LoggingDriver driver(&base, 3);
  for (uint64_t handle = 0; handle < 8; ++handle) driver.MemRelease(handle);
  std::vector<uint64_t> sequences;
  for (const DriverCallRecord& record : driver.Records()) {
    sequences.push_back(record.sequence);
    EXPECT_EQ(record.args.values[0], record.sequence);
    EXPECT_EQ(static_cast<uint64_t>(record.result), record.sequence);
  }
  EXPECT_THAT(sequences, ElementsAre(5, 6, 7));
}

TEST(LoggingDriverTest, TheSinkGetsEachLineAlsoOfCallsThatAreNotKept) {
  NotingDriver base;
  std::vector<std::string> lines;
  LoggingDriver driver(
      &base, 1, [&lines](absl::string_view line) { lines.emplace_back(line); });
  driver.StreamQuery(nullptr);
  driver.CtxSynchronize();
  const std::string thread = absl::StrCat(" t", ThisThreadOrdinal(), " ");
  EXPECT_THAT(
      lines,
      ElementsAre(
          absl::StrCat("0", thread, "cuStreamQuery(stream=0) = CUDA_SUCCESS"),
          absl::StrCat("1", thread, "cuCtxSynchronize() = CUDA_SUCCESS")));
  EXPECT_EQ(driver.Format(), absl::StrCat(lines[1], "\n"));
}

TEST(LoggingDriverTest, TheSinkMayReadTheRecords) {
  NotingDriver base;
  size_t seen = 0;
  LoggingDriver* logging = nullptr;
  LoggingDriver driver(
      &base, 8, [&](absl::string_view) { seen = logging->Records().size(); });
  logging = &driver;
  driver.CtxSynchronize();
  EXPECT_EQ(seen, 1u);
}

// Reads the log while a call is being made, and makes another call.
class ReentrantDriver : public DriverWrapper {
 public:
  ReentrantDriver() : DriverWrapper(nullptr) {}
  LoggingDriver* log = nullptr;
  std::string seen;

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()>) override {
    if (args.call == DriverCall::kCtxSynchronize) {
      seen = log->Format();
      log->MemRelease(1);
    }
    return DriverResult::kSuccess;
  }
};

TEST(LoggingDriverTest, CallsThatAreStillBeingMadeAreSeenAsSuch) {
  ReentrantDriver base;
  LoggingDriver driver(&base);
  base.log = &driver;
  driver.CtxSynchronize();
  const std::string thread = absl::StrCat(" t", ThisThreadOrdinal(), " ");
  EXPECT_EQ(base.seen, absl::StrCat("0", thread, "cuCtxSynchronize() = ?\n"));
  EXPECT_EQ(
      driver.Format(),
      absl::StrCat("0", thread, "cuCtxSynchronize() = CUDA_SUCCESS\n", "1",
                   thread, "cuMemRelease(handle=1) = CUDA_SUCCESS\n"));
}

TEST(LoggingDriverTest, ACallThatWasPushedOutLeavesTheNewerOneAlone) {
  ReentrantDriver base;
  LoggingDriver driver(&base, 1);
  base.log = &driver;
  driver.CtxSynchronize();
  const std::vector<DriverCallRecord> records = driver.Records();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].args.call, DriverCall::kMemRelease);
}

TEST(LoggingDriverTest, CallsOfSeveralThreadsAreToldApart) {
  EchoingDriver base;
  constexpr size_t kThreads = 4;
  constexpr size_t kCallsPerThread = 500;
  Mutex mutex;
  std::set<std::string> lines;
  LoggingDriver driver(&base, kThreads * kCallsPerThread,
                       [&](absl::string_view line) {
                         const MutexLock lock(&mutex);
                         lines.emplace(line);
                       });
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&driver, i] {
      for (size_t call = 0; call < kCallsPerThread; ++call) {
        driver.MemRelease(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<DriverCallRecord> records = driver.Records();
  ASSERT_EQ(records.size(), kThreads * kCallsPerThread);
  std::set<std::pair<uint64_t, uint64_t>> threads_and_handles;
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].sequence, i);
    EXPECT_EQ(static_cast<uint64_t>(records[i].result),
              records[i].args.values[0]);
    EXPECT_EQ(lines.count(FormatDriverCallRecord(records[i])), 1u);
    threads_and_handles.emplace(records[i].thread, records[i].args.values[0]);
  }
  EXPECT_THAT(threads_and_handles, SizeIs(kThreads));
  EXPECT_EQ(lines.size(), records.size());
}

}  // namespace
}  // namespace firn::testing
