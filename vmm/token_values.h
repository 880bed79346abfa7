// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tokens as values: counters in host memory that the devices reach. One memory
// read polls them, and they work on streams of any context. Private to the
// tracker.

#ifndef FIRN_VMM_TOKEN_VALUES_H_
#define FIRN_VMM_TOKEN_VALUES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/token_writer.h"

namespace firn {

// A counter for each record, in one granule. It holds the sequence of the last
// token that is done: sequences grow, and a stream writes its own in order. A
// counter goes to another record when its record has ended with nothing
// pending; what it held then is lower than what comes.
class TokenValues : public TokenWriter {
 public:
  // Makes the memory, and tries a write from each device. DataLoss: a device is
  // lost. Any other error says what the devices cannot do. Does not own
  // `devices`, which must outlive this object.
  static absl::StatusOr<std::unique_ptr<TokenValues>> Create(
      std::vector<Driver*> devices);
  // Gives the memory back, unless a write to it may still be in flight.
  ~TokenValues() override;
  TokenValues(const TokenValues&) = delete;
  TokenValues& operator=(const TokenValues&) = delete;

  // ResourceExhausted: all counters are taken.
  absl::Status Begin(TokenRecord* record) override;
  // Of a foreign stream, through each device until one accepts it;
  // Unimplemented: none does.
  absl::Status Write(TokenRecord* record, StreamHandle stream,
                     uint64_t sequence) override;
  absl::Status Poll(TokenRecord* record, uint64_t sequence) override;
  void End(TokenRecord* record) override;
  absl::Status Check(const TokenRecord& record) const override;

 private:
  explicit TokenValues(std::vector<Driver*> devices)
      : devices_(std::move(devices)) {}

  // What is needed of the devices, by what they say.
  absl::Status CheckAttributes() const;
  // Makes the memory; after an error, the destructor undoes what was done.
  absl::Status MakeMemory(const MemLocation& location);
  // Writes from each device and reads what arrives.
  absl::Status TryWrites();
  absl::Status TryWrite(Driver* driver, uint64_t value);

  DevicePtr AddressOf(uint32_t counter) const {
    return base_ + counter * sizeof(uint64_t);
  }
  uint64_t Load(uint32_t counter) const;
  void Store(uint32_t counter, uint64_t value);

  const std::vector<Driver*> devices_;
  uint64_t bytes_ = 0;
  DevicePtr base_ = 0;  // 0: no addresses
  bool has_handle_ = false;
  PhysicalHandle handle_ = 0;
  bool mapped_ = false;
  // A write may be in flight that nobody will hear of.
  bool abandoned_ = false;

  std::vector<uint32_t> free_counters_;
  uint32_t counters_begun_ = 0;  // the others were never used
};

}  // namespace firn

#endif  // FIRN_VMM_TOKEN_VALUES_H_
