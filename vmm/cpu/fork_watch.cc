// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/fork_watch.h"

#include <pthread.h>

namespace firn::cpu {

std::atomic<uint32_t> ForkWatch::forks_{0};

ForkWatch::ForkWatch() : forks_before_(forks_.load()) {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, &ForkWatch::CountFork);
}

}  // namespace firn::cpu
