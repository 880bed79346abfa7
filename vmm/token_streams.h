// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which stream a handle is, where it is, and whether anything may be queued on
// it, found out without changing anything about it. Private to the tracker.

#ifndef FIRN_VMM_TOKEN_STREAMS_H_
#define FIRN_VMM_TOKEN_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/token_writer.h"

namespace firn {

// Thread safety: IdOf may be called from any thread at any time; the rest is
// guarded by its owner.
class TokenStreams {
 public:
  // Does not own `devices`, which must outlive this object.
  static absl::StatusOr<std::unique_ptr<TokenStreams>> Create(
      std::vector<Driver*> devices);
  ~TokenStreams();
  TokenStreams(const TokenStreams&) = delete;
  TokenStreams& operator=(const TokenStreams&) = delete;

  // Whether the driver has ids. If not, a stream is known by its handle, which
  // another one may have later.
  bool has_ids() const { return has_ids_; }
  // The legacy default stream of the first device, nullptr; others come after.
  static constexpr uint64_t kLegacyStreamId = 1;
  // Never 0, and the same for as long as the stream lives. InvalidArgument: no
  // stream.
  absl::StatusOr<uint64_t> IdOf(StreamHandle stream) const;
  // The same, without a status: 0 if the driver has no ids, or its first device
  // does not know the stream.
  uint64_t FirstDevicesIdOf(StreamHandle stream) const;
  // Whether nothing may be queued on the stream, because that would become part
  // of a capture or invalidate one. Asks the device of `place` first; of a
  // foreign stream, or one of unknown place, the others as well.
  absl::StatusOr<bool> IsCapturing(StreamHandle stream,
                                   const StreamPlace& place) const;
  // Tries each device. The stream must not be capturing. FailedPrecondition: it
  // is.
  absl::StatusOr<StreamPlace> Locate(StreamHandle stream);
  // DataLoss: that device is lost.
  absl::Status CheckHealth(size_t device);

 private:
  explicit TokenStreams(std::vector<Driver*> devices);

  const std::vector<Driver*> devices_;
  bool has_ids_ = true;
  // One of each device: it can be recorded on the streams of its own context.
  std::vector<EventHandle> probes_;
};

}  // namespace firn

#endif  // FIRN_VMM_TOKEN_STREAMS_H_
