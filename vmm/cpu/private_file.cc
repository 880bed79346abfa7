// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/private_file.h"

#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {
namespace {

// Which descriptors are private. A forked child closes them, and must not
// allocate or free memory for that: hence flags, indexed by descriptor.
class Registry {
 public:
  // The process's, never destroyed: a fork may come at any time.
  static Registry& OfProcess() {
    static auto* const registry = new Registry();
    [[maybe_unused]] static const int registered =
        pthread_atfork(&PrepareFork, &AfterForkInParent, &AfterForkInChild);
    return *registry;
  }

  int Open(absl::FunctionRef<int()> open) {
    MutexLock lock(&mutex_);
    const int fd = open();
    if (fd < 0) return fd;
    const auto index = static_cast<size_t>(fd);
    if (index >= is_private_.size()) is_private_.resize(2 * index + 1, 0);
    is_private_[index] = 1;
    return fd;
  }

  // Under the mutex throughout: were the descriptor open but not registered, or
  // the other way round, a fork might come just then.
  void Close(int fd, uint32_t forks_before) {
    MutexLock lock(&mutex_);
    if (forks_before != forks_) return;  // the parent's
    is_private_[static_cast<size_t>(fd)] = 0;
    close(fd);
  }

  uint32_t forks() {
    MutexLock lock(&mutex_);
    return forks_;
  }

 private:
  // The analysis cannot follow a lock that is held across functions.
  static void PrepareFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    OfProcess().mutex_.Lock();
  }
  static void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    OfProcess().mutex_.Unlock();
  }
  static void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Registry& registry = OfProcess();
    for (size_t fd = 0; fd < registry.is_private_.size(); ++fd) {
      if (registry.is_private_[fd] == 0) continue;
      registry.is_private_[fd] = 0;
      close(static_cast<int>(fd));
    }
    ++registry.forks_;
    registry.mutex_.Unlock();
  }

  Mutex mutex_;
  std::vector<char> is_private_ ABSL_GUARDED_BY(mutex_);
  uint32_t forks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

PrivateFile::PrivateFile(int released)
    : fd_(released), forks_before_(Registry::OfProcess().forks()) {}

PrivateFile PrivateFile::Open(absl::FunctionRef<int()> open) {
  return PrivateFile(Registry::OfProcess().Open(open));
}

PrivateFile::~PrivateFile() {
  if (ok()) Registry::OfProcess().Close(fd_, forks_before_);
}

}  // namespace firn::cpu
