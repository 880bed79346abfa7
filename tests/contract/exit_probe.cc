// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/exit_probe.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/contract/runner.h"

namespace firn::contract {
namespace {

std::function<std::string()>& Probe() {
  static auto* const probe = new std::function<std::string()>;
  return *probe;
}

void RunProbe() {
  if (!HasExitProbe()) return;
  const std::string wrong = Probe()();
  if (wrong.empty()) return;
  std::printf("FAILED while the process ended: %s\n", wrong.c_str());
  std::fflush(stdout);
  _exit(kExitFailed);
}

}  // namespace

void InstallExitProbe() {
  Probe() = nullptr;
  if (std::atexit(&RunProbe) != 0) std::abort();
}

void SetExitProbe(std::function<std::string()> probe) {
  Probe() = std::move(probe);
}

bool HasExitProbe() { return Probe() != nullptr; }

}  // namespace firn::contract
