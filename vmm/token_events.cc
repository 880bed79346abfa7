// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/token_events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {

TokenEvents::TokenEvents(std::vector<Driver*> devices,
                         const TokenEventsOptions& options)
    : devices_(std::move(devices)),
      options_(options),
      spares_(devices_.size()) {}

TokenEvents::~TokenEvents() {
  for (size_t device = 0; device < devices_.size(); ++device) {
    for (const EventHandle event : spares_[device].events) {
      devices_[device]->EventDestroy(event);
    }
  }
}

absl::Status TokenEvents::Begin(TokenRecord* record) {
  // Writing is to allocate nothing from then on.
  if (options_.record_is_stream) {
    record->events.reserve(options_.max_pending_events);
  }
  return absl::OkStatus();
}

absl::Status TokenEvents::Write(TokenRecord* record, StreamHandle stream,
                                uint64_t sequence) {
  if (record->place.is_foreign) {
    return absl::UnimplementedError(
        "no event can be recorded on a stream of a context that is not the "
        "device's own, and values cannot be written");
  }
  const size_t device = record->place.device;
  if (IsFull(*record)) {
    const absl::Status status = MakeRoom(record);
    if (!status.ok()) return status;
  }
  if (IsFull(*record)) {
    PendingEvent& latest = record->events.back();
    const DriverResult result =
        devices_[device]->EventRecord(latest.event, stream);
    if (result == DriverResult::kSuccess) latest.sequence = sequence;
    return ToStatus(result, "cuEventRecord");
  }
  PendingEvent pending;
  pending.device = device;
  pending.sequence = sequence;
  const absl::Status taken = TakeEvent(device, &pending.event);
  if (!taken.ok()) return taken;
  const DriverResult result =
      devices_[device]->EventRecord(pending.event, stream);
  if (result == DriverResult::kSuccess) {
    record->events.push_back(pending);
  } else {
    spares_[device].events.push_back(pending.event);
  }
  return ToStatus(result, "cuEventRecord");
}

absl::Status TokenEvents::Poll(TokenRecord* record, uint64_t sequence) {
  for (size_t i = 0; i < record->events.size(); ++i) {
    const bool covers = record->events[i].sequence >= sequence;
    if (options_.record_is_stream && !covers) continue;
    bool done = false;
    const absl::Status status = Query(record->events[i], &done);
    if (!status.ok() || !done) {
      if (!options_.record_is_stream) Recycle(record, i);
      return status;
    }
    if (covers) {
      Recycle(record, i + 1);
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

void TokenEvents::End(TokenRecord* record) {
  Recycle(record, record->events.size());
}

absl::Status TokenEvents::Check(const TokenRecord& record) const {
  const std::vector<PendingEvent>& events = record.events;
  if (record.is_pending() != !events.empty()) {
    return absl::InternalError(
        absl::StrCat("stream ", record.stream_id, " has ", events.size(),
                     " events, but tokens up to ", record.written,
                     " are written and up to ", record.done, " done"));
  }
  uint64_t before = record.done;
  for (const PendingEvent& pending : events) {
    if (pending.sequence <= before) {
      return absl::InternalError(
          absl::StrCat("stream ", record.stream_id, ": an event of sequence ",
                       pending.sequence, " comes after ", before));
    }
    before = pending.sequence;
  }
  if (before != record.written) {
    return absl::InternalError(
        absl::StrCat("stream ", record.stream_id, ": the last event is of ",
                     before, ", the last token is ", record.written));
  }
  if (options_.record_is_stream &&
      events.size() > options_.max_pending_events) {
    return absl::InternalError(absl::StrCat("stream ", record.stream_id,
                                            " has ", events.size(),
                                            " pending events"));
  }
  return absl::OkStatus();
}

bool TokenEvents::IsFull(const TokenRecord& record) const {
  return options_.record_is_stream &&
         record.events.size() >= options_.max_pending_events;
}

absl::Status TokenEvents::MakeRoom(TokenRecord* record) {
  bool done = false;
  absl::Status status = Query(record->events.front(), &done);
  if (!status.ok() || !done) return status;
  // Most often the stream has kept up, and one question tells.
  status = Query(record->events.back(), &done);
  if (!status.ok()) return status;
  Recycle(record, done ? record->events.size() : 1);
  return absl::OkStatus();
}

absl::Status TokenEvents::TakeEvent(size_t device, EventHandle* event) {
  Spares& spares = spares_[device];
  if (!spares.events.empty()) {
    *event = spares.events.back();
    spares.events.pop_back();
    return absl::OkStatus();
  }
  if (spares.created == spares.events.capacity()) {
    spares.events.reserve(2 * spares.created + 8);
  }
  const ScopedRelaxedCapture relaxed(devices_[device]);
  if (!relaxed.status().ok()) return relaxed.status();
  const DriverResult result =
      devices_[device]->EventCreate(event, kEventDisableTiming);
  if (result == DriverResult::kSuccess) ++spares.created;
  return ToStatus(result, "cuEventCreate");
}

void TokenEvents::Recycle(TokenRecord* record, size_t count) {
  if (count == 0) return;
  const auto end = record->events.begin() + static_cast<ptrdiff_t>(count);
  for (auto it = record->events.begin(); it != end; ++it) {
    record->done = it->sequence;
    spares_[it->device].events.push_back(it->event);
  }
  record->events.erase(record->events.begin(), end);
}

absl::Status TokenEvents::Query(const PendingEvent& pending, bool* done) {
  Driver* const driver = devices_[pending.device];
  const ScopedRelaxedCapture relaxed(driver);
  if (relaxed.result() != DriverResult::kSuccess) return relaxed.status();
  const DriverResult result = driver->EventQuery(pending.event);
  *done = result == DriverResult::kSuccess;
  return *done || result == DriverResult::kNotReady
             ? absl::OkStatus()
             : ToStatus(result, "cuEventQuery");
}

}  // namespace firn
