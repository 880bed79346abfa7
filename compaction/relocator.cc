// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/relocator.h"

#include "absl/memory/memory.h"
#include "firn/vmm/driver_status.h"

namespace firn {

absl::StatusOr<std::unique_ptr<Relocator>> Relocator::Create(
    Driver* driver, const AddressSpace* address_space, MappingTable* mappings) {
  // Non-blocking: it must not order itself with the user's default stream.
  StreamHandle stream = nullptr;
  DriverResult result = driver->StreamCreate(&stream, kStreamNonBlocking);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuStreamCreate", "background stream");
  }
  EventHandle event = nullptr;
  result = driver->EventCreate(&event, kEventDisableTiming);
  if (result != DriverResult::kSuccess) {
    driver->StreamDestroy(stream);
    return ToStatus(result, "cuEventCreate");
  }
  return absl::WrapUnique(
      new Relocator(driver, address_space, mappings, stream, event));
}

Relocator::Relocator(Driver* driver, const AddressSpace* address_space,
                     MappingTable* mappings, StreamHandle stream,
                     EventHandle event)
    : driver_(driver),
      address_space_(address_space),
      mappings_(mappings),
      stream_(stream),
      event_(event) {}

Relocator::~Relocator() {
  driver_->EventDestroy(event_);
  driver_->StreamDestroy(stream_);
}

absl::Status Relocator::Copy(absl::Span<const Relocation> moves) {
  for (const Relocation& move : moves) {
    const DevicePtr source = address_space_->AddressOf(move.vg);
    const DevicePtr host = address_space_->AddressOf(move.through);
    for (const OffsetInterval& extent : move.extents) {
      const uint64_t offset_bytes = QuantaToBytes(extent.lo);
      const DriverResult result =
          driver_->MemcpyDtoDAsync(host + offset_bytes, source + offset_bytes,
                                   QuantaToBytes(extent.quanta()), stream_);
      if (result != DriverResult::kSuccess) {
        return ToStatus(result, "cuMemcpyDtoDAsync");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Relocator::Relocate(absl::Span<const Relocation> moves) {
  if (moves.empty()) return absl::OkStatus();
  absl::Status status = Copy(moves);
  if (status.ok()) {
    status = ToStatus(driver_->EventRecord(event_, stream_), "cuEventRecord");
  }
  if (status.ok()) {
    // The host itself confirms the copies: remapping is ordered by nothing
    // else.
    status = ToStatus(driver_->EventSynchronize(event_), "cuEventSynchronize");
  }
  if (!status.ok()) {
    // Copies already queued may still be writing to the hosts. Nobody may be
    // given those bytes before they are done.
    driver_->StreamSynchronize(stream_);
    return status;
  }
  changes_.clear();
  for (const Relocation& move : moves) {
    MappingChange change;
    change.vg = move.vg;
    change.to = move.to;
    changes_.push_back(change);
  }
  return mappings_->Apply(changes_);
}

}  // namespace firn
