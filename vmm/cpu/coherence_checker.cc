// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/coherence_checker.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace firn::cpu {
namespace {

// To look through all records for those of one stream would be slow.
constexpr size_t kRetiredStreamsAtATime = 1024;

std::string Describe(const MemoryAccess& access) {
  return absl::StrCat(access.name, " (stream ", access.stream_id, ", position ",
                      access.position, ")");
}

// Of the reading work, first, and the writing work.
std::string Describe(const MemoryAccess& later, uint64_t memory_id,
                     const AccessConflict& conflict) {
  const MemoryAccess& read = later.writes ? conflict.earlier : later;
  const MemoryAccess& write = later.writes ? later : conflict.earlier;
  const uint64_t offset_bytes = conflict.offset_bytes;
  return absl::StrCat(
      Describe(read), " reads through 0x", absl::Hex(read.base + offset_bytes),
      " what ", Describe(write), " writes through 0x",
      absl::Hex(write.base + offset_bytes), ", and is not ordered ",
      later.writes ? "before" : "after", " it: ", conflict.bytes,
      " bytes at offset ", offset_bytes, " of memory ", memory_id);
}

}  // namespace

std::string CoherenceChecker::Begin(const WorkOrder& order, const char* name,
                                    absl::Span<const PhysicalRange> ranges) {
  if (defect_ == CpuDefect::kCoherenceCheckOff) return "";
  std::string report;
  const MutexLock lock(&mutex_);
  const WorkPast past = {&order, &retired_streams_};
  for (const PhysicalRange& range : ranges) {
    MemoryAccess access;
    access.stream_id = order.stream_id;
    access.position = order.position;
    access.name = name;
    access.base = range.address - range.offset_bytes;
    access.writes = range.writes;
    const std::optional<AccessConflict> conflict =
        memories_[range.memory_id].Add(past, access, range.offset_bytes,
                                       range.bytes);
    if (conflict.has_value() && report.empty()) {
      report = Describe(access, range.memory_id, *conflict);
    }
  }
  return report;
}

void CoherenceChecker::Forget(uint64_t memory_id) {
  const MutexLock lock(&mutex_);
  memories_.erase(memory_id);
}

void CoherenceChecker::ForgetStream(uint64_t stream_id) {
  const MutexLock lock(&mutex_);
  retired_streams_.insert(stream_id);
  if (retired_streams_.size() < kRetiredStreamsAtATime) return;
  for (auto it = memories_.begin(); it != memories_.end();) {
    const auto memory = it++;
    memory->second.ForgetStreams(retired_streams_);
    if (memory->second.record_count() == 0) memories_.erase(memory);
  }
  retired_streams_.clear();
}

size_t CoherenceChecker::record_count() const {
  const MutexLock lock(&mutex_);
  size_t count = 0;
  for (const auto& [memory_id, history] : memories_) {
    count += history.record_count();
  }
  return count;
}

}  // namespace firn::cpu
