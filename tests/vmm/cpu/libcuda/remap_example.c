/* Copyright 2026 The firn Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is moved beneath an address that stays, in CUDA's own calls: a
 * program as anyone might write it, run on the CPU driver. It also runs on a
 * GPU: what only the CPU driver can do, it asks for and does without. */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"

/* What the memory holds: word i is i + kFirstWord. */
enum { kFirstWord = 1000 };

static void Check(CUresult result, const char* call) {
  const char* name = "an unknown result";
  if (result == CUDA_SUCCESS) return;
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", call, name);
  exit(1);
}
#define CHECK(call) Check((call), #call)

static void Expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

/* A function of the driver that it need not have; NULL if it has not. */
static void* OptionalFunction(const char* name) {
  void* function = NULL;
  CUdriverProcAddressQueryResult status;
  CHECK(cuGetProcAddress(name, &function, CUDA_VERSION,
                         CU_GET_PROC_ADDRESS_DEFAULT, &status));
  return function;
}

/* --- What is done to the memory --- */

typedef struct Words {
  CUdeviceptr address;
  size_t count;
} Words;

/* A kernel: it runs in stream order and touches device addresses. */
static void WriteWords(void* argument) {
  const Words* words = (const Words*)argument;
  uint32_t* memory = (uint32_t*)(uintptr_t)words->address;
  for (size_t i = 0; i < words->count; ++i) {
    memory[i] = (uint32_t)(i + kFirstWord);
  }
}

static void FillWith(firnCpuLaunchHostKernelFunction launch, CUstream stream,
                     Words* words) {
  const size_t bytes = words->count * sizeof(uint32_t);
  if (launch != NULL) {
    const firnCpuRange range = {words->address, bytes, /*writes=*/1};
    CHECK((CUresult)launch(stream, WriteWords, words, &range, 1));
    CHECK(cuStreamSynchronize(stream));
    printf("fill: by a host kernel\n");
    return;
  }
  uint32_t* host = (uint32_t*)malloc(bytes);
  Expect(host != NULL, "host memory");
  for (size_t i = 0; i < words->count; ++i) {
    host[i] = (uint32_t)(i + kFirstWord);
  }
  CHECK(cuMemcpyHtoD(words->address, host, bytes));
  free(host);
  printf("fill: by a copy, for the driver has no host kernels\n");
}

static int HoldsWords(CUdeviceptr address, size_t count) {
  const size_t bytes = count * sizeof(uint32_t);
  uint32_t* host = (uint32_t*)malloc(bytes);
  Expect(host != NULL, "host memory");
  CHECK(cuMemcpyDtoH(host, address, bytes));
  int right = 1;
  for (size_t i = 0; i < count; ++i) right &= host[i] == i + kFirstWord;
  free(host);
  return right;
}

/* A new mapping can be accessed by nobody: both steps belong together. */
static void Map(CUdeviceptr address, size_t bytes,
                CUmemGenericAllocationHandle handle, CUdevice device) {
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  access.location.id = device;
  CHECK(cuMemMap(address, bytes, 0, handle, 0));
  CHECK(cuMemSetAccess(address, bytes, &access, 1));
}

int main(void) {
  CUdevice device = 0;
  CUcontext context = NULL;
  CUstream stream = NULL;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const firnCpuLaunchHostKernelFunction launch_host_kernel =
      (firnCpuLaunchHostKernelFunction)OptionalFunction(
          "firnCpuLaunchHostKernel");
  const firnCpuLastReportFunction last_report =
      (firnCpuLastReportFunction)OptionalFunction("firnCpuLastReport");

  /* Two granules each: of addresses, three times, and of memory. */
  CUmemAllocationProp prop = {0};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity = 0;
  CHECK(cuMemGetAllocationGranularity(&granularity, &prop,
                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t bytes = 2 * granularity;
  CUdeviceptr home = 0, alias = 0, staging = 0;
  CHECK(cuMemAddressReserve(&home, bytes, granularity, 0, 0));
  CHECK(cuMemAddressReserve(&alias, bytes, granularity, 0, 0));
  CHECK(cuMemAddressReserve(&staging, bytes, granularity, 0, 0));
  CUmemGenericAllocationHandle old_memory = 0, new_memory = 0;
  CHECK(cuMemCreate(&old_memory, bytes, &prop, 0));
  CHECK(cuMemCreate(&new_memory, bytes, &prop, 0));

  /* Fill. */
  Map(home, bytes, old_memory, device);
  Words words = {home, bytes / sizeof(uint32_t)};
  FillWith(launch_host_kernel, stream, &words);
  Expect(HoldsWords(home, words.count), "what was filled");

  /* Alias: the same memory at a second address. What was written through the
   * first may be read here, because that work has ended. */
  Map(alias, bytes, old_memory, device);
  Expect(HoldsWords(alias, words.count), "what the alias shows");
  printf("alias: shows what was written through the first address\n");

  /* Remap: copy through a staging address; prove the range idle; then put the
   * new memory where the old was. There is no call that does it at once. */
  Map(staging, bytes, new_memory, device);
  CHECK(cuMemcpyDtoDAsync(staging, home, bytes, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemUnmap(staging, bytes));
  CHECK(cuMemUnmap(home, bytes));
  Map(home, bytes, new_memory, device);
  CHECK(cuMemRelease(old_memory)); /* still mapped at the alias */
  Expect(HoldsWords(home, words.count), "what was moved");
  CHECK(cuMemsetD8Async(alias, 0xff, bytes, stream));
  CHECK(cuStreamSynchronize(stream));
  Expect(HoldsWords(home, words.count), "memory that is apart from the old");
  printf("remap: same address, same contents, other memory\n");

  /* Misuse: a mapping can only be unmapped whole. */
  const CUresult refused = cuMemUnmap(home, granularity);
  const char* name = NULL;
  Expect(refused != CUDA_SUCCESS, "half a mapping was unmapped");
  CHECK(cuGetErrorName(refused, &name));
  printf("misuse: %s\n", name);
  if (last_report != NULL) {
    char report[512];
    CHECK((CUresult)last_report(report, sizeof(report)));
    printf("report: %s\n", report);
  }

  /* Share: as a file descriptor, which another process could be sent. */
  int descriptor = -1;
  CUmemGenericAllocationHandle imported = 0;
  CHECK(cuMemExportToShareableHandle(
      &descriptor, new_memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK(
      cuMemImportFromShareableHandle(&imported, (void*)(uintptr_t)descriptor,
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  CHECK(cuMemUnmap(alias, bytes));
  Map(alias, bytes, imported, device);
  Expect(HoldsWords(alias, words.count), "what was imported");
  printf("share: the imported memory is the exported memory\n");

  CHECK(cuMemUnmap(alias, bytes));
  CHECK(cuMemUnmap(home, bytes));
  CHECK(cuMemRelease(imported));
  CHECK(cuMemRelease(new_memory));
  CHECK(cuMemAddressFree(staging, bytes));
  CHECK(cuMemAddressFree(alias, bytes));
  CHECK(cuMemAddressFree(home, bytes));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("done\n");
  return 0;
}
