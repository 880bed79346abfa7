// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_folder.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

// Of all clients together: some 50 MB and 240 MB.
constexpr size_t kMaxWindows = 1'000'000;
constexpr size_t kMaxLengths = 20'000'000;

constexpr absl::string_view kTraceEnd = "-trace.csv";
constexpr absl::string_view kDatasetEnd = "-dataset.json";

struct ClientFiles {
  bool trace = false;
  bool dataset = false;
};

std::string ChunkPath(absl::string_view folder, uint64_t number,
                      absl::string_view end) {
  return absl::StrCat(folder, "/chunk-", number, end);
}

// N of "chunk-N<end>".
std::optional<uint64_t> NumberOf(absl::string_view name,
                                 absl::string_view end) {
  if (!absl::ConsumePrefix(&name, "chunk-") ||
      !absl::ConsumeSuffix(&name, end)) {
    return std::nullopt;
  }
  absl::StatusOr<uint64_t> number = ParseWholeNumber(name);
  // One spelling each, so that a number names one file.
  if (!number.ok() || absl::StrCat(*number) != name) return std::nullopt;
  return *number;
}

absl::StatusOr<std::map<uint64_t, ClientFiles>> ListFiles(
    absl::string_view path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(
      opendir(std::string(path).c_str()), &closedir);
  if (folder == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the folder cannot be read: ", strerror(errno)));
  }
  std::map<uint64_t, ClientFiles> clients;
  while (const dirent* entry = readdir(folder.get())) {
    if (const auto number = NumberOf(entry->d_name, kTraceEnd)) {
      clients[*number].trace = true;
    } else if (const auto number = NumberOf(entry->d_name, kDatasetEnd)) {
      clients[*number].dataset = true;
    }
  }
  return clients;
}

bool SendsAny(const std::vector<RateWindow>& windows) {
  return std::any_of(
      windows.begin(), windows.end(),
      [](const RateWindow& window) { return window.requests > 0; });
}

// Moves all times so that the earliest window starts at 0.
void StartAtZero(double start_s, ServeGenFolder* folder) {
  for (ServeGenClient& client : folder->clients) {
    for (RateWindow& window : client.rates) {
      window.start_s -= start_s;
      window.end_s -= start_s;
    }
    for (LengthWindow& window : client.lengths) window.start_s -= start_s;
  }
}

}  // namespace

const LengthWindow& ServeGenClient::LengthsAt(double time_s) const {
  const auto after = std::upper_bound(
      lengths.begin(), lengths.end(), time_s,
      [](double time, const LengthWindow& w) { return time < w.start_s; });
  return after == lengths.begin() ? *after : *(after - 1);
}

bool IsServeGenFolder(absl::string_view path) {
  absl::StatusOr<std::map<uint64_t, ClientFiles>> files = ListFiles(path);
  return files.ok() &&
         std::any_of(files->begin(), files->end(),
                     [](const auto& client) { return client.second.trace; });
}

absl::StatusOr<ServeGenFolder> ReadServeGenFolder(absl::string_view path) {
  absl::StatusOr<std::map<uint64_t, ClientFiles>> files = ListFiles(path);
  if (!files.ok()) return files.status();
  ServeGenFolder folder;
  double start_s = std::numeric_limits<double>::infinity();
  double end_s = 0;
  size_t windows = 0;
  size_t lengths = 0;
  for (const auto& [number, has] : *files) {
    if (!has.trace) continue;
    ServeGenClient client;
    client.number = number;
    absl::StatusOr<std::vector<RateWindow>> rates = ReadServeGenRates(
        ChunkPath(path, number, kTraceEnd), kMaxWindows - windows);
    if (!rates.ok()) return rates.status();
    start_s = std::min(start_s, rates->front().start_s);
    end_s = std::max(end_s, rates->back().end_s);
    if (!has.dataset || !SendsAny(*rates)) continue;
    absl::StatusOr<std::vector<LengthWindow>> read = ReadServeGenLengths(
        ChunkPath(path, number, kDatasetEnd), kMaxLengths - lengths);
    if (!read.ok()) return read.status();
    if (read->empty()) continue;
    for (const LengthWindow& window : *read) {
      lengths += window.input.lengths() + window.output.lengths();
    }
    windows += rates->size();
    client.rates = *std::move(rates);
    client.lengths = *std::move(read);
    folder.clients.push_back(std::move(client));
  }
  if (folder.clients.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": no client sends requests of known length; for a client N, "
        "chunk-N-trace.csv with a rate above 0 and chunk-N-dataset.json "
        "with lengths are expected"));
  }
  folder.span_s = end_s - start_s;
  StartAtZero(start_s, &folder);
  return folder;
}

}  // namespace firn::bench
