// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace firn::cpu {
namespace {

// Reads a file that holds one number. False where there is none, such as in a
// control group without a limit, which says "max".
bool ReadNumber(const char* path, uint64_t* value) {
  std::ifstream file(path);
  return static_cast<bool>(file >> *value);
}

// MemAvailable of /proc/meminfo; the free pages where that cannot be read.
uint64_t MemAvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kibibytes = 0;
  std::string rest;
  while (file >> name >> kibibytes && std::getline(file, rest)) {
    if (name == "MemAvailable:") return kibibytes << 10;
  }
  const long free_pages = sysconf(_SC_AVPHYS_PAGES);
  return static_cast<uint64_t>(std::max(free_pages, 0L)) * HostPageBytes();
}

}  // namespace

uint64_t HostAvailableBytes() {
  uint64_t available_bytes = MemAvailableBytes();
  uint64_t limit_bytes = 0;
  uint64_t current_bytes = 0;
  if (ReadNumber("/sys/fs/cgroup/memory.max", &limit_bytes) &&
      ReadNumber("/sys/fs/cgroup/memory.current", &current_bytes)) {
    const uint64_t rest_bytes =
        limit_bytes > current_bytes ? limit_bytes - current_bytes : 0;
    available_bytes = std::min(available_bytes, rest_bytes);
  }
  return available_bytes;
}

bool HostTakesHugePageAdvice() {
  // The choice in force stands in brackets. It may change while we run, which
  // costs speed at the most.
  static const bool takes_advice = [] {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    std::string choices;
    std::getline(file, choices);
    return choices.find("[advise]") != std::string::npos;
  }();
  return takes_advice;
}

uint64_t HostPageBytes() {
  static const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return page_bytes;
}

}  // namespace firn::cpu
