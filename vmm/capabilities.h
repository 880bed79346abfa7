// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a driver's device can do, found out by asking and by trying, with the
// reason for each answer. What a device says of itself and what it then permits
// differ: virtual GPUs, containers and old drivers refuse what an attribute
// promises.

#ifndef FIRN_VMM_CAPABILITIES_H_
#define FIRN_VMM_CAPABILITIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "firn/vmm/driver.h"

namespace firn {

struct Capability {
  bool available = false;
  // How that was found or, where it is not available, why not. Never empty.
  std::string reason;
};

struct Peer {
  int32_t ordinal = 0;
  // Whether this device can be given access to memory of that one.
  Capability access;
};

// Of one kind of memory; 0 where the driver does not say, for `reason`.
struct Granularity {
  uint64_t minimum_bytes = 0;
  uint64_t recommended_bytes = 0;
  std::string reason;
};

// 0 where the driver does not say, for `reason`.
struct MemoryAmount {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  std::string reason;
};

struct Capabilities {
  // Memory can be reserved, created, mapped, made accessible and given back:
  // what all moving stands on. A device without free memory cannot show it.
  Capability virtual_memory;
  // Streams have ids, unlike their handles never used twice.
  Capability stream_ids;
  // 64-bit values can be written by streams.
  Capability stream_values_64;
  // Kinds of exportable memory.
  Capability posix_file_descriptors;
  Capability rdma;
  Capability fabric_handles;
  // Memory of the host can stand behind addresses that the device reads and
  // writes; from where, `host_location` tells (kInvalid: from nowhere).
  Capability host_spill;
  MemLocation host_location;
  // The thread's capture mode can be changed (vmm/relaxed_capture.h).
  Capability relaxed_capture;
  // Whether that is so of any other device, and of each.
  Capability peer_access;
  std::vector<Peer> peers;

  Granularity movable_granularity;
  Granularity host_granularity;  // of host_location
  MemoryAmount memory;
};

// Asks and tries. Leaves the device as it was, whichever call fails; makes its
// calls in the relaxed capture mode. The trials allocate a few granules, one
// at a time, and unmap them: with some drivers that waits for all work of the
// device, so no work may be waiting for the calling thread.
Capabilities ProbeCapabilities(Driver* driver);

// Whether memory of ExportableProp(types, rdma_capable) can be had: by each
// attribute that it needs, and a trial, in the thread's own capture mode.
Capability ProbeExportable(Driver* driver, ShareableHandleType types,
                           bool rdma_capable);

// Capabilities::host_spill alone: memory of the host at large if it can be had,
// else of the nearest node. Writes to `location` where from, kInvalid if from
// nowhere. In the thread's own capture mode.
Capability ProbeHostSpill(Driver* driver, MemLocation* location);

// Capabilities::virtual_memory alone, in the thread's own capture mode.
// `*refusal` is what the first call that was refused returned; kSuccess if none
// was.
Capability ProbeVirtualMemory(Driver* driver, DriverResult* refusal);

}  // namespace firn

#endif  // FIRN_VMM_CAPABILITIES_H_
