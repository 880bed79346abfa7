// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/token_streams.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// Streams with ids of the driver, or handles, come after these.
constexpr uint64_t kFirstStreamId = 2;

// The device's driver does not know the stream; another one may.
bool IsUnknownStream(DriverResult result) {
  return result == DriverResult::kInvalidHandle ||
         result == DriverResult::kInvalidContext;
}

// A capture that goes on, of this stream or one that it is ordered with.
bool IsCaptureResult(DriverResult result) {
  return result >= DriverResult::kStreamCaptureUnsupported &&
         result <= DriverResult::kStreamCaptureWrongThread;
}

absl::Status NoStream(StreamHandle stream) {
  return absl::InvalidArgumentError(absl::StrCat(
      "0x", absl::Hex(reinterpret_cast<uintptr_t>(stream)), " is no stream"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenStreams>> TokenStreams::Create(
    std::vector<Driver*> devices) {
  std::unique_ptr<TokenStreams> streams(new TokenStreams(std::move(devices)));
  const ScopedRelaxedCapture relaxed(streams->devices_.front());
  if (!relaxed.status().ok()) return relaxed.status();
  for (Driver* const driver : streams->devices_) {
    EventHandle probe = nullptr;
    const DriverResult result =
        driver->EventCreate(&probe, kEventDisableTiming);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuEventCreate");
    }
    streams->probes_.push_back(probe);
  }
  uint64_t id = 0;
  const DriverResult result =
      streams->devices_.front()->StreamGetId(nullptr, &id);
  if (IsStickyResult(result)) return ToStatus(result, "cuStreamGetId");
  streams->has_ids_ = result != DriverResult::kNotSupported;
  return streams;
}

TokenStreams::TokenStreams(std::vector<Driver*> devices)
    : devices_(std::move(devices)) {
  probes_.reserve(devices_.size());
}

TokenStreams::~TokenStreams() {
  for (size_t device = 0; device < probes_.size(); ++device) {
    devices_[device]->EventDestroy(probes_[device]);
  }
}

absl::StatusOr<uint64_t> TokenStreams::IdOf(StreamHandle stream) const {
  if (stream == nullptr) return kLegacyStreamId;
  if (!has_ids_) return reinterpret_cast<uintptr_t>(stream) + kFirstStreamId;
  for (Driver* const driver : devices_) {
    uint64_t id = 0;
    const DriverResult result = driver->StreamGetId(stream, &id);
    if (result == DriverResult::kSuccess) return id + kFirstStreamId;
    if (!IsUnknownStream(result)) return ToStatus(result, "cuStreamGetId");
  }
  return NoStream(stream);
}

uint64_t TokenStreams::FirstDevicesIdOf(StreamHandle stream) const {
  if (stream == nullptr) return kLegacyStreamId;
  uint64_t id = 0;
  return has_ids_ && devices_.front()->StreamGetId(stream, &id) ==
                         DriverResult::kSuccess
             ? id + kFirstStreamId
             : 0;
}

absl::StatusOr<bool> TokenStreams::IsCapturing(StreamHandle stream,
                                               const StreamPlace& place) const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    Driver* const driver = devices_[(place.device + i) % devices_.size()];
    CaptureStatus status = CaptureStatus::kNone;
    const DriverResult result = driver->StreamIsCapturing(stream, &status);
    if (result == DriverResult::kSuccess) return status != CaptureStatus::kNone;
    // The legacy stream, while another one is captured.
    if (IsCaptureResult(result)) return true;
    if (!IsUnknownStream(result))
      return ToStatus(result, "cuStreamIsCapturing");
  }
  return NoStream(stream);
}

absl::StatusOr<StreamPlace> TokenStreams::Locate(StreamHandle stream) {
  StreamPlace place;
  if (stream == nullptr) return place;
  for (; place.device < devices_.size(); ++place.device) {
    const DriverResult result =
        devices_[place.device]->EventRecord(probes_[place.device], stream);
    if (result == DriverResult::kSuccess) return place;
    if (IsCaptureResult(result)) {
      return absl::FailedPreconditionError("the stream is capturing");
    }
    if (!IsUnknownStream(result)) return ToStatus(result, "cuEventRecord");
  }
  place.device = 0;
  place.is_foreign = true;
  return place;
}

absl::Status TokenStreams::CheckHealth(size_t device) {
  Driver* const driver = devices_[device];
  const ScopedRelaxedCapture relaxed(driver);
  DriverResult result = relaxed.result();
  if (result == DriverResult::kSuccess) {
    result = driver->EventQuery(probes_[device]);
  }
  return IsStickyResult(result) ? ToStatus(result, "cuEventQuery")
                                : absl::OkStatus();
}

}  // namespace firn
