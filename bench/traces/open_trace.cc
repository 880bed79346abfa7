// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Recognises the format of a trace by its contents.

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "bench/traces/azure_log.h"
#include "bench/traces/burstgpt_log.h"
#include "bench/traces/byte_source.h"
#include "bench/traces/csv_reader.h"
#include "bench/traces/csv_requests.h"
#include "bench/traces/generators.h"
#include "bench/traces/mooncake_log.h"
#include "bench/traces/rmm_log.h"
#include "bench/traces/servegen_folder.h"
#include "bench/traces/servegen_log.h"
#include "bench/traces/torch_snapshot.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

constexpr absl::string_view kFormats =
    "an RMM log (CSV with the header "
    "Thread,Time,Action,Pointer,Size,Stream), a PyTorch memory snapshot "
    "(pickle), an Azure request log (CSV with the header "
    "TIMESTAMP,ContextTokens,GeneratedTokens), a BurstGPT request log (CSV "
    "with Timestamp,Request tokens,Response tokens), a Mooncake request log "
    "(a JSON object with hash_ids on each line) or a folder of ServeGen data "
    "(chunk-N-trace.csv, chunk-N-dataset.json)";

// The first bytes of a file, enough for any header.
absl::StatusOr<std::string> ReadStart(absl::string_view path) {
  constexpr size_t kStartBytes = 4096;
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenByteSource(path);
  if (!source.ok()) return source.status();
  std::string start(kStartBytes, '\0');
  size_t filled = 0;
  while (filled < kStartBytes) {
    absl::StatusOr<size_t> count =
        (*source)->Read(&start[filled], kStartBytes - filled);
    if (!count.ok()) return count.status();
    if (*count == 0) break;
    filled += *count;
  }
  start.resize(filled);
  return start;
}

// PROTO and its protocol, from 2 on; text never begins so.
bool IsPickle(absl::string_view start) {
  return start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 &&
         start[1] < 32;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> OpenTrace(absl::string_view text) {
  absl::StatusOr<TraceSpec> spec = ParseTraceSpec(text);
  if (!spec.ok()) return spec.status();
  if (IsGenerator(spec->path)) return OpenGenerator(*spec);

  struct stat about = {};
  if (stat(spec->path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) {
    if (IsServeGenFolder(spec->path)) return OpenServeGenFolder(*spec);
    return absl::InvalidArgumentError(
        absl::StrCat(spec->path, ": a folder; give ", kFormats));
  }
  absl::StatusOr<std::string> start = ReadStart(spec->path);
  if (!start.ok()) return start.status();
  if (start->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec->path, ": the file is empty; give ", kFormats));
  }
  if (IsPickle(*start)) return TorchSnapshot::Open(*spec);
  // The first line that is not blank, as all readers of text skip the others.
  absl::string_view line = absl::StripLeadingAsciiWhitespace(
      absl::StripPrefix(*start, "\xef\xbb\xbf"));
  line = line.substr(0, line.find('\n'));
  const std::vector<absl::string_view> header = SplitCsv(line);
  if (RmmLog::Recognise(header)) return RmmLog::Open(*spec);
  if (HasColumnsOf(kAzureLog, header)) {
    return OpenCsvRequestLog(*spec, kAzureLog);
  }
  if (HasColumnsOf(kBurstGptLog, header)) {
    return OpenCsvRequestLog(*spec, kBurstGptLog);
  }
  if (IsMooncakeLog(line)) return OpenMooncakeLog(*spec);
  return absl::InvalidArgumentError(
      absl::StrCat(spec->path, ": unknown format, it starts with ",
                   Quoted(line), "; give ", kFormats));
}

}  // namespace firn::bench
