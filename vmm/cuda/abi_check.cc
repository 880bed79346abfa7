// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares firn's own declarations of the CUDA Driver API with the toolkit's,
// at compile time, where the toolkit is installed. Adds no code.

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <type_traits>

#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"

namespace firn {
namespace {

// Whether a value of type Ours and one of type Theirs are passed alike: the
// names of types differ (uint64_t and unsigned long long), the bits do not.
template <typename Ours, typename Theirs>
constexpr bool SameAbi() {
  using A = std::remove_cv_t<Ours>;
  using B = std::remove_cv_t<Theirs>;
  if constexpr (std::is_same_v<A, B>) {
    return true;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using PointeeA = std::remove_pointer_t<A>;
    using PointeeB = std::remove_pointer_t<B>;
    return std::is_const_v<PointeeA> == std::is_const_v<PointeeB> &&
           SameAbi<PointeeA, PointeeB>();
  } else if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    return sizeof(A) == sizeof(B) && std::is_signed_v<A> == std::is_signed_v<B>;
  } else if constexpr ((std::is_enum_v<A> ||
                        std::is_integral_v<A>)&&std::is_enum_v<B>) {
    return sizeof(A) == sizeof(B);
  } else if constexpr (std::is_class_v<A> && std::is_class_v<B>) {
    // Their members are compared below.
    return sizeof(A) == sizeof(B) && alignof(A) == alignof(B);
  } else {
    return false;
  }
}

template <typename Ours, typename Theirs>
struct SameFunctionAbi : std::false_type {};

template <typename R1, typename... A1, typename R2, typename... A2>
struct SameFunctionAbi<R1(A1...), R2(A2...)> {
  static constexpr bool Compare() {
    if constexpr (sizeof...(A1) == sizeof...(A2)) {
      return SameAbi<R1, R2>() && (SameAbi<A1, A2>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = Compare();
};

// --- Types and their members ------------------------------------------------

static_assert(SameAbi<DevicePtr, CUdeviceptr>());
static_assert(SameAbi<PhysicalHandle, CUmemGenericAllocationHandle>());
static_assert(SameAbi<CudaDeviceId, CUdevice>());
static_assert(std::is_same_v<StreamHandle, CUstream>);
static_assert(std::is_same_v<EventHandle, CUevent>);
static_assert(std::is_same_v<GraphHandle, CUgraph>);
static_assert(std::is_same_v<GraphExecHandle, CUgraphExec>);
static_assert(std::is_same_v<HostFunction, CUhostFn>);
static_assert(std::is_same_v<CudaContext, CUcontext>);

#define FIRN_CHECK_MEMBER(Ours, ours, Theirs, theirs)              \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs)); \
  static_assert(sizeof(Ours::ours) == sizeof(Theirs::theirs))

static_assert(SameAbi<MemLocation, CUmemLocation>());
FIRN_CHECK_MEMBER(MemLocation, type, CUmemLocation, type);
FIRN_CHECK_MEMBER(MemLocation, id, CUmemLocation, id);

static_assert(SameAbi<AccessDesc, CUmemAccessDesc>());
FIRN_CHECK_MEMBER(AccessDesc, location, CUmemAccessDesc, location);
FIRN_CHECK_MEMBER(AccessDesc, flags, CUmemAccessDesc, flags);

static_assert(SameAbi<AllocationProp, CUmemAllocationProp>());
FIRN_CHECK_MEMBER(AllocationProp, type, CUmemAllocationProp, type);
FIRN_CHECK_MEMBER(AllocationProp, requested_handle_types, CUmemAllocationProp,
                  requestedHandleTypes);
FIRN_CHECK_MEMBER(AllocationProp, location, CUmemAllocationProp, location);
FIRN_CHECK_MEMBER(AllocationProp, win32_handle_metadata, CUmemAllocationProp,
                  win32HandleMetaData);
FIRN_CHECK_MEMBER(AllocationProp, alloc_flags, CUmemAllocationProp, allocFlags);

using OurAllocFlags = decltype(AllocationProp::alloc_flags);
using TheirAllocFlags = decltype(CUmemAllocationProp::allocFlags);
FIRN_CHECK_MEMBER(OurAllocFlags, compression_type, TheirAllocFlags,
                  compressionType);
FIRN_CHECK_MEMBER(OurAllocFlags, gpu_direct_rdma_capable, TheirAllocFlags,
                  gpuDirectRDMACapable);
FIRN_CHECK_MEMBER(OurAllocFlags, usage, TheirAllocFlags, usage);
FIRN_CHECK_MEMBER(OurAllocFlags, reserved, TheirAllocFlags, reserved);

#undef FIRN_CHECK_MEMBER

// --- Values -----------------------------------------------------------------

#define FIRN_CHECK_VALUE(ours, theirs)            \
  static_assert(sizeof(ours) == sizeof(theirs) && \
                static_cast<int>(ours) == static_cast<int>(theirs))

FIRN_CHECK_VALUE(DriverResult::kSuccess, CUDA_SUCCESS);
FIRN_CHECK_VALUE(DriverResult::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
FIRN_CHECK_VALUE(DriverResult::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
FIRN_CHECK_VALUE(DriverResult::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
FIRN_CHECK_VALUE(DriverResult::kDeinitialized, CUDA_ERROR_DEINITIALIZED);
FIRN_CHECK_VALUE(DriverResult::kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
FIRN_CHECK_VALUE(DriverResult::kNoDevice, CUDA_ERROR_NO_DEVICE);
FIRN_CHECK_VALUE(DriverResult::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
FIRN_CHECK_VALUE(DriverResult::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
FIRN_CHECK_VALUE(DriverResult::kMapFailed, CUDA_ERROR_MAP_FAILED);
FIRN_CHECK_VALUE(DriverResult::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
FIRN_CHECK_VALUE(DriverResult::kIllegalState, CUDA_ERROR_ILLEGAL_STATE);
FIRN_CHECK_VALUE(DriverResult::kNotFound, CUDA_ERROR_NOT_FOUND);
FIRN_CHECK_VALUE(DriverResult::kNotReady, CUDA_ERROR_NOT_READY);
FIRN_CHECK_VALUE(DriverResult::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
FIRN_CHECK_VALUE(DriverResult::kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
FIRN_CHECK_VALUE(DriverResult::kAssert, CUDA_ERROR_ASSERT);
FIRN_CHECK_VALUE(DriverResult::kHardwareStackError,
                 CUDA_ERROR_HARDWARE_STACK_ERROR);
FIRN_CHECK_VALUE(DriverResult::kIllegalInstruction,
                 CUDA_ERROR_ILLEGAL_INSTRUCTION);
FIRN_CHECK_VALUE(DriverResult::kMisalignedAddress,
                 CUDA_ERROR_MISALIGNED_ADDRESS);
FIRN_CHECK_VALUE(DriverResult::kInvalidAddressSpace,
                 CUDA_ERROR_INVALID_ADDRESS_SPACE);
FIRN_CHECK_VALUE(DriverResult::kInvalidPc, CUDA_ERROR_INVALID_PC);
FIRN_CHECK_VALUE(DriverResult::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
FIRN_CHECK_VALUE(DriverResult::kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
FIRN_CHECK_VALUE(DriverResult::kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureUnsupported,
                 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureInvalidated,
                 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureMerge,
                 CUDA_ERROR_STREAM_CAPTURE_MERGE);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureUnmatched,
                 CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureUnjoined,
                 CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureIsolation,
                 CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureImplicit,
                 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
FIRN_CHECK_VALUE(DriverResult::kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
FIRN_CHECK_VALUE(DriverResult::kStreamCaptureWrongThread,
                 CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
FIRN_CHECK_VALUE(DriverResult::kUnknown, CUDA_ERROR_UNKNOWN);

FIRN_CHECK_VALUE(AllocationType::kInvalid, CU_MEM_ALLOCATION_TYPE_INVALID);
FIRN_CHECK_VALUE(AllocationType::kPinned, CU_MEM_ALLOCATION_TYPE_PINNED);

FIRN_CHECK_VALUE(LocationType::kInvalid, CU_MEM_LOCATION_TYPE_INVALID);
FIRN_CHECK_VALUE(LocationType::kDevice, CU_MEM_LOCATION_TYPE_DEVICE);

FIRN_CHECK_VALUE(ShareableHandleType::kNone, CU_MEM_HANDLE_TYPE_NONE);
FIRN_CHECK_VALUE(ShareableHandleType::kPosixFileDescriptor,
                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

FIRN_CHECK_VALUE(AccessFlags::kNone, CU_MEM_ACCESS_FLAGS_PROT_NONE);
FIRN_CHECK_VALUE(AccessFlags::kRead, CU_MEM_ACCESS_FLAGS_PROT_READ);
FIRN_CHECK_VALUE(AccessFlags::kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

FIRN_CHECK_VALUE(GranularityKind::kMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
FIRN_CHECK_VALUE(GranularityKind::kRecommended,
                 CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

FIRN_CHECK_VALUE(CaptureStatus::kNone, CU_STREAM_CAPTURE_STATUS_NONE);
FIRN_CHECK_VALUE(CaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
FIRN_CHECK_VALUE(CaptureStatus::kInvalidated,
                 CU_STREAM_CAPTURE_STATUS_INVALIDATED);

FIRN_CHECK_VALUE(CaptureMode::kGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
FIRN_CHECK_VALUE(CaptureMode::kThreadLocal,
                 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
FIRN_CHECK_VALUE(CaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);

FIRN_CHECK_VALUE(DeviceAttribute::kUnifiedAddressing,
                 CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
FIRN_CHECK_VALUE(DeviceAttribute::kComputeCapabilityMajor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
FIRN_CHECK_VALUE(DeviceAttribute::kComputeCapabilityMinor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
FIRN_CHECK_VALUE(DeviceAttribute::kVirtualMemoryManagement,
                 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
FIRN_CHECK_VALUE(
    DeviceAttribute::kPosixFileDescriptorHandles,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
FIRN_CHECK_VALUE(DeviceAttribute::kGpuDirectRdmaWithVmm,
                 CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);

FIRN_CHECK_VALUE(PointerAttribute::kMemoryType,
                 CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
FIRN_CHECK_VALUE(PointerAttribute::kDeviceOrdinal,
                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
FIRN_CHECK_VALUE(PointerAttribute::kIsLegacyIpcCapable,
                 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
FIRN_CHECK_VALUE(PointerAttribute::kRangeStart,
                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
FIRN_CHECK_VALUE(PointerAttribute::kRangeBytes,
                 CU_POINTER_ATTRIBUTE_RANGE_SIZE);
FIRN_CHECK_VALUE(PointerAttribute::kMapped, CU_POINTER_ATTRIBUTE_MAPPED);
FIRN_CHECK_VALUE(PointerAttribute::kAllowedHandleTypes,
                 CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
FIRN_CHECK_VALUE(PointerAttribute::kIsRdmaCapable,
                 CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
FIRN_CHECK_VALUE(PointerAttribute::kAccessFlags,
                 CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);

FIRN_CHECK_VALUE(kWaitValueGeq, CU_STREAM_WAIT_VALUE_GEQ);
FIRN_CHECK_VALUE(kWaitValueEq, CU_STREAM_WAIT_VALUE_EQ);
FIRN_CHECK_VALUE(kWaitValueAnd, CU_STREAM_WAIT_VALUE_AND);
FIRN_CHECK_VALUE(kWaitValueNor, CU_STREAM_WAIT_VALUE_NOR);
FIRN_CHECK_VALUE(kWriteValueDefault, CU_STREAM_WRITE_VALUE_DEFAULT);
FIRN_CHECK_VALUE(kWriteValueNoMemoryBarrier,
                 CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);

FIRN_CHECK_VALUE(kStreamDefault, CU_STREAM_DEFAULT);
FIRN_CHECK_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
FIRN_CHECK_VALUE(kEventDefault, CU_EVENT_DEFAULT);
FIRN_CHECK_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
static_assert(kLegacyStreamSymbols == CU_GET_PROC_ADDRESS_LEGACY_STREAM);

// What older toolkits lack.
#if CUDA_VERSION >= 13000
FIRN_CHECK_VALUE(LocationType::kHost, CU_MEM_LOCATION_TYPE_HOST);
FIRN_CHECK_VALUE(LocationType::kHostNuma, CU_MEM_LOCATION_TYPE_HOST_NUMA);
FIRN_CHECK_VALUE(LocationType::kHostNumaCurrent,
                 CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
FIRN_CHECK_VALUE(ShareableHandleType::kFabric, CU_MEM_HANDLE_TYPE_FABRIC);
FIRN_CHECK_VALUE(DeviceAttribute::k64BitStreamMemOps,
                 CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
FIRN_CHECK_VALUE(DeviceAttribute::kStreamWaitValueNor,
                 CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
FIRN_CHECK_VALUE(DeviceAttribute::kFabricHandles,
                 CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
FIRN_CHECK_VALUE(DeviceAttribute::kHostNumaId,
                 CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
FIRN_CHECK_VALUE(
    DeviceAttribute::kHostNumaVirtualMemoryManagement,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
FIRN_CHECK_VALUE(DeviceAttribute::kHostVirtualMemoryManagement,
                 CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
FIRN_CHECK_VALUE(PointerAttribute::kMappingBytes,
                 CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
FIRN_CHECK_VALUE(PointerAttribute::kMappingStart,
                 CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
#endif

// --- Functions --------------------------------------------------------------

// The toolkit names the type of each function by its version; a wrong version
// in our table does not compile here.
#if CUDA_VERSION >= 12000

FIRN_CHECK_VALUE(ProcAddressStatus::kSuccess, CU_GET_PROC_ADDRESS_SUCCESS);
FIRN_CHECK_VALUE(ProcAddressStatus::kSymbolNotFound,
                 CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
FIRN_CHECK_VALUE(ProcAddressStatus::kVersionNotSufficient,
                 CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

#define FIRN_CHECK_FUNCTION(name, suffix, version, signature)                  \
  static_assert(                                                               \
      SameFunctionAbi<                                                         \
          signature, std::remove_pointer_t<PFN_cu##name##_v##version>>::value, \
      "cu" #name);
FIRN_CUDA_REQUIRED_SYMBOLS(FIRN_CHECK_FUNCTION)
FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_CHECK_FUNCTION)
FIRN_CHECK_FUNCTION(GetProcAddress, "_v2", 12000, CudaGetProcAddressV2)
FIRN_CHECK_FUNCTION(GetProcAddress, "", 11030, CudaGetProcAddressV1)
#undef FIRN_CHECK_FUNCTION

#endif  // CUDA_VERSION >= 12000

#undef FIRN_CHECK_VALUE

}  // namespace
}  // namespace firn

#endif  // the toolkit's headers
