// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether and where from a pool takes host memory to spill to.

#ifndef FIRN_CORE_HOST_MEMORY_CHOICE_H_
#define FIRN_CORE_HOST_MEMORY_CHOICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "firn/core/pool_options.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/granule_store.h"

namespace firn {

// Adds memory of the host to the options of a store whose granules have their
// size already, as far as `options` want it and the device can use it.
// `why_not` says why there is none to spill to, and stays empty otherwise;
// `never_moves` why nothing moves at all, if that is so. InvalidArgument: less
// than a granule is wanted. Tries the device with a granule of it, in the
// relaxed capture mode.
absl::Status ChooseHostMemory(const PoolOptions& options, Driver* driver,
                              absl::string_view never_moves,
                              GranuleStoreOptions* store, std::string* why_not);

}  // namespace firn

#endif  // FIRN_CORE_HOST_MEMORY_CHOICE_H_
