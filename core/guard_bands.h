// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Patterns in device memory: written around blocks and into freed ones, and
// looked for again.

#ifndef FIRN_CORE_GUARD_BANDS_H_
#define FIRN_CORE_GUARD_BANDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "firn/vmm/driver.h"

namespace firn {

// None of them 0, nor all bits set, nor each other: a program that writes one
// of these is rare, and one that reads them shows.
inline constexpr uint8_t kGuardPattern = 0xB7;
inline constexpr uint8_t kFreshPattern = 0xCB;  // handed out, not written yet
inline constexpr uint8_t kFreedPattern = 0xDE;

// Bytes that differ from what was written.
struct Damage {
  uint64_t first = 0;  // offset from the start of what was looked at
  uint64_t last = 0;
  uint64_t bytes = 0;  // how many differ, of those from first to last
  uint8_t found = 0;   // at `first`
};

// Pure; nullopt: every byte is `pattern`.
std::optional<Damage> FindDamage(absl::Span<const uint8_t> bytes,
                                 uint8_t pattern);
// `later` was found at `offset` behind the start of what `damage` is of.
void AddDamage(const Damage& later, uint64_t offset,
               std::optional<Damage>* damage);

// Writes and reads patterns on a stream of its own, in the order of the calls.
// Waits for nothing but its own work; the caller knows that nothing else uses
// the memory that is named. All calls are made in the relaxed capture mode.
// Thread safety: none; guarded by its owner.
class GuardBands {
 public:
  // Does not own `driver`, which must outlive this object.
  static absl::StatusOr<std::unique_ptr<GuardBands>> Create(Driver* driver);
  ~GuardBands();
  GuardBands(const GuardBands&) = delete;
  GuardBands& operator=(const GuardBands&) = delete;

  StreamHandle stream() const { return stream_; }

  // Begins to fill `bytes` at `address`; nothing if they are 0.
  absl::Status Fill(DevicePtr address, uint8_t pattern, uint64_t bytes);
  // Waits until what was begun is done.
  absl::Status Finish();
  // Reads `bytes` at `address` back, in pieces of at most a mebibyte, and
  // compares.
  absl::StatusOr<std::optional<Damage>> Find(DevicePtr address, uint8_t pattern,
                                             uint64_t bytes);

 private:
  GuardBands(Driver* driver, StreamHandle stream)
      : driver_(driver), stream_(stream), host_(kPieceBytes) {}

  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

  Driver* const driver_;
  const StreamHandle stream_;
  // What is read back. It stays where it is: a copy may go on after a wait that
  // failed.
  std::vector<uint8_t> host_;
};

}  // namespace firn

#endif  // FIRN_CORE_GUARD_BANDS_H_
