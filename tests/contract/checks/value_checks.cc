// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Waits for values and writes of values, in stream order.

#include <optional>

#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

constexpr DriverResult kDone = DriverResult::kSuccess;
constexpr DriverResult kBusy = DriverResult::kNotReady;

// A word in device memory, a stream that waits for it, and one that writes it.
class Word {
 public:
  Word(ContractDevice* device, uint64_t initial)
      : device_(device),
        address_(device->MapRow()),
        waiter_(device->NewStream()),
        writer_(device->NewStream()) {
    (void)device->FillGranule(address_, 0);
    (void)device->MemcpyHtoDAsync(address_, &initial, sizeof(initial), writer_);
    (void)device->StreamSynchronize(writer_);
  }
  // Whatever a check that failed still waits for, it may stop now.
  ~Word() {
    if (!release_.has_value()) return;
    (void)Write64(*release_);
  }
  Word(const Word&) = delete;
  Word& operator=(const Word&) = delete;

  // `release` is a value that ends the wait.
  DriverResult Wait32(uint32_t value, uint32_t flags, uint64_t release) {
    release_ = release;
    return device_->StreamWaitValue32(waiter_, address_, value, flags);
  }
  DriverResult Wait64(uint64_t value, uint32_t flags, uint64_t release) {
    release_ = release;
    return device_->StreamWaitValue64(waiter_, address_, value, flags);
  }
  DriverResult Write32(uint32_t value) {
    const DriverResult result =
        device_->StreamWriteValue32(writer_, address_, value, 0);
    if (result != DriverResult::kSuccess) return result;
    return device_->StreamSynchronize(writer_);
  }
  // As a copy, which every device can do.
  DriverResult Write64(uint64_t value) {
    const DriverResult result =
        device_->MemcpyHtoDAsync(address_, &value, sizeof(value), writer_);
    const DriverResult waited = device_->StreamSynchronize(writer_);
    return result != DriverResult::kSuccess ? result : waited;
  }
  DriverResult Query() { return device_->StreamQuery(waiter_); }
  DriverResult Join() { return device_->StreamSynchronize(waiter_); }
  DevicePtr address() const { return address_; }
  StreamHandle waiter() const { return waiter_; }

 private:
  ContractDevice* const device_;
  const DevicePtr address_;
  const StreamHandle waiter_;
  const StreamHandle writer_;
  std::optional<uint64_t> release_;
};

#define FIRN_NEEDS_64_BITS()                                  \
  FIRN_NEEDS(device.Has(DeviceAttribute::k64BitStreamMemOps), \
             "no 64-bit values")

FIRN_CONTRACT(value, wait_geq, Documented("cuda.h, CU_STREAM_WAIT_VALUE_GEQ")) {
  Word word(&device, 4);
  FIRN_WORKS(word.Wait32(6, kWaitValueGeq, 6));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write32(5));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write32(7));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_geq_is_cyclic,
              Documented("cuda.h, CU_STREAM_WAIT_VALUE_GEQ: a signed "
                         "difference")) {
  Word word(&device, 0xfffffff0u);
  FIRN_WORKS(word.Wait32(2, kWaitValueGeq, 2));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write32(3));
  FIRN_WORKS(word.Join());
  // 5 - 0xfffffff0 is 21.
  FIRN_WORKS(word.Write32(5));
  FIRN_WORKS(word.Wait32(0xfffffff0u, kWaitValueGeq, 5));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_eq, Documented("cuda.h, CU_STREAM_WAIT_VALUE_EQ")) {
  Word word(&device, 0);
  FIRN_WORKS(word.Wait32(6, kWaitValueEq, 6));
  FIRN_WORKS(word.Write32(7));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write32(6));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_and, Documented("cuda.h, CU_STREAM_WAIT_VALUE_AND")) {
  Word word(&device, 0x3);
  FIRN_WORKS(word.Wait32(0xc, kWaitValueAnd, 0xc));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write32(0x7));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_nor, Documented("cuda.h, CU_STREAM_WAIT_VALUE_NOR")) {
  FIRN_NEEDS(device.Has(DeviceAttribute::kStreamWaitValueNor), "no NOR");
  Word word(&device, 0xffff0000u);
  FIRN_WORKS(word.Wait32(0x0000ffffu, kWaitValueNor, 0));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write32(0x7fff0000u));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, that_is_there_stops_nobody,
              Documented("cuda.h, cuStreamWaitValue32")) {
  Word word(&device, 9);
  FIRN_WORKS(word.Wait32(9, kWaitValueEq, 9));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_holds_later_work,
              Documented("cuda.h, cuStreamWaitValue32: operations after it "
                         "wait")) {
  Word word(&device, 0);
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(word.Wait32(1, kWaitValueGeq, 1));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, word.waiter()));
  FIRN_HOLDS(device.AllBytesAre(address, 0, 64));
  FIRN_WORKS(word.Write32(1));
  FIRN_WORKS(word.Join());
  FIRN_HOLDS(device.AllBytesAre(address, 1, 64));
}

FIRN_CONTRACT(value, copy_from_the_host_ends_a_wait,
              Inferred("cuda.h, cuStreamWaitValue32: polls memory")) {
  Word word(&device, 0);
  FIRN_WORKS(word.Wait32(1, kWaitValueGeq, 1));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write64(1));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_sees_32_bits_only,
              Documented("cuda.h, cuStreamWaitValue32: a 32-bit value")) {
  Word word(&device, 0xffffffff00000006u);
  FIRN_WORKS(word.Wait32(6, kWaitValueEq, 6));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_64_sees_64_bits,
              Documented("cuda.h, cuStreamWaitValue64")) {
  FIRN_NEEDS_64_BITS();
  constexpr uint64_t kValue = uint64_t{7} << 40;
  Word word(&device, 7);
  FIRN_WORKS(word.Wait64(kValue, kWaitValueEq, kValue));
  FIRN_GIVES(kBusy, word.Query());
  FIRN_WORKS(word.Write64(kValue));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, wait_64_geq_is_cyclic,
              Documented("cuda.h, CU_STREAM_WAIT_VALUE_GEQ: a signed "
                         "difference")) {
  FIRN_NEEDS_64_BITS();
  Word word(&device, 3);
  FIRN_WORKS(word.Wait64(~uint64_t{0}, kWaitValueGeq, 3));
  FIRN_WORKS(word.Join());
}

FIRN_CONTRACT(value, write_32_leaves_its_neighbours,
              Documented("cuda.h, cuStreamWriteValue32")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0x55));
  FIRN_WORKS(device.StreamWriteValue32(stream, address + 4, 0x01020304, 0));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_EQUALS(0x55555555u, device.Word(address));
  FIRN_EQUALS(0x01020304u, device.Word(address + 4));
  FIRN_EQUALS(0x55555555u, device.Word(address + 8));
}

FIRN_CONTRACT(value, write_64_writes_both_halves,
              Documented("cuda.h, cuStreamWriteValue64")) {
  FIRN_NEEDS_64_BITS();
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(
      device.StreamWriteValue64(stream, address + 8, 0x1112131415161718u, 0));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_EQUALS(0x15161718u, device.Word(address + 8));
  FIRN_EQUALS(0x11121314u, device.Word(address + 12));
}

FIRN_CONTRACT(value, write_comes_after_earlier_work,
              Documented("cuda.h, CU_STREAM_WRITE_VALUE_DEFAULT")) {
  Word word(&device, 0);
  const DevicePtr address = device.MapRow();
  const DevicePtr target = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(word.Wait32(1, kWaitValueGeq, 1));
  FIRN_WORKS(device.MemcpyDtoDAsync(target, address, 64, word.waiter()));
  FIRN_WORKS(device.MemsetD8Async(address, 3, 64, stream));
  FIRN_WORKS(device.StreamWriteValue32(stream, word.address(), 1, 0));
  FIRN_WORKS(word.Join());
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(target, 3, 64));
}

FIRN_CONTRACT(
    value, waits_of_two_streams_chain,
    Inferred("cuda.h, cuStreamWaitValue32 and cuStreamWriteValue32")) {
  Word first(&device, 0);
  Word second(&device, 0);
  FIRN_WORKS(first.Wait32(1, kWaitValueEq, 1));
  FIRN_WORKS(device.StreamWriteValue32(first.waiter(), second.address(), 1, 0));
  FIRN_WORKS(second.Wait32(1, kWaitValueEq, 1));
  FIRN_GIVES(kBusy, second.Query());
  FIRN_WORKS(first.Write32(1));
  FIRN_WORKS(second.Join());
  FIRN_GIVES(kDone, first.Join());
}

FIRN_CONTRACT(value, address_is_aligned,
              Inferred("cuda.h, cuStreamWaitValue32: INVALID_VALUE")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_REFUSES(device.StreamWriteValue32(stream, address + 2, 1, 0));
  FIRN_REFUSES(device.StreamWaitValue32(stream, address + 2, 0, kWaitValueEq));
}

FIRN_CONTRACT(value, address_of_64_bits_is_aligned,
              Inferred("cuda.h, cuStreamWaitValue64: INVALID_VALUE")) {
  FIRN_NEEDS_64_BITS();
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_REFUSES(device.StreamWriteValue64(stream, address + 4, 1, 0));
  FIRN_REFUSES(device.StreamWaitValue64(stream, address + 4, 0, kWaitValueEq));
}

FIRN_CONTRACT(value, unknown_flags_are_refused,
              Inferred("cuda.h, CUstreamWaitValue_flags: INVALID_VALUE")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_REFUSES(device.StreamWaitValue32(stream, address, 0, 0x100));
  FIRN_REFUSES(device.StreamWriteValue32(stream, address, 0, 0x100));
}

FIRN_CONTRACT(value, address_is_mapped,
              Inferred("cuda.h, cuStreamWaitValue32: device pointers")) {
  const DevicePtr address = device.Reserve(1);
  const StreamHandle stream = device.NewStream();
  FIRN_REFUSES(device.StreamWriteValue32(stream, address, 1, 0));
  FIRN_REFUSES(device.StreamWaitValue32(stream, address, 1, kWaitValueEq));
}

FIRN_CONTRACT(value, write_needs_the_right_to_write,
              Strict("cuda.h, CU_MEM_ACCESS_FLAGS_PROT_READ")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(device.SetAccess(address, 1, AccessFlags::kRead));
  FIRN_REFUSES(device.StreamWriteValue32(stream, address, 1, 0));
  FIRN_WORKS(device.StreamWaitValue32(stream, address, 0, kWaitValueEq));
  FIRN_WORKS(device.StreamSynchronize(stream));
}

}  // namespace
}  // namespace firn::contract
