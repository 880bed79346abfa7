// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a context of the libcuda-shaped library owns: its streams, its events
// and its work.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/libcuda/libcuda_library.h"

namespace firn::testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kBusy = DriverResult::kNotReady;
constexpr DriverResult kBadHandle = DriverResult::kInvalidHandle;
constexpr auto kContextIsDestroyed = static_cast<DriverResult>(709);

using CtxCreateFunction = DriverResult(CudaContext*, uint32_t, CudaDeviceId);
using CtxFunction = DriverResult(CudaContext);
using GetCtxFunction = DriverResult(StreamHandle, CudaContext*);

// Runs a kernel on a stream until it is let go.
class HeldStream {
 public:
  explicit HeldStream(StreamHandle stream) {
    const auto launch = reinterpret_cast<firnCpuLaunchHostKernelFunction>(
        ExportedSymbol("firnCpuLaunchHostKernel"));
    EXPECT_EQ(launch(stream, &Run, this, nullptr, 0), 0);
  }
  ~HeldStream() {
    LetGo();
    while (!ended_.load()) std::this_thread::yield();
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  void LetGo() { open_.store(true); }

 private:
  static void Run(void* argument) {
    auto* const held = static_cast<HeldStream*>(argument);
    while (!held->open_.load()) std::this_thread::yield();
    held->ended_.store(true);
  }

  std::atomic<bool> open_{false};
  std::atomic<bool> ended_{false};
};

// The primary context of device 0 is current, and there is a second one.
class CpuLibcudaContextStreamsTest : public ::testing::Test {
 protected:
  CpuLibcudaContextStreamsTest() : second_(Make(0)) {
    CudaContext popped = nullptr;
    EXPECT_EQ(api_.CtxPopCurrent(&popped), kOk);
    EXPECT_EQ(popped, second_);
  }
  ~CpuLibcudaContextStreamsTest() override {
    EXPECT_EQ(api_.CtxSynchronize(), kOk);
    if (second_ != nullptr) {
      EXPECT_EQ(Destroy(second_), kOk);
    }
  }

  static CudaContext Make(int device) {
    CudaContext context = nullptr;
    EXPECT_EQ(
        Exported<CtxCreateFunction>("cuCtxCreate_v2")(&context, 0, device),
        kOk);
    return context;
  }
  static DriverResult Destroy(CudaContext context) {
    return Exported<CtxFunction>("cuCtxDestroy_v2")(context);
  }
  // The result of call() with that context current.
  template <typename Call>
  DriverResult In(CudaContext context, const Call& call) {
    EXPECT_EQ(api_.CtxPushCurrent(context), kOk);
    const DriverResult result = call();
    CudaContext popped = nullptr;
    EXPECT_EQ(api_.CtxPopCurrent(&popped), kOk);
    return result;
  }
  StreamHandle NewStream(uint32_t flags = kStreamNonBlocking) {
    StreamHandle stream = nullptr;
    EXPECT_EQ(api_.StreamCreate(&stream, flags), kOk);
    return stream;
  }
  StreamHandle NewStreamIn(CudaContext context) {
    StreamHandle stream = nullptr;
    EXPECT_EQ(
        In(context,
           [&] { return api_.StreamCreate(&stream, kStreamNonBlocking); }),
        kOk);
    return stream;
  }
  EventHandle NewEventIn(CudaContext context) {
    EventHandle event = nullptr;
    EXPECT_EQ(In(context,
                 [&] { return api_.EventCreate(&event, kEventDisableTiming); }),
              kOk);
    return event;
  }
  CudaContext ContextOf(StreamHandle stream) {
    CudaContext context = nullptr;
    EXPECT_EQ(Exported<GetCtxFunction>("cuStreamGetCtx")(stream, &context),
              kOk);
    return context;
  }

  const CudaApi& api_ = StartedApi();
  ScopedPrimaryContext scope_{0};
  CudaContext second_;
};

TEST_F(CpuLibcudaContextStreamsTest, AnEventIsRecordedInItsOwnContextOnly) {
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStreamIn(second_);
  const EventHandle event = NewEventIn(second_);
  EXPECT_EQ(api_.EventRecord(event, first), kBadHandle);
  EXPECT_EQ(api_.EventRecord(event, nullptr), kBadHandle);
  EXPECT_EQ(api_.EventRecord(event, second), kOk);
  EXPECT_EQ(In(second_, [&] { return api_.EventRecord(event, nullptr); }), kOk);
  EXPECT_EQ(api_.StreamWaitEvent(first, event, 0), kOk);
  EXPECT_EQ(api_.EventSynchronize(event), kOk);
  EXPECT_EQ(api_.EventQuery(event), kOk);
  EXPECT_EQ(api_.EventDestroy(event), kOk);
  EXPECT_EQ(api_.StreamDestroy(first), kOk);
  EXPECT_EQ(api_.StreamDestroy(second), kOk);
}

TEST_F(CpuLibcudaContextStreamsTest, AContextIsSynchronizedAlone) {
  const StreamHandle stream = NewStreamIn(second_);
  HeldStream held(stream);
  auto* const synchronize = Exported<CtxFunction>("cuCtxSynchronize_v2");
  EXPECT_EQ(api_.CtxSynchronize(), kOk);
  EXPECT_EQ(synchronize(scope_.context()), kOk);
  EXPECT_EQ(api_.StreamQuery(stream), kBusy);
  held.LetGo();
  EXPECT_EQ(synchronize(second_), kOk);
  EXPECT_EQ(api_.StreamQuery(stream), kOk);
}

TEST_F(CpuLibcudaContextStreamsTest, TheNullStreamIsThatOfTheCurrentContext) {
  uint64_t first_id = 0;
  uint64_t second_id = 0;
  EXPECT_EQ(api_.StreamGetId(nullptr, &first_id), kOk);
  EXPECT_EQ(In(second_, [&] { return api_.StreamGetId(nullptr, &second_id); }),
            kOk);
  EXPECT_NE(first_id, second_id);
  HeldStream held(nullptr);
  EXPECT_EQ(In(second_, [&] { return api_.StreamSynchronize(nullptr); }), kOk);
  EXPECT_EQ(api_.StreamQuery(nullptr), kBusy);
}

TEST_F(CpuLibcudaContextStreamsTest, AStreamKnowsItsContext) {
  const StreamHandle second = NewStreamIn(second_);
  EXPECT_EQ(ContextOf(second), second_);
  EXPECT_EQ(ContextOf(NewStream()), scope_.context());
  EXPECT_EQ(ContextOf(nullptr), scope_.context());
  CudaContext context = nullptr;
  auto* const get = Exported<GetCtxFunction>("cuStreamGetCtx");
  EXPECT_EQ(In(second_, [&] { return get(nullptr, &context); }), kOk);
  EXPECT_EQ(context, second_);
  EXPECT_EQ(get(second, nullptr), DriverResult::kInvalidValue);
  int green = 0;
  void* green_context = &green;
  EXPECT_EQ(Exported<DriverResult(StreamHandle, CudaContext*, void**)>(
                "cuStreamGetCtx_v2")(second, &context, &green_context),
            kOk);
  EXPECT_EQ(context, second_);
  EXPECT_EQ(green_context, nullptr);
  EXPECT_EQ(api_.StreamDestroy(second), kOk);
  EXPECT_EQ(get(second, &context), kBadHandle);
}

TEST_F(CpuLibcudaContextStreamsTest, MemoryIsTheDevices) {
  DevicePtr address = 0;
  EXPECT_EQ(In(second_,
               [&] {
                 return Exported<DriverResult(DevicePtr*, size_t)>(
                     "cuMemAlloc_v2")(&address, kGranule);
               }),
            kOk);
  const StreamHandle stream = NewStreamIn(second_);
  EXPECT_EQ(api_.MemsetD8Async(address, 5, 64, stream), kOk);
  EXPECT_EQ(Destroy(std::exchange(second_, nullptr)), kOk);
  uint8_t byte = 0;
  EXPECT_EQ(api_.MemcpyDtoHAsync(&byte, address, 1, nullptr), kOk);
  EXPECT_EQ(api_.StreamSynchronize(nullptr), kOk);
  EXPECT_EQ(byte, 5);
  EXPECT_EQ(Exported<DriverResult(DevicePtr)>("cuMemFree_v2")(address), kOk);
}

TEST_F(CpuLibcudaContextStreamsTest, MemoryIsFreedAfterTheWorkOfAllContexts) {
  DevicePtr address = 0;
  EXPECT_EQ(Exported<DriverResult(DevicePtr*, size_t)>("cuMemAlloc_v2")(
                &address, kGranule),
            kOk);
  const StreamHandle stream = NewStreamIn(second_);
  HeldStream held(stream);
  EXPECT_EQ(api_.MemsetD8Async(address, 5, kGranule, stream), kOk);
  std::thread opener([&held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.LetGo();
  });
  EXPECT_EQ(Exported<DriverResult(DevicePtr)>("cuMemFree_v2")(address), kOk);
  EXPECT_EQ(api_.StreamQuery(stream), kOk);
  opener.join();
}

TEST_F(CpuLibcudaContextStreamsTest, StreamsAndEventsGoWithTheirContext) {
  const StreamHandle stream = NewStreamIn(second_);
  const EventHandle event = NewEventIn(second_);
  HeldStream held(stream);
  std::thread opener([&held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.LetGo();
  });
  EXPECT_EQ(Destroy(second_), kOk);  // waits
  opener.join();
  EXPECT_EQ(api_.StreamQuery(stream), kBadHandle);
  EXPECT_EQ(api_.StreamDestroy(stream), kBadHandle);
  EXPECT_EQ(api_.EventQuery(event), kBadHandle);
  EXPECT_EQ(Exported<CtxFunction>("cuCtxSynchronize_v2")(second_),
            DriverResult::kInvalidContext);
  second_ = nullptr;
}

TEST_F(CpuLibcudaContextStreamsTest, AContextEndsAfterTheCallsInIt) {
  const StreamHandle stream = NewStreamIn(second_);
  HeldStream held(stream);
  std::atomic<bool> in_call{false};
  DriverResult waited = DriverResult::kUnknown;
  DriverResult afterwards = kOk;
  std::thread caller([&] {
    EXPECT_EQ(api_.CtxPushCurrent(second_), kOk);
    in_call.store(true);
    waited = api_.StreamSynchronize(stream);
    do {
      afterwards = api_.StreamSynchronize(nullptr);
    } while (afterwards == kOk);
    CudaContext popped = nullptr;
    EXPECT_EQ(api_.CtxPopCurrent(&popped), kOk);
  });
  while (!in_call.load()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread opener([&held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.LetGo();
  });
  EXPECT_EQ(Destroy(std::exchange(second_, nullptr)), kOk);
  caller.join();
  opener.join();
  EXPECT_EQ(waited, kOk);
  EXPECT_EQ(afterwards, kContextIsDestroyed);
}

// All contexts of a device share what is counted of its calls.
TEST_F(CpuLibcudaContextStreamsTest, CostsAreTheDevices) {
  const auto time = reinterpret_cast<firnCpuModelledTimeFunction>(
      ExportedSymbol("firnCpuModelledTime"));
  const auto reserve = [&] {
    DevicePtr address = 0;
    EXPECT_EQ(api_.MemAddressReserve(&address, kGranule, 0, 0, 0), kOk);
    return api_.MemAddressFree(address, kGranule);
  };
  double before_us = 0;
  double after_us = 0;
  double seen_us = 0;
  EXPECT_EQ(time(&before_us, nullptr), 0);
  EXPECT_EQ(In(second_, reserve), kOk);
  EXPECT_EQ(time(&after_us, nullptr), 0);
  EXPECT_GT(after_us, before_us);
  EXPECT_EQ(
      In(second_,
         [&] { return static_cast<DriverResult>(time(&seen_us, nullptr)); }),
      kOk);
  EXPECT_EQ(seen_us, after_us);
}

TEST_F(CpuLibcudaContextStreamsTest, ContextsAreLimited) {
  std::vector<CudaContext> contexts;
  auto* const create = Exported<CtxCreateFunction>("cuCtxCreate_v2");
  CudaContext popped = nullptr;
  for (;;) {
    CudaContext context = nullptr;
    const DriverResult result = create(&context, 0, 1);
    if (result != kOk) {
      EXPECT_EQ(result, DriverResult::kOutOfMemory);
      break;
    }
    contexts.push_back(context);
    ASSERT_EQ(api_.CtxPopCurrent(&popped), kOk);
  }
  // Two devices, and the second context.
  EXPECT_EQ(contexts.size(), 61u);
  EXPECT_EQ(Destroy(contexts.back()), kOk);
  contexts.back() = Make(1);
  ASSERT_EQ(api_.CtxPopCurrent(&popped), kOk);
  for (const CudaContext context : contexts) EXPECT_EQ(Destroy(context), kOk);
}

TEST_F(CpuLibcudaContextStreamsTest, AHostFunctionNeitherMakesNorEndsAny) {
  struct Calls {
    CudaContext context;
    DriverResult created = kOk;
    DriverResult destroyed = kOk;
  } calls{second_};
  ASSERT_EQ(api_.LaunchHostFunc(
                nullptr,
                [](void* data) {
                  auto* const made = static_cast<Calls*>(data);
                  CudaContext context = nullptr;
                  made->created = Exported<CtxCreateFunction>("cuCtxCreate_v2")(
                      &context, 0, 0);
                  made->destroyed = Destroy(made->context);
                },
                &calls),
            kOk);
  ASSERT_EQ(api_.StreamSynchronize(nullptr), kOk);
  EXPECT_EQ(calls.created, DriverResult::kNotPermitted);
  EXPECT_EQ(calls.destroyed, DriverResult::kNotPermitted);
}

TEST_F(CpuLibcudaContextStreamsTest, ContextsComeAndGoOnSeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 30; ++round) {
        const CudaContext context = Make(round % 2);
        const StreamHandle stream = NewStream(kStreamDefault);
        EventHandle event = nullptr;
        EXPECT_EQ(api_.EventCreate(&event, kEventDisableTiming), kOk);
        EXPECT_EQ(api_.EventRecord(event, stream), kOk);
        EXPECT_EQ(api_.StreamSynchronize(nullptr), kOk);
        EXPECT_EQ(Destroy(context), kOk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace firn::testing
