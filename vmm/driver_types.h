// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The few CUDA Driver types and constants that firn uses, declared by firn
// itself so that no header of ours needs cuda.h. Sizes, offsets and values are
// checked against cuda.h by vmm/cuda/abi_check.cc wherever the toolkit is
// installed.

#ifndef FIRN_VMM_DRIVER_TYPES_H_
#define FIRN_VMM_DRIVER_TYPES_H_

#include <cstddef>
#include <cstdint>

struct CUstream_st;
struct CUevent_st;

namespace firn {

// A device virtual address (CUdeviceptr).
using DevicePtr = uint64_t;
// One physical allocation (CUmemGenericAllocationHandle).
using PhysicalHandle = uint64_t;
// Streams and events (CUstream, CUevent). nullptr is the legacy default stream.
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;

// CUresult: the values that the calls of vmm/driver.h return. Other values of
// a real driver are carried through unchanged.
enum class DriverResult : int32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kMapFailed = 205,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureImplicit = 906,
  kUnknown = 999,
};

// CUmemAllocationType.
enum class AllocationType : int32_t { kInvalid = 0, kPinned = 1 };

// CUmemLocationType.
enum class LocationType : int32_t {
  kInvalid = 0,
  kDevice = 1,
  kHost = 2,
  kHostNuma = 3,
};

// CUmemAllocationHandleType (a bit set).
enum class ShareableHandleType : int32_t {
  kNone = 0,
  kPosixFileDescriptor = 1,
  kFabric = 8,
};

// CUmemAccess_flags.
enum class AccessFlags : int32_t { kNone = 0, kRead = 1, kReadWrite = 3 };

// CUmemAllocationGranularity_flags.
enum class GranularityKind : int32_t { kMinimum = 0, kRecommended = 1 };

// CUstreamCaptureStatus.
enum class CaptureStatus : int32_t { kNone = 0, kActive = 1, kInvalidated = 2 };

// CU_STREAM_DEFAULT and CU_STREAM_NON_BLOCKING.
inline constexpr uint32_t kStreamDefault = 0;
inline constexpr uint32_t kStreamNonBlocking = 1;
// CU_EVENT_DEFAULT and CU_EVENT_DISABLE_TIMING.
inline constexpr uint32_t kEventDefault = 0;
inline constexpr uint32_t kEventDisableTiming = 2;

// CUmemLocation.
struct MemLocation {
  LocationType type = LocationType::kInvalid;
  int32_t id = 0;
};

// CUmemAllocationProp. Reserved bytes stay zero, as the driver requires.
struct AllocationProp {
  AllocationType type = AllocationType::kInvalid;
  ShareableHandleType requested_handle_types = ShareableHandleType::kNone;
  MemLocation location;
  void* win32_handle_metadata = nullptr;
  struct {
    unsigned char compression_type = 0;
    unsigned char gpu_direct_rdma_capable = 0;
    uint16_t usage = 0;
    unsigned char reserved[4] = {0, 0, 0, 0};
  } alloc_flags;
};

// CUmemAccessDesc.
struct AccessDesc {
  MemLocation location;
  AccessFlags flags = AccessFlags::kNone;
};

}  // namespace firn

#endif  // FIRN_VMM_DRIVER_TYPES_H_
