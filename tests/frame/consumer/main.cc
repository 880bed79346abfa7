// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Allocates from a pool of the installed library and writes to the memory. Runs
// on the CPU driver (FIRN_DRIVER=cpu), whose addresses the host may touch.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/pool.h"

namespace {

constexpr uint64_t kBlockBytes = 3 << 20;

absl::Status Run() {
  firn::PoolOptions options;
  options.capacity_bytes = uint64_t{64} << 20;
  absl::StatusOr<std::unique_ptr<firn::Pool>> pool =
      firn::Pool::Create(options);
  if (!pool.ok()) return pool.status();
  if ((*pool)->GetStats().backend != "cpu") {
    return absl::FailedPreconditionError("run this with FIRN_DRIVER=cpu");
  }

  std::vector<unsigned char*> blocks;
  for (unsigned char value = 1; value <= 8; ++value) {
    absl::StatusOr<void*> block = (*pool)->Allocate(kBlockBytes);
    if (!block.ok()) return block.status();
    std::memset(*block, value, kBlockBytes);
    blocks.push_back(static_cast<unsigned char*>(*block));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (uint64_t byte = 0; byte < kBlockBytes; ++byte) {
      if (blocks[i][byte] != i + 1) {
        return absl::DataLossError("a block lost what was written to it");
      }
    }
    absl::Status freed = (*pool)->Free(blocks[i]);
    if (!freed.ok()) return freed;
  }
  if ((*pool)->GetUsage().live_bytes != 0) {
    return absl::InternalError("bytes are live after the last block was freed");
  }
  return (*pool)->CheckInvariants();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
