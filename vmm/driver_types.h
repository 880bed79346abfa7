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
struct CUgraph_st;
struct CUgraphExec_st;

namespace firn {

// A device virtual address (CUdeviceptr).
using DevicePtr = uint64_t;
// One physical allocation (CUmemGenericAllocationHandle).
using PhysicalHandle = uint64_t;
// Streams and events (CUstream, CUevent). nullptr is the legacy default stream.
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
// What a capture recorded, and its form that can be launched (CUgraph,
// CUgraphExec).
using GraphHandle = CUgraph_st*;
using GraphExecHandle = CUgraphExec_st*;
// What a stream may call on the host (CUhostFn). It must call no driver.
using HostFunction = void (*)(void* user_data);

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
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
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
  kHostNumaCurrent = 4,
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

// CUstreamCaptureMode, of a capture and of a thread.
enum class CaptureMode : int32_t {
  kGlobal = 0,
  kThreadLocal = 1,
  kRelaxed = 2
};

// CUdevice_attribute: what firn asks of a device.
enum class DeviceAttribute : int32_t {
  kUnifiedAddressing = 41,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kVirtualMemoryManagement = 102,
  kPosixFileDescriptorHandles = 103,
  kGpuDirectRdmaWithVmm = 110,
  k64BitStreamMemOps = 122,
  kStreamWaitValueNor = 123,
  kFabricHandles = 128,
  kHostNumaId = 134,
  kHostNumaVirtualMemoryManagement = 141,
  kHostVirtualMemoryManagement = 145,
};

// CUpointer_attribute, each with the type of what is returned.
enum class PointerAttribute : int32_t {
  kMemoryType = 2,           // uint32_t: 1 host, 2 device
  kDeviceOrdinal = 9,        // int32_t
  kIsLegacyIpcCapable = 10,  // bool (one byte)
  kRangeStart = 11,          // DevicePtr: of the reservation
  kRangeBytes = 12,          // size_t: of the reservation
  kMapped = 13,              // bool (one byte)
  kAllowedHandleTypes = 14,  // uint64_t
  kIsRdmaCapable = 15,       // bool (one byte)
  kAccessFlags = 16,         // int32_t, of the device
  kMappingBytes = 18,        // size_t
  kMappingStart = 19,        // DevicePtr
};

// CUstreamWaitValue_flags: wait until the value at the address, `v`, is so.
inline constexpr uint32_t kWaitValueGeq = 0;  // signed (v - value) >= 0
inline constexpr uint32_t kWaitValueEq = 1;   // v == value
inline constexpr uint32_t kWaitValueAnd = 2;  // (v & value) != 0
inline constexpr uint32_t kWaitValueNor = 3;  // ~(v | value) != 0
// CUstreamWriteValue_flags.
inline constexpr uint32_t kWriteValueDefault = 0;
inline constexpr uint32_t kWriteValueNoMemoryBarrier = 1;

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
