// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/libcuda/contexts.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace firn::libcuda {
namespace {

// Handles are numbers that point nowhere.
constexpr uintptr_t kFirstHandle = 0xF1000000;
constexpr uintptr_t kHandleStride = 16;
// Between looks at whether calls have ended.
constexpr std::chrono::microseconds kPause{50};

// Without a destructor, so that calls from other thread-local objects'
// destructors find it whole; and small: the thread-local memory of a library
// that is opened at run time comes out of a reserve of about a kibibyte.
struct ContextStack {
  static constexpr size_t kMaxDepth = 32;
  size_t depth = 0;
  CudaContext contexts[kMaxDepth] = {};
};
thread_local ContextStack thread_stack;

}  // namespace

Contexts::Contexts() {
  for (std::atomic<int8_t>& device : devices_) {
    device.store(kNoDevice, std::memory_order_relaxed);
  }
}

CudaContext Contexts::HandleOf(size_t index) {
  return reinterpret_cast<CudaContext>(kFirstHandle + index * kHandleStride);
}

size_t Contexts::IndexOf(CudaContext context) {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(context) - kFirstHandle;
  if (offset % kHandleStride != 0 || offset / kHandleStride >= kCapacity) {
    return kCapacity;
  }
  return offset / kHandleStride;
}

CudaContext Contexts::Retain(int device) {
  const auto index = static_cast<size_t>(device);
  MutexLock lock(&mutex_);
  ++retained_[index];
  devices_[index].store(static_cast<int8_t>(device));
  return HandleOf(index);
}

DriverResult Contexts::Release(int device) {
  const auto index = static_cast<size_t>(device);
  MutexLock lock(&mutex_);
  if (retained_[index] == 0) return DriverResult::kInvalidContext;
  --retained_[index];
  if (retained_[index] == 0) devices_[index].store(kNoDevice);
  return DriverResult::kSuccess;
}

bool Contexts::IsRetained(int device) {
  MutexLock lock(&mutex_);
  return retained_[static_cast<size_t>(device)] != 0;
}

uint32_t Contexts::PrimaryFlags(int device) {
  MutexLock lock(&mutex_);
  return flags_[static_cast<size_t>(device)];
}

void Contexts::SetPrimaryFlags(int device, uint32_t flags) {
  MutexLock lock(&mutex_);
  flags_[static_cast<size_t>(device)] = flags;
}

DriverResult Contexts::Create(CudaContext* context, CpuDriver* device,
                              uint32_t flags) {
  MutexLock lock(&mutex_);
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (made_ == kCapacity || free == taken_.end()) {
    return DriverResult::kOutOfMemory;
  }
  auto driver = device->CreateContext();
  if (!driver.ok()) return DriverResult::kOutOfMemory;
  const size_t index = made_++;
  flags_[index] = flags;
  *free = true;
  Place& place = places_[static_cast<size_t>(free - taken_.begin())];
  place.driver = *std::move(driver);
  place.users.store(uint64_t{index} << kOwnerShift);
  devices_[index].store(static_cast<int8_t>(device->identity().device_ordinal));
  *context = HandleOf(index);
  return DriverResult::kSuccess;
}

DriverResult Contexts::Destroy(CudaContext context) {
  const size_t index = IndexOf(context);
  if (index < kMaxCpuDevices || index == kCapacity) {
    return DriverResult::kInvalidContext;
  }
  if (devices_[index].exchange(kNoDevice) == kNoDevice) {
    return DriverResult::kInvalidContext;
  }
  // Nobody else destroys it, and from here on no call begins in it.
  Place* const place = FindPlace(index);
  place->users.fetch_sub(uint64_t{index} << kOwnerShift);
  while (place->users.load() != 0) std::this_thread::sleep_for(kPause);
  place->driver = nullptr;
  MutexLock lock(&mutex_);
  taken_[static_cast<size_t>(place - places_.data())] = false;
  return DriverResult::kSuccess;
}

DriverResult Contexts::Synchronize(int device) {
  for (const Place& place : places_) {
    const size_t index = place.users.load() >> kOwnerShift;
    if (index == 0 || devices_[index].load() != device) continue;
    const Use use(this, HandleOf(index));
    if (use.driver() == nullptr) continue;
    const DriverResult result = use.driver()->CtxSynchronize();
    if (result != DriverResult::kSuccess) return result;
  }
  return DriverResult::kSuccess;
}

CudaContext Contexts::Find(int number) {
  if (number < kMaxCpuDevices &&
      devices_[static_cast<size_t>(number)].load() != kNoDevice) {
    return HandleOf(static_cast<size_t>(number));
  }
  for (const Place& place : places_) {
    const size_t index = place.users.load() >> kOwnerShift;
    if (index == 0) continue;
    const CudaContext context = HandleOf(index);
    const Use use(this, context);
    if (use.driver() != nullptr && use.driver()->context() == number) {
      return context;
    }
  }
  return nullptr;
}

Contexts::Place* Contexts::FindPlace(size_t index) {
  for (Place& place : places_) {
    if (place.users.load() >> kOwnerShift == index) return &place;
  }
  return nullptr;
}

Contexts::Use::Use(Contexts* contexts, CudaContext context) {
  const size_t index = IndexOf(context);
  if (index < kMaxCpuDevices || index == kCapacity) return;
  Place* const place = contexts->FindPlace(index);
  if (place == nullptr) return;
  uint64_t users = place->users.load();
  while (users >> kOwnerShift == index) {
    if (!place->users.compare_exchange_weak(users, users + 1)) continue;
    users_ = &place->users;
    driver_ = place->driver.get();
    return;
  }
}

Contexts::Use::~Use() {
  if (users_ != nullptr) users_->fetch_sub(1);
}

int Contexts::DeviceOf(CudaContext context) const {
  const size_t index = IndexOf(context);
  return index == kCapacity ? kNoDevice : devices_[index].load();
}

uint32_t Contexts::FlagsOf(CudaContext context) {
  MutexLock lock(&mutex_);
  return flags_[IndexOf(context)];
}

CudaContext Contexts::Current() {
  return thread_stack.depth == 0
             ? nullptr
             : thread_stack.contexts[thread_stack.depth - 1];
}

bool Contexts::Push(CudaContext context) {
  if (thread_stack.depth == ContextStack::kMaxDepth) return false;
  thread_stack.contexts[thread_stack.depth++] = context;
  return true;
}

CudaContext Contexts::Pop() {
  if (thread_stack.depth == 0) return nullptr;
  return thread_stack.contexts[--thread_stack.depth];
}

}  // namespace firn::libcuda
