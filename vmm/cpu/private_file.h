// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// File descriptors that a driver keeps for itself. They are closed on exec and
// in forked children too: a child has no driver, and must not keep alive what
// its parent gives up.

#ifndef FIRN_VMM_CPU_PRIVATE_FILE_H_
#define FIRN_VMM_CPU_PRIVATE_FILE_H_

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"

namespace firn::cpu {

// One such descriptor, or none. In a child the descriptor is closed when fork()
// returns, and its number may be another file's: nothing but the destructor,
// which then does nothing, is to be used there.
//
// Thread safety: one object must not be used from two threads at once.
class PrivateFile {
 public:
  PrivateFile() = default;
  // Takes over what Release() of another returned.
  explicit PrivateFile(int released);
  // What `open` returns: a descriptor closed on exec, or -1 with errno set,
  // which stays. No process is forked meanwhile, so `open` must be short.
  static PrivateFile Open(absl::FunctionRef<int()> open);
  ~PrivateFile();
  PrivateFile(PrivateFile&& other) noexcept { *this = std::move(other); }
  PrivateFile& operator=(PrivateFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(forks_before_, other.forks_before_);
    return *this;
  }

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // The descriptor, which a PrivateFile has to take over.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
  // From the first process to the one that the descriptor is open in.
  uint32_t forks_before_ = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_PRIVATE_FILE_H_
