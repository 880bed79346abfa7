// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/rmm_export.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/replay/event_list.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_path.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

std::string TestFile(const std::string& name) {
  return ::firn::testing::TemporaryPath(name);
}

std::string ReadFile(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(RmmExportTest, WritesOneLineAnEvent) {
  TraceEvent late_free = Free(90'061'000'007, 0, 512);  // 25:01:01.000007
  late_free.stream = 0x1f;
  late_free.thread = 3;
  EventList trace({Alloc(0, 0, 512), Alloc(1'500'000, 2, 1'000'000),
                   Probe(1'500'001), UnknownFree(1'500'002, 64), late_free});
  const std::string file = TestFile("rmm_export_test_lines.csv");
  FIRN_ASSERT_OK(ExportRmmLog(&trace, file));
  EXPECT_EQ(ReadFile(file),
            "Thread,Time,Action,Pointer,Size,Stream\n"
            "0,00:00:00.000000,allocate,0x7f0000000000,512,0\n"
            "0,00:00:01.500000,allocate,0x7f0000000400,1000000,0\n"
            "0,00:00:01.500001,allocate failure,0,0,0\n"
            "0,00:00:01.500002,free,0,64,0\n"
            "3,25:01:01.000007,free,0x7f0000000000,512,0x1f\n");
}

TEST(RmmExportTest, ReadsBackAsTheSameTrace) {
  std::vector<TraceEvent> events = {
      Alloc(0, 0, 512), Alloc(10, 1, 4096),
      Free(10, 0, 512), Alloc(20, 0, 7),
      Probe(20),        UnknownFree(30, 64),
      Alloc(40, 2, 1),  Free(3'600'000'000, 1, 4096)};
  events[1].stream = 1;
  events[1].thread = 1;
  events[5].stream = 2;
  events[7].thread = 1;
  EventList trace(events);
  const std::string file = TestFile("rmm_export_test_round.csv");
  FIRN_ASSERT_OK(ExportRmmLog(&trace, file));
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TraceSource> again,
                            OpenTrace(file));
  for (const TraceEvent& expected : events) {
    TraceEvent event;
    ASSERT_THAT(again->Next(&event), testing::IsOkAndHolds(true));
    EXPECT_EQ(event.kind, expected.kind);
    EXPECT_EQ(event.time_us, expected.time_us);
    EXPECT_EQ(event.id, expected.id);
    EXPECT_EQ(event.bytes, expected.bytes);
    EXPECT_EQ(event.stream, expected.stream);
    EXPECT_EQ(event.thread, expected.thread);
  }
  TraceEvent event;
  EXPECT_THAT(again->Next(&event), testing::IsOkAndHolds(false));
}

TEST(RmmExportTest, SaysWhyAFileCannotBeWritten) {
  EventList trace({Alloc(0, 0, 512)});
  const std::string file = TestFile("no/such/folder/x.csv");
  EXPECT_THAT(
      ExportRmmLog(&trace, file),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::AllOf(HasSubstr(file), HasSubstr("No such file"))));
}

TEST(RmmExportTest, AnErrorOfTheTraceLeavesTheFileAsItWasAndNoOther) {
  EventList trace({Alloc(0, 0, 512)}, absl::InvalidArgumentError("line 2"));
  const std::string folder = TestFile("rmm_export_test_error");
  std::filesystem::create_directory(folder);
  const std::string file = folder + "/log.csv";
  std::ofstream(file) << "as it was";
  EXPECT_THAT(ExportRmmLog(&trace, file),
              StatusIs(absl::StatusCode::kInvalidArgument, "line 2"));
  EXPECT_EQ(ReadFile(file), "as it was");
  std::filesystem::remove(file);
  EXPECT_THAT(ExportRmmLog(&trace, file),
              StatusIs(absl::StatusCode::kInvalidArgument, "line 2"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(RmmExportTest, ReplacesWhatALinkLeadsTo) {
  EventList trace({});
  const std::string file = TestFile("rmm_export_test_target.csv");
  const std::string link = TestFile("rmm_export_test_link.csv");
  std::ofstream(file) << "as it was";
  std::filesystem::create_symlink(file, link);
  FIRN_ASSERT_OK(ExportRmmLog(&trace, link));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ReadFile(file), "Thread,Time,Action,Pointer,Size,Stream\n");
}

TEST(RmmExportTest, WritesToADeviceWithoutReplacingIt) {
  EventList trace({Alloc(0, 0, 512)});
  const std::string link = TestFile("rmm_export_test_null.csv");
  std::filesystem::create_symlink("/dev/null", link);
  FIRN_EXPECT_OK(ExportRmmLog(&trace, link));
  EXPECT_TRUE(std::filesystem::is_character_file(link));
}

TEST(RmmExportTest, RefusesAFileThatTheTraceReads) {
  const std::string folder = TestFile("rmm_export_test_input");
  std::filesystem::create_directories(folder + "/sub");
  for (const char* name : {"/a", "/b", "/chunk-0-trace.csv"}) {
    std::ofstream(folder + name) << name;
  }
  const auto is_refused =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("would replace"));
  const std::string around = folder + "/sub/../a";
  EXPECT_THAT(CheckExportTarget(folder + "/a,days=1", around), is_refused);
  EXPECT_THAT(CheckExportTarget(folder + "/b,pair=" + folder + "/a", around),
              is_refused);
  EXPECT_THAT(CheckExportTarget(folder, folder + "/chunk-0-trace.csv"),
              is_refused);
  EXPECT_THAT(CheckExportTarget(folder, folder + "/chunk-9-trace.csv"),
              is_refused);
  FIRN_EXPECT_OK(CheckExportTarget(folder + "/b", around));
  FIRN_EXPECT_OK(CheckExportTarget(folder + "/b", folder + "/new"));
  FIRN_EXPECT_OK(CheckExportTarget(folder, folder + "/a"));
  FIRN_EXPECT_OK(CheckExportTarget("gen:kv,days=1", "chunk-1.csv"));
  EXPECT_EQ(ReadFile(folder + "/a"), "/a");
}

}  // namespace
}  // namespace firn::bench
