// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The log of a pool; that it is read back is tested with the reader:
// tests/bench/traces/pool_snapshot_test.cc.

#include "firn/core/rmm_log.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_path.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::firn::testing::TemporaryPath;
using ::firn::testing::WithoutVirtualMemory;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kHeader[] = "Thread,Time,Action,Pointer,Size,Stream";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> ReadLines(const std::string& path) {
  return absl::StrSplit(ReadFile(path), '\n');
}

class RmmLogTest : public ::testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }
  const std::string path_ = TemporaryPath("rmm_log_test.csv");
};

TEST_F(RmmLogTest, AFileThatCannotBeWrittenIsNamed) {
  CpuDriverOptions driver;
  driver.device_bytes = 32 * kMiB;
  PoolOptions options;
  options.capacity_bytes = 16 * kMiB;
  options.rmm_log = "/no/such/folder/log.csv";
  const auto is_refused =
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("rmm_log"), HasSubstr("/no/such/folder/log.csv"),
                     HasSubstr("No such file")));
  EXPECT_THAT(PoolOnCpu::Create(driver, options).status(), is_refused);
  EXPECT_THAT(
      PoolOnCpu::Create(WithoutVirtualMemory(32 * kMiB), options).status(),
      is_refused);
}

TEST_F(RmmLogTest, LinesAreThoseOfTheEvents) {
  {
    FIRN_ASSERT_OK_AND_ASSIGN(auto log, RmmLog::Create(path_));
    EventRecord record;
    record.address = 0x7f00;
    record.bytes = 1024;
    record.stream = reinterpret_cast<StreamHandle>(uintptr_t{0x2a});
    log->Add(record);
    record.kind = HistoryKind::kFreeRequested;
    log->Add(record);
    record.kind = HistoryKind::kFreeCompleted;  // has no line
    log->Add(record);
    record.kind = HistoryKind::kMap;
    log->Add(record);
    record.kind = HistoryKind::kAllocateFailure;
    record.address = 0;
    log->Add(record);
    log->MaybeWrite();  // not yet
    EXPECT_EQ(ReadFile(path_), absl::StrCat(kHeader, "\n"));
  }
  const std::vector<std::string> lines = ReadLines(path_);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], kHeader);
  EXPECT_THAT(lines[1],
              ::testing::MatchesRegex("[0-9]+,[0-9][0-9]:[0-9][0-9]:[0-9][0-9]"
                                      "\\.[0-9]+,allocate,0x7f00,1024,0x2a"));
  EXPECT_THAT(lines[2], HasSubstr(",free,0x7f00,1024,0x2a"));
  EXPECT_THAT(lines[3], HasSubstr(",allocate failure,0x0,1024,0x2a"));
  EXPECT_EQ(lines[4], "");
}

TEST_F(RmmLogTest, IsWrittenWhileThePoolIsUsed) {
  CpuDriverOptions driver;
  driver.device_bytes = 32 * kMiB;
  for (const bool virtual_memory : {true, false}) {
    driver.virtual_memory = virtual_memory;
    PoolOptions options;
    options.capacity_bytes = 16 * kMiB;
    options.rmm_log = path_;
    FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Create(driver, options));
    for (int i = 0; i < 5000; ++i) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                                on_cpu->pool().Allocate(4 * kKiB));
      FIRN_ASSERT_OK(on_cpu->pool().Free(ptr));
    }
    EXPECT_GT(ReadLines(path_).size(), 4000u);
    on_cpu->DestroyPool();
    EXPECT_EQ(ReadLines(path_).size(), 10'002u);
  }
}

// Who frees a block logs it before anybody else can log it again.
TEST_F(RmmLogTest, LinesOfThreadsAreInOrder) {
  CpuDriverOptions driver;
  driver.device_bytes = 64 * kMiB;
  PoolOptions options;
  options.capacity_bytes = 32 * kMiB;
  options.rmm_log = path_;
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Create(driver, options));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&on_cpu] {
      for (int round = 0; round < 2000; ++round) {
        std::vector<void*> blocks;
        for (int n = 0; n < 3; ++n) {
          const absl::StatusOr<void*> ptr = on_cpu->pool().Allocate(4 * kKiB);
          FIRN_EXPECT_OK(ptr.status());
          if (ptr.ok()) blocks.push_back(*ptr);
        }
        for (void* const ptr : blocks) FIRN_EXPECT_OK(on_cpu->pool().Free(ptr));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  on_cpu->DestroyPool();
  const std::vector<std::string> lines = ReadLines(path_);
  EXPECT_EQ(lines.size(), 2 + 4 * 2000 * 6u);
  absl::flat_hash_set<std::string> live;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i], ',');
    ASSERT_EQ(fields.size(), 6u);
    if (fields[2] == "allocate") {
      EXPECT_TRUE(live.insert(fields[3]).second) << lines[i];
    } else {
      EXPECT_EQ(live.erase(fields[3]), 1u) << lines[i];
    }
  }
  EXPECT_TRUE(live.empty());
}

TEST_F(RmmLogTest, ADiskThatIsFullIsRefused) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  if (full == nullptr) GTEST_SKIP() << "there is no /dev/full";
  std::fclose(full);
  // Not even the header.
  EXPECT_THAT(RmmLog::Create("/dev/full").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("/dev/full: No space left")));
}

}  // namespace
}  // namespace firn
