// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The account of what a driver takes of the host's memory: asks the host what
// it can spare, but not for every allocation.

#ifndef FIRN_VMM_CPU_HOST_ACCOUNT_H_
#define FIRN_VMM_CPU_HOST_ACCOUNT_H_

#include <cstdint>
#include <functional>

namespace firn::cpu {

// Thread safety: none.
class HostAccount {
 public:
  // How much is taken at most before the host is asked again.
  static constexpr uint64_t kHeadroomBytes = uint64_t{256} << 20;

  // `available_bytes` tells what the host can spare now, and `resident_bytes`
  // what it already misses of what was taken: memory is missing once touched.
  HostAccount(std::function<uint64_t()> available_bytes,
              std::function<uint64_t()> resident_bytes);

  // Whether the host can spare `bytes` more; if so, they are taken.
  bool TryTake(uint64_t bytes);
  void Return(uint64_t bytes);

 private:
  const std::function<uint64_t()> available_bytes_;
  const std::function<uint64_t()> resident_bytes_;
  uint64_t taken_bytes_ = 0;
  // Bytes that may be taken before asking the host again. Never more than
  // kHeadroomBytes: others use the host, too.
  uint64_t headroom_bytes_ = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_HOST_ACCOUNT_H_
