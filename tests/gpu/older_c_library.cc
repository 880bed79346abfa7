// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the C++ library, linked into the program, wants from the newest C
// library: with it the program runs on older ones as well.

#include <sys/random.h>

#include <cstdint>

extern "C" uint32_t arc4random() noexcept {
  uint32_t value = 0;
  // Interrupted by a signal at worst.
  while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
  }
  return value;
}
