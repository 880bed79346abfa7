// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/segv_handler.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace firn::cpu {
namespace {

// Written before the handler is installed, then only read.
FaultResolver fault_resolver = nullptr;
struct sigaction previous_action;

// Lets the default action happen: the signal ends the process, with the cause
// that it has now.
void DieByDefault(int signal_number, const siginfo_t* info) {
  struct sigaction default_action = {};
  default_action.sa_handler = SIG_DFL;
  sigaction(signal_number, &default_action, nullptr);
  // A fault happens again when the handler returns. A signal that a process
  // sent does not: send it again, to be delivered when the handler returns.
  if (info->si_code <= 0) {
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal_number);
  }
}

void CallPrevious(int signal_number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
  } else if (previous_action.sa_handler == SIG_DFL) {
    DieByDefault(signal_number, info);
  } else if (previous_action.sa_handler == SIG_IGN) {
    // The kernel lets nobody ignore a fault.
    if (info->si_code > 0) DieByDefault(signal_number, info);
  } else {
    previous_action.sa_handler(signal_number);
  }
}

void HandleSegv(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // Signals that a process sent carry no address.
  const bool is_fault = info->si_code > 0;
  if (!is_fault ||
      !fault_resolver(reinterpret_cast<uintptr_t>(info->si_addr))) {
    CallPrevious(signal_number, info, context);
  }
  errno = saved_errno;
}

bool Install(FaultResolver resolver) {
  fault_resolver = resolver;
  sigaction(SIGSEGV, nullptr, &previous_action);
  struct sigaction action = {};
  action.sa_sigaction = &HandleSegv;
  // On the alternate stack where a thread has one, and with the signals blocked
  // that the previous handler wants blocked: it may be called.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  action.sa_mask = previous_action.sa_mask;
  sigaction(SIGSEGV, &action, nullptr);
  return true;
}

}  // namespace

void InstallSegvHandler(FaultResolver resolver) {
  [[maybe_unused]] static const bool installed = Install(resolver);
}

}  // namespace firn::cpu
