// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/traces/trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/pickle_writer.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// What opening and replaying `contents` comes to.
absl::Status Replay(const std::string& path) {
  absl::StatusOr<std::unique_ptr<TraceSource>> trace = OpenTrace(path);
  if (!trace.ok()) return trace.status();
  absl::Status status;
  Gather(trace->get(), &status);
  return status;
}

std::string Noise(size_t bytes) {
  std::string noise;
  uint64_t state = 7;
  for (size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    noise.push_back(static_cast<char>(state >> 56));
  }
  return noise;
}

TEST(OpenTraceTest, RecognisesFormatsByContentsWhateverTheName) {
  const std::string rmm = WriteFile(
      "a.pickle",
      "Thread,Time,Action,Pointer,Size,Stream\n1,0:0:1.0,allocate,0x1,5,0\n");
  const std::string azure = WriteFile(
      "b.txt",
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,5,1\n");
  const std::string torch = WriteFile(
      "c.csv",
      Pickled(PickledDict(
          {{"device_traces", PickledList({PickledList({PickledDict(
                                 {{"action", PickledText("alloc")},
                                  {"addr", PickledInteger(1)},
                                  {"size", PickledInteger(5)},
                                  {"stream", PickledInteger(0)}})})})}})));
  const std::string burstgpt = WriteFile(
      "d", "Timestamp,Model,Request tokens,Response tokens\n5,GPT-4,5,1\n");
  WriteFile("chunk-0-dataset.json",
            R"({"0": {"input_tokens": "{5: 1}", "output_tokens": "{1: 1}"}})");
  std::string servegen =
      WriteFile("chunk-0-trace.csv", "0,1,1,Gamma,1,1\n600,0,0,,0,0\n");
  servegen.resize(servegen.rfind('/'));
  for (const std::string& path : {rmm, azure, torch, burstgpt, servegen}) {
    FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                              OpenTrace(path));
    EXPECT_EQ(trace->name(), path);
    TraceEvent event;
    ASSERT_TRUE(*trace->Next(&event));
    EXPECT_EQ(event.kind, TraceEventKind::kAllocate);
  }
}

TEST(OpenTraceTest, TextIsRecognisedByItsFirstLineThatIsNotBlank) {
  const std::string mooncake =
      WriteFile("a",
                "\xef\xbb\xbf\r\n \n{\"timestamp\": 0, \"input_length\": 1, "
                "\"output_length\": 0, \"hash_ids\": [0]}\n");
  const std::string azure =
      WriteFile("b",
                "\n\nTIMESTAMP,ContextTokens,GeneratedTokens\n"
                "2023-11-16 18:15:46,5,1\n");
  for (const std::string& path : {mooncake, azure}) {
    FIRN_EXPECT_OK(Replay(path + ",days=0.001"));
  }
  EXPECT_THAT(Replay(WriteFile("c", " \n\n")),
              StatusIs(kInvalid, HasSubstr("/c: unknown format")));
}

TEST(OpenTraceTest, EachBadInputIsOneLineThatNamesTheFileAndTheReason) {
  const std::string rmm = "Thread,Time,Action,Pointer,Size,Stream\n";
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  struct Case {
    std::string contents;
    const char* message;
  };
  for (const Case& c : {
           Case{"", ": the file is empty; give an RMM log"},
           Case{Noise(100'000), ": unknown format, it starts with '"},
           Case{"\x80\x02" + Noise(100'000), ": byte 2: "},
           Case{"{\"not\": \"a trace\"}\n",
                ": unknown format, it starts with "
                "'{\\\"not\\\": \\\"a trace\\\"}'"},
           Case{std::string(1'000'000, 'x'), ": unknown format, it starts"},
           Case{rmm + std::string(1'000'000, 'x'),
                ":2: a line of more than 65536 characters"},
           Case{"Thread,Time,Action,Pointer,Bytes,Stream\n",
                ":1: no column 'Size'; the header should be Thread,Time"},
           Case{"TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,5\n",
                ":1: no column 'GeneratedTokens'; the header should be"},
           Case{rmm + "1,0:0:1.0,allocate,0x10,-1,0\n",
                ":2: Size: '-1' is negative"},
           Case{rmm + "1,0:0:1.0,allocate,0x10,99999999999999999999,0\n",
                ":2: Size: '99999999999999999999' is beyond 64 bits"},
           Case{azure + Noise(5000), ":2: "},
           Case{rmm + Noise(5000), ":2: "},
           Case{Pickled(PickledDict({{"device_traces", "]"}})),
                ": 'device_traces' holds no allocation or free"},
           Case{"\x80\x02"
                "cposix\nsystem\n(X\x02\x00\x00\x00lstR.",
                ": byte 2: GLOBAL: names the class 'posix.system'"},
           Case{"\x80\x02", ": byte 2: the pickle ends without STOP"},
       }) {
    const std::string path = WriteFile("f", c.contents);
    const absl::Status status = Replay(path);
    EXPECT_THAT(status, StatusIs(kInvalid, AllOf(StartsWith(path + c.message),
                                                 Not(HasSubstr("\n")))));
    EXPECT_LT(status.message().size(), path.size() + 700);
  }
}

TEST(OpenTraceTest, NamesAMissingFileAndAFolder) {
  EXPECT_THAT(OpenTrace("/nowhere/log.csv,days=3"),
              StatusIs(absl::StatusCode::kNotFound,
                       Eq("/nowhere/log.csv: no such file")));
  EXPECT_THAT(OpenTrace("/tmp"),
              StatusIs(kInvalid, StartsWith("/tmp: a folder; give an RMM")));
}

TEST(OpenTraceTest, ATruncatedSnapshotNamesTheByteWhereverItIsCut) {
  FIRN_PUBLIC_TRACE_OR_SKIP(
      path, "pytorch_snapshots/medium_1024_inference_memory_snapshot.pickle");
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 100'000u);
  for (size_t bytes = 2; bytes < whole.size(); bytes += 9973) {
    const std::string cut = WriteFile("cut", whole.substr(0, bytes));
    EXPECT_THAT(OpenTrace(cut),
                StatusIs(kInvalid, AllOf(StartsWith(cut + ": byte "),
                                         HasSubstr("cut off"))));
  }
}

TEST(OpenTraceTest, ADamagedSnapshotIsReadOrRefusedButNeverCrashes) {
  FIRN_PUBLIC_TRACE_OR_SKIP(
      path, "pytorch_snapshots/medium_1024_inference_memory_snapshot.pickle");
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const std::string noise = Noise(4 * 200);
  for (size_t i = 0; i < 200; ++i) {
    std::string damaged = whole;
    for (size_t j = 0; j < 4; ++j) {
      const size_t at = (i * 7919 + j * 104'729) * 31 % whole.size();
      damaged[at] = noise[i * 4 + j];
    }
    const absl::Status status = Replay(WriteFile("damaged", damaged));
    if (!status.ok()) {
      EXPECT_THAT(status, StatusIs(kInvalid, HasSubstr(": ")));
    }
  }
}

}  // namespace
}  // namespace firn::bench
