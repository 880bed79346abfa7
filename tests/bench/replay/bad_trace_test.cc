// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Damaged input of every format: one clear line on stderr, nothing on stdout,
// and the exit status that says whose fault it is.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/replay/command_run.h"
#include "tests/bench/traces/packed_file.h"
#include "tests/bench/traces/pickle_writer.h"
#include "tests/bench/traces/trace_testing.h"

namespace firn::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string Noise(size_t bytes) {
  std::string noise;
  uint64_t state = 11;
  for (size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    noise.push_back(static_cast<char>(state >> 56));
  }
  return noise;
}

// Replays `path` and expects one line that names `file` and holds `reason`.
void ExpectRefused(const std::string& path, const std::string& file,
                   int exit_status, absl::string_view reason) {
  SCOPED_TRACE(absl::StrCat("expected: ", reason));
  const Outcome outcome =
      RunCommand({"--trace=" + path, "--policy=ideal", "--json"});
  EXPECT_EQ(outcome.exit_status, exit_status) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, StartsWith("firn_replay: " + file));
  EXPECT_THAT(outcome.err, HasSubstr(std::string(reason)));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
      << outcome.err;
  EXPECT_LT(outcome.err.size(), file.size() + 700);
}

struct BadFile {
  std::string contents;
  std::string reason;
  int exit_status = kExitBadInput;
};

void ExpectEachRefused(const std::vector<BadFile>& files) {
  for (const BadFile& bad : files) {
    const std::string path = WriteFile("bad", bad.contents);
    ExpectRefused(path, path, bad.exit_status, bad.reason);
  }
}

// What can happen to any text: `start` is its header, `row` a good row.
std::vector<BadFile> DamagedText(const std::string& start,
                                 const std::string& row) {
  const std::string good = start + row + row;
  return {
      {start + Noise(9000), "bad:"},
      {Noise(9000) + good, "unknown format"},
      {start + row + std::string(1'000'000, '7'), "characters"},
      {start + row + std::string(300, '\0') + "\n", "bad:"},
      {Gzip(good).substr(0, 40), "cut off"},
      {Zstd(good).substr(0, 40), "cut off"},
      {Gzip(good).substr(0, 30) + Noise(500), "damaged"},
      // A line of 20 MB in 20 KB.
      {Gzip(start + std::string(20'000'000, ' ')), "characters"},
  };
}

TEST(BadTraceTest, OfAnRmmLog) {
  const std::string header = "Thread,Time,Action,Pointer,Size,Stream\n";
  const std::string row = "1,10:00:00.000000,allocate,0x10,64,0\n";
  std::vector<BadFile> files = DamagedText(header, "");
  for (const BadFile& bad : std::vector<BadFile>{
           {header + row + row, "which is live already", kExitFailure},
           {header + row + "1,10:00:00.000000,free,0x20,64,0\n",
            "which is not live", kExitFailure},
           {header + row + "1,10:00:00.000000,alloc", "3 fields"},
           {header + row + "1,10:00:00.000000,free,0x", ":3: "},
           {"Thread,Time,Action,Address,Size,Stream\n" + row, "'Pointer'"},
           {"Thread,Time,Act", "Thread"},
           {header + "1,10:00:00.000000,allocate,0x10,-64,0\n", "negative"},
           {header + "1,10:00:00.000000,allocate,0x10,18446744073709551617,0\n",
            "beyond 64 bits"},
           {header + "1,10:00:00.000000,allocate,0x10,18446744073709551615,0\n",
            "live memory beyond"},
           {header + "1,10:00:00.000000,allocate,0x10,9223372036854775807,0\n",
            "live memory beyond"},
           {header + "1,10:00:00.000000,allocate,0x10,4611686018427387903,0\n",
            "blocks need more than"},
           {header + "1,10:00:00.000000,allocate,0x10,6.5,0\n", "whole number"},
           {header + "1,99:99:99.000000,allocate,0x10,64,0\n", "not a time"},
           {header + "1,10:00:00.000000,grow,0x10,64,0\n", "none of allocate"},
           {header + "one,10:00:00.000000,allocate,0x10,64,0\n", "Thread"},
       }) {
    files.push_back(bad);
  }
  ExpectEachRefused(files);
}

TEST(BadTraceTest, OfAnAzureLog) {
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string row = "2023-11-16 18:15:46.6805900,374,44\n";
  std::vector<BadFile> files = DamagedText(header, row);
  for (const BadFile& bad : std::vector<BadFile>{
           {header, "no request"},
           {header + row + "2023-11-16 18:15:50.99", "fields"},
           {"TIMESTAMP,ContextTokens,Answer\n" + row, "'GeneratedTokens'"},
           {header + row + "2023-13-16 18:15:46,374,44\n", ":3: TIMESTAMP"},
           {header + row + "yesterday,374,44\n", ":3: TIMESTAMP"},
           {header + "2023-11-16 18:15:46,-1,44\n", "negative"},
           {header + "2023-11-16 18:15:46,99999999999999999999,44\n",
            "beyond 64 bits"},
           {header + "2023-11-16 18:15:46,374,4000000000\n",
            "more than any model's context"},
           {header + "2023-11-16 18:15:46,3e2,44\n", "whole number"},
           {header + "2023-11-16 18:15:46,,44\n", "ContextTokens"},
           {header + row + row + ",,\n", ":4: TIMESTAMP"},
           {header + row + "2023-11-16 18:15:46,374,44,1,1\n", "fields"},
       }) {
    files.push_back(bad);
  }
  ExpectEachRefused(files);
}

TEST(BadTraceTest, OfABurstGptLog) {
  const std::string header =
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
  const std::string row = "5,ChatGPT,472,18,490,Conversation log\n";
  std::vector<BadFile> files = DamagedText(header, row);
  for (const BadFile& bad : std::vector<BadFile>{
           {header, "no request"},
           {header + row + "45,ChatGPT,10", "fields"},
           {"Timestamp,Model,Request tokens,Answer tokens,Total tokens,Log "
            "Type\n" +
                row,
            "'Response tokens'"},
           {header + "-5,ChatGPT,472,18,490,x\n", "Timestamp"},
           {header + "soon,ChatGPT,472,18,490,x\n", "Timestamp"},
           {header + "1e300,ChatGPT,472,18,490,x\n", "Timestamp"},
           {header + "nan,ChatGPT,472,18,490,x\n", "Timestamp"},
           {header + "5,ChatGPT,-472,18,490,x\n", "negative"},
           {header + "5,ChatGPT,472,99999999999999999999,490,x\n",
            "beyond 64 bits"},
           {header + "5,ChatGPT,472000000,18,490,x\n",
            "more than any model's context"},
           {header + "5,ChatGPT,four,18,490,x\n", "whole number"},
           {header + "5,ChatGPT,,18,490,x\n", "Request tokens"},
       }) {
    files.push_back(bad);
  }
  ExpectEachRefused(files);
}

TEST(BadTraceTest, OfAMooncakeLog) {
  const std::string row =
      "{\"timestamp\": 27, \"input_length\": 600, \"output_length\": 5, "
      "\"hash_ids\": [1, 2]}\n";
  std::vector<BadFile> files = DamagedText(row, row);
  const auto with = [](absl::string_view timestamp, absl::string_view input,
                       absl::string_view output, absl::string_view ids) {
    return absl::StrCat(
        "{\"timestamp\": ", timestamp, ", \"input_length\": ", input,
        ", \"output_length\": ", output, ", \"hash_ids\": ", ids, "}\n");
  };
  for (const BadFile& bad : std::vector<BadFile>{
           {row + row.substr(0, 50), ":2: "},
           {row + "{}\n", ":2: "},
           {row + "[1, 2]\n", ":2: "},
           {row +
                "{\"timestamp\": 3, \"input_length\": 5, \"hash_ids\": [1]}\n",
            "output_length"},
           {row + with("-3", "600", "5", "[1, 2]"), "timestamp"},
           {row + with("\"3\"", "600", "5", "[1, 2]"), "timestamp"},
           {row + with("1e300", "600", "5", "[1, 2]"), "timestamp"},
           {row + with("3", "-600", "5", "[1, 2]"), "input_length"},
           {row + with("3", "600.5", "5", "[1, 2]"), "input_length"},
           {row + with("3", "99999999999999999999999", "5", "[1, 2]"),
            "input_length"},
           {row + with("3", "600", "4000000000", "[1, 2]"), "output_length"},
           {row + with("3", "600", "5", "[1]"), "hash_ids"},
           {row + with("3", "600", "5", "[1, -2]"), "hash_ids"},
           {row + with("3", "600", "5", "\"12\""), "hash_ids"},
           {row + std::string(60'000, '[') + "\n", ":2: "},
       }) {
    files.push_back(bad);
  }
  ExpectEachRefused(files);
}

TEST(BadTraceTest, OfASnapshot) {
  const auto snapshot = [](absl::string_view action, const std::string& address,
                           const std::string& bytes) {
    return Pickled(PickledDict(
        {{"device_traces", PickledList({PickledList({PickledDict(
                               {{"action", PickledText(action)},
                                {"addr", address},
                                {"size", bytes},
                                {"stream", PickledInteger(0)},
                                {"time_us", PickledInteger(0)}})})})}}));
  };
  const std::string one = PickledInteger(1);
  const std::string good = snapshot("alloc", one, one);
  ExpectEachRefused({
      {"\x80\x02", "ends without STOP"},
      {good.substr(0, good.size() - 1), "byte"},
      {good.substr(0, good.size() / 2), "cut off"},
      {"\x80\x02" + Noise(9000), "byte 2: "},
      {Pickled(PickledList({one})), "'device_traces'"},
      {Pickled(PickledDict({{"segments", PickledList({})}})),
       "'device_traces'"},
      {Pickled(PickledDict({{"device_traces", PickledList({})}})),
       "_record_memory_history"},
      {snapshot("segment_alloc", one, one), "_record_memory_history"},
      {snapshot("alloc", one, PickledInteger(-1)), "negative"},
      {snapshot("alloc", PickledInteger(-7), one), "addr"},
      {snapshot("alloc", one, PickledText("many")), "not a whole number"},
      {snapshot("alloc", one, PickledInteger(INT64_MAX)), "live memory beyond"},
      {snapshot("alloc", one, PickledInteger(INT64_MAX / 2 - 1)),
       "blocks need more than"},
      {"\x80\x02"
       "cposix\nsystem\n(X\x02\x00\x00\x00lstR.",
       "names the class"},
      {"\x80\x02" + std::string(100'000, ']') + ".", "'device_traces'"},
      {"\x80\x02X\xff\xff\xff\x7f", "cut off"},
      {Gzip(good).substr(0, 40), "cut off"},
      {Zstd(good).substr(0, 40), "cut off"},
      // 80 MB of values in 80 KB.
      {Gzip("\x80\x02" + std::string(80'000'000, 'N')), "unpacks to more"},
      {Zstd("\x80\x02" + std::string(80'000'000, 'N')), "unpacks to more"},
  });
}

class ServeGenFolder {
 public:
  ServeGenFolder() {
    Write("chunk-0-trace.csv", kGoodTrace);
    Write("chunk-0-dataset.json", kGoodDataset);
  }
  void Write(absl::string_view name, const std::string& contents) {
    folder_ =
        std::filesystem::path(WriteFile(name, contents)).parent_path().string();
  }
  void Remove(const std::string& name) {
    std::filesystem::remove(folder_ + "/" + name);
  }
  const std::string& path() const { return folder_; }

  static constexpr char kGoodTrace[] = "0,0.5,1.5,Gamma,0.44,4.5\n";
  static constexpr char kGoodDataset[] =
      "{\"0\": {\"input_tokens\": \"{100: 1.0}\", \"output_tokens\": \"{7: "
      "1.0}\"}}";

 private:
  std::string folder_;
};

TEST(BadTraceTest, OfAServeGenClientsRates) {
  ServeGenFolder folder;
  for (const BadFile& bad : std::vector<BadFile>{
           {"0,0.5,1.5,Gamma\n", "fields"},
           {"0,0.5,1.5,Gamma,0.44,4.5,1\n", "fields"},
           {"zero,0.5,1.5,Gamma,0.44,4.5\n", ":1: "},
           {"-600,0.5,1.5,Gamma,0.44,4.5\n", ":1: "},
           {"0,-0.5,1.5,Gamma,0.44,4.5\n", ":1: "},
           {"0,fast,1.5,Gamma,0.44,4.5\n", ":1: "},
           {"0,inf,1.5,Gamma,0.44,4.5\n", ":1: "},
           {"0,1e30,1.5,Gamma,0.44,4.5\n", ":1: "},
           {"0,0.5,nan,Gamma,0.44,4.5\n", ":1: "},
           {"0,0.5,1.5,Gauss,0.44,4.5\n", "Gauss"},
           {"600,0.5,1,Gamma,1,2\n0,0.5,1,Gamma,1,2\n", ":2: "},
           {Noise(5000), "chunk-0-trace.csv:"},
           {std::string(1'000'000, '7'), "characters"},
       }) {
    folder.Write("chunk-0-trace.csv", bad.contents);
    ExpectRefused(folder.path(), folder.path(), bad.exit_status, bad.reason);
  }
}

TEST(BadTraceTest, OfAServeGenClientsLengths) {
  ServeGenFolder folder;
  const auto lengths = [](absl::string_view text) {
    return absl::StrCat("{\"0\": {\"input_tokens\": \"", text,
                        "\", \"output_tokens\": \"{7: 1.0}\"}}");
  };
  for (const BadFile& bad : std::vector<BadFile>{
           {"", "chunk-0-dataset.json"},
           {"{\"0\": {\"input_tok", "chunk-0-dataset.json"},
           {"[1, 2]", "chunk-0-dataset.json"},
           {Noise(5000), "chunk-0-dataset.json"},
           {std::string(200'000, '['), "chunk-0-dataset.json"},
           {"{\"noon\": {\"input_tokens\": \"{}\", \"output_tokens\": \"{}\"}}",
            "noon"},
           {"{\"0\": {\"input_tokens\": \"{5: 1}\"}}", "output_tokens"},
           {"{\"0\": {\"input_tokens\": 5, \"output_tokens\": \"{}\"}}",
            "input_tokens"},
           {lengths("{100: 0.2, 200: 0.2}"), "input_tokens"},
           {lengths("{100: -0.5, 200: 1.5}"), "input_tokens"},
           {lengths("{-100: 1.0}"), "input_tokens"},
           {lengths("{400000000000: 1.0}"), "input_tokens"},
           {lengths("{100 1.0}"), "input_tokens"},
           {lengths("{100: 1.0"), "input_tokens"},
           {lengths("{100: nan}"), "input_tokens"},
       }) {
    folder.Write("chunk-0-dataset.json", bad.contents);
    ExpectRefused(folder.path(), folder.path(), bad.exit_status, bad.reason);
  }
}

TEST(BadTraceTest, OfAServeGenFolder) {
  ServeGenFolder folder;
  folder.Remove("chunk-0-dataset.json");
  ExpectRefused(folder.path(), folder.path(), kExitBadInput, "dataset.json");
  folder.Remove("chunk-0-trace.csv");
  ExpectRefused(folder.path(), folder.path(), kExitBadInput, "chunk-");
}

}  // namespace
}  // namespace firn::bench
