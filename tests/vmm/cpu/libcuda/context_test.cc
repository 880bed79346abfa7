// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Contexts and devices of the libcuda-shaped library.

#include <cstring>
#include <thread>

#include "firn/vmm/cpu/libcuda/symbols.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/libcuda/libcuda_library.h"

namespace firn::testing {
namespace {

constexpr auto kContextIsDestroyed = static_cast<DriverResult>(709);

using CtxCreateFunction = DriverResult(CudaContext*, uint32_t, CudaDeviceId);
using CtxFunction = DriverResult(CudaContext);
using CtxOutFunction = DriverResult(CudaContext*);

CudaContext MakeContext(int device) {
  CudaContext context = nullptr;
  EXPECT_EQ(Exported<CtxCreateFunction>("cuCtxCreate_v2")(&context, 0, device),
            DriverResult::kSuccess);
  return context;
}

DriverResult DestroyContext(CudaContext context) {
  return Exported<CtxFunction>("cuCtxDestroy_v2")(context);
}

CudaContext CurrentContext() {
  CudaContext context = nullptr;
  EXPECT_EQ(Exported<CtxOutFunction>("cuCtxGetCurrent")(&context),
            DriverResult::kSuccess);
  return context;
}

DriverResult CurrentDevice(int32_t* device) {
  return Exported<DriverResult(int32_t*)>("cuCtxGetDevice")(device);
}

class CpuLibcudaContextTest : public ::testing::Test {
 protected:
  const CudaApi& api_ = StartedApi();
};

TEST_F(CpuLibcudaContextTest, CallsOnAContextNeedOne) {
  ASSERT_EQ(CurrentContext(), nullptr);
  StreamHandle stream = nullptr;
  int32_t device = -1;
  size_t bytes = 0;
  EXPECT_EQ(api_.StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kInvalidContext);
  EXPECT_EQ(api_.MemGetInfo(&bytes, &bytes), DriverResult::kInvalidContext);
  EXPECT_EQ(api_.StreamSynchronize(nullptr), DriverResult::kInvalidContext);
  EXPECT_EQ(CurrentDevice(&device), DriverResult::kInvalidContext);
  CudaContext popped = nullptr;
  EXPECT_EQ(api_.CtxPopCurrent(&popped), DriverResult::kInvalidContext);
}

TEST_F(CpuLibcudaContextTest, VirtualMemoryCallsNeedNone) {
  ASSERT_EQ(CurrentContext(), nullptr);
  DevicePtr address = 0;
  EXPECT_EQ(api_.MemAddressReserve(&address, kGranule, 0, 0, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(api_.MemAddressFree(address, kGranule), DriverResult::kSuccess);
}

TEST_F(CpuLibcudaContextTest, ThePrimaryContextIsOneAndCounted) {
  CudaContext first = nullptr;
  CudaContext second = nullptr;
  ASSERT_EQ(api_.DevicePrimaryCtxRetain(&first, 0), DriverResult::kSuccess);
  ASSERT_EQ(api_.DevicePrimaryCtxRetain(&second, 0), DriverResult::kSuccess);
  EXPECT_EQ(first, second);
  auto* const get_state = Exported<DriverResult(int32_t, uint32_t*, int32_t*)>(
      "cuDevicePrimaryCtxGetState");
  uint32_t flags = 1;
  int32_t active = 0;
  EXPECT_EQ(api_.DevicePrimaryCtxRelease(0), DriverResult::kSuccess);
  ASSERT_EQ(get_state(0, &flags, &active), DriverResult::kSuccess);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(api_.DevicePrimaryCtxRelease(0), DriverResult::kSuccess);
  ASSERT_EQ(get_state(0, &flags, &active), DriverResult::kSuccess);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(api_.DevicePrimaryCtxRelease(0), DriverResult::kInvalidContext);
  EXPECT_EQ(api_.CtxPushCurrent(first), DriverResult::kInvalidContext);
}

TEST_F(CpuLibcudaContextTest, ANewContextIsPushedAndADestroyedOnePopped) {
  const CudaContext outer = MakeContext(0);
  const CudaContext inner = MakeContext(1);
  EXPECT_EQ(CurrentContext(), inner);
  int32_t device = -1;
  EXPECT_EQ(CurrentDevice(&device), DriverResult::kSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(DestroyContext(inner), DriverResult::kSuccess);
  EXPECT_EQ(CurrentContext(), outer);
  EXPECT_EQ(DestroyContext(outer), DriverResult::kSuccess);
  EXPECT_EQ(CurrentContext(), nullptr);
  EXPECT_EQ(DestroyContext(outer), DriverResult::kInvalidContext);
}

TEST_F(CpuLibcudaContextTest, EveryFormOfCreationMakesAContext) {
  CudaContext context = nullptr;
  EXPECT_EQ(
      Exported<DriverResult(CudaContext*, void*, int32_t, uint32_t, int32_t)>(
          "cuCtxCreate_v3")(&context, nullptr, 0, 0, 1),
      DriverResult::kSuccess);
  EXPECT_EQ(DestroyContext(context), DriverResult::kSuccess);
  auto* const create_v4 =
      Exported<DriverResult(CudaContext*, void*, uint32_t, int32_t)>(
          "cuCtxCreate_v4");
  EXPECT_EQ(create_v4(&context, nullptr, 0, 1), DriverResult::kSuccess);
  EXPECT_EQ(DestroyContext(context), DriverResult::kSuccess);
  int params = 0;
  EXPECT_EQ(create_v4(&context, &params, 0, 1), DriverResult::kNotSupported);
  EXPECT_EQ(create_v4(&context, nullptr, 0, 2), DriverResult::kInvalidDevice);
  EXPECT_EQ(create_v4(&context, nullptr, 0x100, 1),
            DriverResult::kInvalidValue);
}

TEST_F(CpuLibcudaContextTest, SettingReplacesTheCurrentContext) {
  const CudaContext outer = MakeContext(0);
  const CudaContext inner = MakeContext(1);
  auto* const set_current = Exported<CtxFunction>("cuCtxSetCurrent");
  EXPECT_EQ(set_current(outer), DriverResult::kSuccess);
  EXPECT_EQ(CurrentContext(), outer);
  EXPECT_EQ(set_current(nullptr), DriverResult::kSuccess);
  EXPECT_EQ(CurrentContext(), outer);  // the one below
  EXPECT_EQ(set_current(nullptr), DriverResult::kSuccess);
  EXPECT_EQ(CurrentContext(), nullptr);
  int nothing = 0;
  EXPECT_EQ(set_current(reinterpret_cast<CudaContext>(&nothing)),
            DriverResult::kInvalidContext);
  EXPECT_EQ(DestroyContext(inner), DriverResult::kSuccess);
  EXPECT_EQ(DestroyContext(outer), DriverResult::kSuccess);
}

TEST_F(CpuLibcudaContextTest, AContextDestroyedElsewhereIsKnownForDead) {
  const CudaContext context = MakeContext(0);
  std::thread([context] { DestroyContext(context); }).join();
  EXPECT_EQ(CurrentContext(), context);
  EXPECT_EQ(api_.StreamSynchronize(nullptr), kContextIsDestroyed);
  CudaContext popped = nullptr;
  EXPECT_EQ(api_.CtxPopCurrent(&popped), DriverResult::kSuccess);
  EXPECT_EQ(popped, context);
}

TEST_F(CpuLibcudaContextTest, EachThreadHasItsOwnStack) {
  ScopedPrimaryContext scope(0);
  CudaContext elsewhere = scope.context();
  std::thread([&elsewhere] { elsewhere = CurrentContext(); }).join();
  EXPECT_EQ(elsewhere, nullptr);
  EXPECT_EQ(CurrentContext(), scope.context());
}

// The null stream of each context is that of its device.
TEST_F(CpuLibcudaContextTest, WorkGoesToTheDeviceOfTheCurrentContext) {
  ScopedPrimaryContext first(0);
  StreamHandle legacy_id_stream = nullptr;
  uint64_t first_id = 0;
  uint64_t second_id = 0;
  EXPECT_EQ(api_.StreamGetId(legacy_id_stream, &first_id),
            DriverResult::kSuccess);
  {
    ScopedPrimaryContext second(1);
    EXPECT_EQ(api_.StreamGetId(legacy_id_stream, &second_id),
              DriverResult::kSuccess);
  }
  EXPECT_NE(first_id, second_id);
}

TEST_F(CpuLibcudaContextTest, PredefinedStreamHandlesAreUnderstood) {
  ScopedPrimaryContext scope(0);
  EXPECT_EQ(api_.StreamSynchronize(reinterpret_cast<StreamHandle>(1)),
            DriverResult::kSuccess);
  EXPECT_EQ(api_.StreamSynchronize(reinterpret_cast<StreamHandle>(2)),
            DriverResult::kNotSupported);
}

TEST_F(CpuLibcudaContextTest, ContextsAreSynchronisedByHandleToo) {
  ScopedPrimaryContext scope(1);
  auto* const synchronize = Exported<CtxFunction>("cuCtxSynchronize_v2");
  EXPECT_EQ(synchronize(nullptr), DriverResult::kSuccess);
  EXPECT_EQ(synchronize(scope.context()), DriverResult::kSuccess);
  int nothing = 0;
  EXPECT_EQ(synchronize(reinterpret_cast<CudaContext>(&nothing)),
            DriverResult::kInvalidContext);
  int32_t device = -1;
  EXPECT_EQ(Exported<DriverResult(int32_t*, CudaContext)>("cuCtxGetDevice_v2")(
                &device, scope.context()),
            DriverResult::kSuccess);
  EXPECT_EQ(device, 1);
}

TEST_F(CpuLibcudaContextTest, PeerAccessIsEnabledOnce) {
  ScopedPrimaryContext second(1);
  ScopedPrimaryContext first(0);
  auto* const enable =
      Exported<DriverResult(CudaContext, uint32_t)>("cuCtxEnablePeerAccess");
  auto* const disable = Exported<CtxFunction>("cuCtxDisablePeerAccess");
  EXPECT_EQ(disable(second.context()), static_cast<DriverResult>(705));
  EXPECT_EQ(enable(second.context(), 0), DriverResult::kSuccess);
  EXPECT_EQ(enable(second.context(), 0), static_cast<DriverResult>(704));
  EXPECT_EQ(disable(second.context()), DriverResult::kSuccess);
  EXPECT_EQ(enable(first.context(), 0), DriverResult::kInvalidDevice);
  EXPECT_EQ(enable(nullptr, 0), DriverResult::kInvalidContext);
}

TEST_F(CpuLibcudaContextTest, DevicesDescribeThemselves) {
  int32_t count = 0;
  EXPECT_EQ(api_.DeviceGetCount(&count), DriverResult::kSuccess);
  EXPECT_EQ(count, 2);
  int32_t id = -1;
  EXPECT_EQ(api_.DeviceGet(&id, 1), DriverResult::kSuccess);
  EXPECT_EQ(id, 1);
  EXPECT_EQ(api_.DeviceGet(&id, 2), DriverResult::kInvalidDevice);
  EXPECT_EQ(api_.DeviceGet(&id, -1), DriverResult::kInvalidDevice);
  char name[9] = "unset...";
  EXPECT_EQ(api_.DeviceGetName(name, sizeof(name), 1), DriverResult::kSuccess);
  EXPECT_STREQ(name, "firn CPU");
  size_t bytes = 0;
  EXPECT_EQ(Exported<DriverResult(size_t*, int32_t)>("cuDeviceTotalMem_v2")(
                &bytes, 1),
            DriverResult::kSuccess);
  EXPECT_EQ(bytes, size_t{64} << 20);
  using UuidFunction = DriverResult(libcuda::DeviceUuid*, int32_t);
  libcuda::DeviceUuid first;
  libcuda::DeviceUuid second;
  EXPECT_EQ(Exported<UuidFunction>("cuDeviceGetUuid_v2")(&first, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(Exported<UuidFunction>("cuDeviceGetUuid")(&second, 1),
            DriverResult::kSuccess);
  EXPECT_NE(std::memcmp(&first, &second, sizeof(first)), 0);
}

}  // namespace
}  // namespace firn::testing
