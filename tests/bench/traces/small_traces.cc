// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/traces/small_traces.h"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/pickle_writer.h"
#include "tests/bench/traces/trace_testing.h"

namespace firn::bench {
namespace {

constexpr int kRows = 60;
constexpr absl::string_view kKvKeys = ",days=0.01,retain_budget=4MiB";

// Numbers that follow no period.
uint64_t Scatter(int i) { return static_cast<uint64_t>(i) * 2654435761u % 997; }

std::string Entry(absl::string_view action, int address, uint64_t bytes,
                  int64_t time_us) {
  return PickledDict({{"action", PickledText(action)},
                      {"addr", PickledInteger(address * 4096)},
                      {"size", PickledInteger(static_cast<int64_t>(bytes))},
                      {"stream", PickledInteger(address % 3 * 77)},
                      {"time_us", PickledInteger(time_us)}});
}

// Blocks that live for some entries, and frees of unknown addresses.
std::string Snapshot() {
  std::vector<std::string> entries;
  entries.push_back(Entry("free_completed", 5000, 512, 900));
  for (int i = 0; i < kRows; ++i) {
    entries.push_back(
        Entry("alloc", 1 + i % 40, 512 + Scatter(i) * 4096, 1000 + i * 137));
    if (i % 3 == 0) {
      entries.push_back(Entry("free_completed", 1 + i % 40,
                              512 + Scatter(i) * 4096, 1050 + i * 137));
    }
    if (i % 7 == 0) {
      entries.push_back(
          Entry("free_completed", 9000 + i, 1024, 1060 + i * 137));
    }
  }
  return Pickled(
      PickledDict({{"device_traces", PickledList({PickledList(entries)})}}));
}

std::string RmmRows() {
  std::string rows = "Thread,Time,Action,Pointer,Size,Stream\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppendFormat(&rows, "%d,%02d:%02d:00.000%03d,allocate,%#x,%d,%d\n",
                          i % 4 + 4711, 20 + i / 20, i % 60, i, 4096 + i * 64,
                          512 + Scatter(i) * 8192, i % 3);
    if (i % 2 == 1) {
      absl::StrAppendFormat(&rows, "%d,%02d:%02d:00.500000,free,%#x,%d,%d\n",
                            i % 4 + 4711, 20 + i / 20, i % 60,
                            4096 + (i - 1) * 64, 512 + Scatter(i - 1) * 8192,
                            i % 2);
    }
  }
  return rows;
}

std::string AzureRows() {
  std::string rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppendFormat(&rows, "2023-11-16 18:%02d:%02d.%07d,%d,%d\n",
                          15 + i / 40, i % 40, i * 31, 20 + Scatter(i),
                          1 + Scatter(i) % 90);
  }
  return rows;
}

std::string BurstGptRows() {
  std::string rows =
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response "
      "tokens,Total tokens,Log Type\n";
  for (int i = 0; i < kRows; ++i) {
    const uint64_t tokens = 20 + Scatter(i);
    absl::StrAppendFormat(
        &rows, "%d.5,s%d,1.5,ChatGPT,%d,%d,%d,Conversation log\n", 5 + i, i % 7,
        tokens, tokens % 90 + 1, tokens + tokens % 90 + 1);
  }
  return rows;
}

std::string MooncakeLines() {
  std::string lines;
  for (int i = 0; i < kRows; ++i) {
    const int shared = i % 4;
    absl::StrAppendFormat(
        &lines,
        "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": %d, "
        "\"hash_ids\": [%d, %d, %d]}\n",
        i * 700, 1100 + i, 1 + Scatter(i) % 50, shared, shared + 10, 100 + i);
  }
  return lines;
}

// A folder of two clients.
std::string WriteServeGen() {
  const std::string first = WriteFile("chunk-0-trace.csv",
                                      "0,0.2,1.5,Gamma,0.44,11.25\n"
                                      "600,0.1,1,Gamma,1,10\n");
  WriteFile("chunk-1-trace.csv", "0,0.1,0.8,Weibull,1.26,10.7\n");
  const std::string windows =
      "{\"0\": {\"input_tokens\": \"{120: 0.5, 700: 0.5}\", "
      "\"output_tokens\": \"{30: 1.0}\"}}";
  WriteFile("chunk-0-dataset.json", windows);
  WriteFile("chunk-1-dataset.json", windows);
  return std::filesystem::path(first).parent_path().string();
}

struct Generator {
  const char* name;
  const char* spec;
};

constexpr Generator kGenerators[] = {
    {"training",
     "gen:training,steps=3,layers=3,hidden=128,heads=4,vocab=999,eval_every=2,"
     "checkpoint_every=2"},
    {"steady", "gen:steady,steps=3"},
    {"kv", "gen:kv,days=0.002"},
    {"sawtooth", "gen:sawtooth,live=100MiB,cycles=2"},
    {"periodic", "gen:periodic,live=64MiB"},
    {"robson", "gen:robson,live=32MiB"},
    {"same_offset", "gen:same_offset,live=32MiB"},
};

}  // namespace

std::vector<std::string> SmallTraceNames() {
  std::vector<std::string> names = {"snapshot", "looped_snapshot", "rmm",
                                    "azure",    "burstgpt",        "mooncake",
                                    "servegen", "sequences"};
  for (const Generator& generator : kGenerators) {
    names.emplace_back(generator.name);
  }
  return names;
}

SmallTrace WriteSmallTrace(const std::string& name) {
  for (const Generator& generator : kGenerators) {
    if (name == generator.name) return {name, generator.spec};
  }
  if (name == "snapshot") return {name, WriteFile("s.pickle", Snapshot())};
  if (name == "looped_snapshot") {
    return {name, WriteFile("s.pickle", Snapshot()) + ",loops=3"};
  }
  if (name == "rmm") return {name, WriteFile("r.csv", RmmRows())};
  if (name == "azure") {
    return {name, absl::StrCat(WriteFile("a.csv", AzureRows()), kKvKeys)};
  }
  if (name == "sequences") {
    return {name, absl::StrCat(WriteFile("a.csv", AzureRows()), kKvKeys,
                               ",layout=sequences")};
  }
  if (name == "burstgpt") {
    return {name, absl::StrCat(WriteFile("b.csv", BurstGptRows()), kKvKeys)};
  }
  if (name == "mooncake") {
    return {name, absl::StrCat(WriteFile("m.jsonl", MooncakeLines()), kKvKeys)};
  }
  EXPECT_EQ(name, "servegen");
  return {name, absl::StrCat(WriteServeGen(), kKvKeys)};
}

}  // namespace firn::bench
