// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/memory_file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace firn::cpu {

Verdict CreateMemoryFile(const char* name, bool sealable, PrivateFile* file) {
  const unsigned flags = MFD_CLOEXEC | (sealable ? MFD_ALLOW_SEALING : 0);
  PrivateFile made =
      PrivateFile::Open([name, flags] { return memfd_create(name, flags); });
  if (!made.ok()) return RefuseFile(errno);
  *file = std::move(made);
  return Allow();
}

uint64_t MaxFileBytes() {
  constexpr auto kMaxOffset =
      static_cast<uint64_t>(std::numeric_limits<off_t>::max());
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return kMaxOffset;
  return std::min<uint64_t>(limit.rlim_cur, kMaxOffset);
}

Verdict ResizeMemoryFile(int fd, uint64_t bytes) {
  if (bytes > MaxFileBytes()) {
    return Refuse(DriverResult::kOutOfMemory,
                  "the memory must fit into a file of the process, whose limit "
                  "is RLIMIT_FSIZE");
  }
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  return Allow();
}

Verdict RefuseFile(int error) {
  switch (error) {
    case EMFILE:
      return Refuse(DriverResult::kOutOfMemory,
                    "the process must have a file descriptor to spare");
    case ENFILE:
      return Refuse(DriverResult::kOutOfMemory,
                    "the host must have an open file to spare");
    case ENOMEM:
    case ENOSPC:
      return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
    default:
      return Refuse(DriverResult::kOutOfMemory,
                    "the host must let the process have memory files");
  }
}

}  // namespace firn::cpu
