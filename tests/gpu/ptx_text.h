// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels that measurements launch, as PTX: the driver compiles it for its
// device, so that no compiler is needed.

#ifndef FIRN_TESTS_GPU_PTX_TEXT_H_
#define FIRN_TESTS_GPU_PTX_TEXT_H_

namespace firn::gpu_check {

// For any GPU since Volta:
//
// firn_spin(control, limit_ns, touched): reads the word at `touched`, sets
// control[1], runs until control[0] is set or the time is up, sets control[2].
// For one thread.
//
// firn_read(base, vg_bytes, part_bytes, alias_mask, vg_count, slots,
// interleaved, sink): reads `slots` times 512 bytes of each of `vg_count`
// virtual granules: of granule v, from its part v & alias_mask on. Interleaved:
// neighbouring warps read different granules, else each granule is read from
// its start to its end. For whole warps.
extern const char kPtxText[];

// What one warp of firn_read reads at a time.
inline constexpr unsigned kReadSlotBytes = 512;

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_PTX_TEXT_H_
