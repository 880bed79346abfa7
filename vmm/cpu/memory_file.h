// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory files (memfd) of any use, and why the host refuses one.

#ifndef FIRN_VMM_CPU_MEMORY_FILE_H_
#define FIRN_VMM_CPU_MEMORY_FILE_H_

#include <cstdint>

#include "firn/vmm/cpu/private_file.h"
#include "firn/vmm/cpu/verdict.h"

namespace firn::cpu {

inline constexpr const char* kHostMemoryRule =
    "the host must be able to spare the memory";

// Makes an empty one. `sealable`: seals can be added.
Verdict CreateMemoryFile(const char* name, bool sealable, PrivateFile* file);

// The largest size that a file of this process may have now.
uint64_t MaxFileBytes();

// Refuses a larger one than that. (The kernel would send a signal, SIGXFSZ,
// which ends the process.)
Verdict ResizeMemoryFile(int fd, uint64_t bytes);

// The refusal of a file descriptor for the reason `error`, an errno.
Verdict RefuseFile(int error);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_MEMORY_FILE_H_
