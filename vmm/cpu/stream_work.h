// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A piece of work for a stream, which the stream knows nothing else about.

#ifndef FIRN_VMM_CPU_STREAM_WORK_H_
#define FIRN_VMM_CPU_STREAM_WORK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "firn/vmm/cpu/work_order.h"

namespace firn::cpu {

// All functions are called, and destroyed, with no lock held.
struct StreamWork {
  // What reports call it; lives for ever.
  const char* name = "work";
  // May be empty.
  std::function<void(const WorkOrder&)> run;
  // Unless empty: work that waits. Called again and again until true, then
  // run() is called. Anything may make it true, a write of the host as well.
  std::function<bool(uint64_t queued_stamp)> ready;
  // With `ready`: what makes it true, for reports: "the value at 0x7f... to be
  // >= 1".
  std::string waits_for;
  // The host may learn from this work, without asking, that it ran: a host
  // function, or a write of a value that the host polls. What comes before it
  // counts as seen by the host when it begins, and it itself when it is over.
  bool tells_host = false;
  // Never run by the thread that queues it, which may hold a lock that the work
  // takes.
  bool never_inline = false;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STREAM_WORK_H_
