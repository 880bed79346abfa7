// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Exportable memory as a file descriptor: a memory file whose size is sealed,
// with the granules from its start on and a last host page that says what they
// are. Any process that gets the descriptor can import it.
//
// How the exporter learns whether anybody still holds what it exported: each
// export is an open file description of its own with a shared lock (flock) on
// it. The kernel drops such a lock with the description's last descriptor and
// last mapping, in whatever process.

#ifndef FIRN_VMM_CPU_SHARED_MEMORY_FILE_H_
#define FIRN_VMM_CPU_SHARED_MEMORY_FILE_H_

#include <cstdint>
#include <utility>

#include "firn/vmm/cpu/private_file.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

struct SharedMemoryInfo {
  // Without contents, the file is its last page alone.
  bool has_contents = true;
  uint64_t granularity_bytes = 0;
  uint64_t bytes = 0;
  AllocationProp prop;
};

// Which file it is; two live files never have the same.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;

  bool operator==(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  template <typename H>
  friend H AbslHashValue(H state, const FileIdentity& identity) {
    return H::combine(std::move(state), identity.device, identity.inode);
  }
};

// Makes the file.
Verdict CreateSharedMemoryFile(const SharedMemoryInfo& info, PrivateFile* file);

// A descriptor of our own for what somebody's `fd` is at this moment: to read
// and to adopt, for `fd` may become another file's at any time.
Verdict ReceiveSharedMemoryFile(int fd, PrivateFile* file);

// Finds out what `fd` is. Returns nullptr, or else the rule that a descriptor
// to import breaks.
const char* ReadSharedMemoryFile(int fd, SharedMemoryInfo* info,
                                 FileIdentity* identity);

// `fd` is open.
FileIdentity IdentityOf(int fd);

// A descriptor of the same file to hand out, closed on exec. (Where /proc is
// missing or forbidden it is a mere duplicate, whose life nobody can see.)
Verdict OpenForExport(int fd, int* exported);

// Whether a descriptor of OpenForExport, a duplicate of one or a mapping made
// through one lives anywhere. `fd` must be none of these.
bool IsExportAlive(int fd);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_SHARED_MEMORY_FILE_H_
