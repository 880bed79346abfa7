// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the functions that this library has beyond vmm/cuda/cuda_api.h
// (those are compared by vmm/cuda/abi_check.cc) with the toolkit's, at compile
// time, where the toolkit is installed. Adds no code.

#if __has_include(<cudaTypedefs.h>)

#include <cudaTypedefs.h>

#include <type_traits>

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

// Whether both are pointers to, or both are values of, what has the same size.
template <typename Ours, typename Theirs>
constexpr bool SamePassing() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Ours>;
    using B = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_scalar_v<A> && std::is_scalar_v<B>) {
      return SamePassing<A, B>();
    }
    return true;
  } else {
    return std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
           sizeof(Ours) == sizeof(Theirs);
  }
}

template <typename Ours, typename Theirs>
struct SameFunction : std::false_type {};

template <typename R1, typename... A1, typename R2, typename... A2>
struct SameFunction<R1(A1...), R2(A2...)> {
  static constexpr bool Compare() {
    if constexpr (sizeof...(A1) == sizeof...(A2)) {
      return SamePassing<R1, R2>() && (SamePassing<A1, A2>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = Compare();
};

// The toolkit names the type of each function by its version.
#if CUDA_VERSION >= 13000
#define FIRN_CHECK_FUNCTION(name, suffix, version, signature)                \
  static_assert(                                                             \
      SameFunction<signature,                                                \
                   std::remove_pointer_t<PFN_cu##name##_v##version>>::value, \
      "cu" #name suffix);
FIRN_LIBCUDA_MORE_SYMBOLS(FIRN_CHECK_FUNCTION)
#undef FIRN_CHECK_FUNCTION
static_assert(kDriverVersion == CUDA_VERSION);
#endif

static_assert(sizeof(DeviceUuid) == sizeof(CUuuid));
static_assert(static_cast<int>(kPeerAccessUnsupported) ==
              CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
static_assert(static_cast<int>(kPeerAccessAlreadyEnabled) ==
              CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(static_cast<int>(kPeerAccessNotEnabled) ==
              CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
static_assert(static_cast<int>(kContextIsDestroyed) ==
              CUDA_ERROR_CONTEXT_IS_DESTROYED);

}  // namespace
}  // namespace firn::libcuda

#endif  // the toolkit's headers
