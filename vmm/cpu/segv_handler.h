// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The process's SIGSEGV handler: asks firn first, and passes on what firn does
// not know to whoever handled the signal before.

#ifndef FIRN_VMM_CPU_SEGV_HANDLER_H_
#define FIRN_VMM_CPU_SEGV_HANDLER_H_

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Async-signal-safe. True: the access shall be tried again.
using FaultResolver = bool (*)(DevicePtr address);

// Installs the handler, once per process: later calls have no effect, so that
// handlers installed after it stay in front of it. It is never removed.
void InstallSegvHandler(FaultResolver resolver);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_SEGV_HANDLER_H_
