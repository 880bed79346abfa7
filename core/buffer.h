// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn::Buffer<T>: an array of T in device memory of a pool, owned as
// std::unique_ptr owns an object.
//
//   firn::AllocateOptions options;
//   options.stream = stream;
//   absl::StatusOr<firn::Buffer<float>> buffer =
//       firn::Buffer<float>::Allocate(*pool, 1 << 20, options);
//   if (!buffer.ok()) return buffer.status();
//   kernel<<<grid, block, 0, stream>>>(buffer->data(), buffer->count());
//   // Freed on `stream` when the buffer goes.

#ifndef FIRN_CORE_BUFFER_H_
#define FIRN_CORE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "firn/core/pool.h"
#include "firn/core/pool_options.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// Owns at most one block; the pool must outlive it. Constructs and destroys no
// T: the contents are undefined at first, and on the device.
// Thread safety: none; different buffers of one pool may be used by different
// threads.
template <typename T>
class Buffer {
 public:
  static_assert(std::is_object<T>::value && !std::is_const<T>::value &&
                    std::is_trivially_copyable<T>::value,
                "Buffer<T> is device memory that T is copied into: T must be a "
                "trivially copyable type, and not const");

  // `count` elements at an address aligned for T, and as `options` say. A count
  // of 0 gives an empty buffer. InvalidArgument: more bytes than 2^64 - 1, or
  // what Pool::Allocate refuses; ResourceExhausted as there.
  static absl::StatusOr<Buffer> Allocate(Pool& pool, uint64_t count,
                                         AllocateOptions options = {});

  // Owns nothing.
  Buffer() = default;
  // Frees the block on stream(). Where that fails (the stream is capturing or
  // gone), the block stays allocated until the pool goes; Free() tells.
  ~Buffer() { FreeQuietly(); }

  // The other one is empty afterwards.
  Buffer(Buffer&& other) noexcept { Take(&other); }
  // Frees the block that this one had, on its stream, before it takes the
  // other's.
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      FreeQuietly();
      Take(&other);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // A device address: the same for as long as the block lives, whatever the
  // pool moves. nullptr if empty.
  T* data() const { return data_; }
  uint64_t count() const { return count_; }
  uint64_t bytes() const { return count_ * sizeof(T); }
  bool empty() const { return data_ == nullptr; }

  // The stream that the destructor frees on: AllocateOptions::stream unless
  // another one was set. It must be the one that uses the block last, and must
  // live until then.
  StreamHandle stream() const { return stream_; }
  void set_stream(StreamHandle stream) { stream_ = stream; }

  // Frees the block now; the buffer is empty afterwards. Does nothing if it is
  // empty already. On failure, see Pool::Free, it keeps the block.
  absl::Status Free(StreamHandle stream) {
    if (empty()) return absl::OkStatus();
    const absl::Status status = pool_->Free(data_, stream);
    if (status.ok()) Forget();
    return status;
  }

  // Gives up the block without freeing it: the caller frees the address with
  // Pool::Free. nullptr if empty.
  T* release() {
    T* const data = data_;
    Forget();
    return data;
  }

 private:
  Buffer(Pool* pool, T* data, uint64_t count, StreamHandle stream)
      : pool_(pool), data_(data), count_(count), stream_(stream) {}

  void FreeQuietly() { Free(stream_).IgnoreError(); }
  void Take(Buffer* other) {
    pool_ = other->pool_;
    data_ = other->data_;
    count_ = other->count_;
    stream_ = other->stream_;
    other->Forget();
  }
  void Forget() {
    data_ = nullptr;
    count_ = 0;
  }

  Pool* pool_ = nullptr;
  T* data_ = nullptr;
  uint64_t count_ = 0;
  StreamHandle stream_ = nullptr;
};

template <typename T>
absl::StatusOr<Buffer<T>> Buffer<T>::Allocate(Pool& pool, uint64_t count,
                                              AllocateOptions options) {
  constexpr uint64_t kMaxCount =
      std::numeric_limits<uint64_t>::max() / sizeof(T);
  if (count > kMaxCount) {
    return absl::InvalidArgumentError(absl::StrCat(
        "count: ", count, " elements of ", sizeof(T),
        " bytes are more than 2^64 - 1 bytes; must be at most ", kMaxCount));
  }
  if (count == 0) return Buffer(&pool, nullptr, 0, options.stream);
  // An alignment that is none is left for the pool to refuse.
  const uint64_t alignment = options.alignment_bytes;
  const bool is_alignment =
      alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (is_alignment && alignment < alignof(T)) {
    options.alignment_bytes = alignof(T);
  }
  const absl::StatusOr<void*> block = pool.Allocate(count * sizeof(T), options);
  if (!block.ok()) return block.status();
  return Buffer(&pool, static_cast<T*>(*block), count, options.stream);
}

}  // namespace firn

#endif  // FIRN_CORE_BUFFER_H_
