// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/traces/trace_testing.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_path.h"

namespace firn::bench {

bool operator==(const TraceEvent& a, const TraceEvent& b) {
  return a.kind == b.kind && a.stream == b.stream && a.thread == b.thread &&
         a.time_us == b.time_us && a.id == b.id && a.bytes == b.bytes;
}

std::ostream& operator<<(std::ostream& os, const TraceEvent& event) {
  constexpr const char* kKinds[] = {"allocate", "free", "probe",
                                    "unknown free"};
  return os << kKinds[static_cast<int>(event.kind)] << " of block " << event.id
            << ", " << event.bytes << " bytes, at " << event.time_us
            << " us on stream " << event.stream << " by thread "
            << event.thread;
}

TraceEvent Allocated(int64_t time_us, uint64_t id, uint64_t bytes,
                     uint32_t stream) {
  return {TraceEventKind::kAllocate, stream, 0, time_us, id, bytes};
}

TraceEvent Freed(int64_t time_us, uint64_t id, uint64_t bytes,
                 uint32_t stream) {
  return {TraceEventKind::kFree, stream, 0, time_us, id, bytes};
}

TraceEvent FreedUnknown(int64_t time_us, uint64_t bytes, uint32_t stream) {
  return {TraceEventKind::kUnknownFree, stream, 0, time_us, 0, bytes};
}

std::string WriteFile(absl::string_view name, absl::string_view contents) {
  const ::testing::TestInfo& test =
      *::testing::UnitTest::GetInstance()->current_test_info();
  // Parameterised tests have slashes in their names.
  std::string folder = absl::StrCat(test.test_suite_name(), ".", test.name());
  std::replace(folder.begin(), folder.end(), '/', '_');
  folder = ::firn::testing::TemporaryPath(folder);
  std::filesystem::create_directories(folder);
  std::string path = absl::StrCat(folder, "/", name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  EXPECT_TRUE(file.good()) << path;
  return path;
}

std::vector<TraceEvent> Gather(TraceSource* trace, absl::Status* status) {
  std::vector<TraceEvent> events;
  std::map<uint64_t, uint64_t> live;  // bytes by id
  int64_t time_us = 0;
  *status = absl::OkStatus();
  while (true) {
    TraceEvent event;
    const absl::StatusOr<bool> found = trace->Next(&event);
    if (!found.ok()) *status = found.status();
    if (!found.ok() || !*found) return events;
    events.push_back(event);
    EXPECT_GE(event.time_us, time_us) << "event " << events.size();
    time_us = event.time_us;
    if (event.kind == TraceEventKind::kAllocate) {
      EXPECT_GE(event.bytes, 1u) << event;
      EXPECT_TRUE(live.emplace(event.id, event.bytes).second)
          << event << " while live";
    } else if (event.kind == TraceEventKind::kFree) {
      const auto block = live.find(event.id);
      if (block == live.end()) {
        ADD_FAILURE() << event << " while not live";
        return events;
      }
      EXPECT_EQ(block->second, event.bytes) << event;
      live.erase(block);
    }
  }
}

std::vector<TraceEvent> Gather(TraceSource* trace) {
  absl::Status status;
  std::vector<TraceEvent> events = Gather(trace, &status);
  EXPECT_TRUE(status.ok()) << status;
  return events;
}

TraceTotals TotalsOf(const std::vector<TraceEvent>& events) {
  TraceTotals totals;
  uint64_t live_blocks = 0;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEventKind::kAllocate) {
      ++totals.allocs;
      ++live_blocks;
      totals.allocated_bytes += event.bytes;
      totals.end_live_bytes += event.bytes;
      totals.greatest_id = std::max(totals.greatest_id, event.id);
    } else if (event.kind == TraceEventKind::kFree) {
      ++totals.frees;
      --live_blocks;
      totals.end_live_bytes -= event.bytes;
    } else if (event.kind == TraceEventKind::kProbe) {
      ++totals.probes;
    } else {
      ++totals.unknown_frees;
    }
    totals.peak_live_bytes =
        std::max(totals.peak_live_bytes, totals.end_live_bytes);
    totals.most_live_blocks = std::max(totals.most_live_blocks, live_blocks);
  }
  return totals;
}

std::string PublicTrace(absl::string_view name) {
  const char* folder = std::getenv("FIRN_TRACES");
  const std::string path =
      folder != nullptr && *folder != '\0'
          ? absl::StrCat(folder, "/", name)
          : absl::StrCat(FIRN_SOURCE_DIR, "/../shared/traces/", name);
  return std::filesystem::exists(path) ? path : std::string();
}

}  // namespace firn::bench
