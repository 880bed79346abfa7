// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/byte_count.h"

namespace firn::bench {
namespace {

constexpr size_t kPackedBufferBytes = size_t{64} << 10;

absl::Status CutOff(absl::string_view path) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the compressed data ends early; the file is cut off"));
}

class PlainFile : public ByteSource {
 public:
  PlainFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;
  ~PlainFile() override { close(fd_); }

  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    while (true) {
      const ssize_t count = read(fd_, buffer, capacity);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": cannot be read: ", std::strerror(errno)));
      }
    }
  }

  absl::Status Rewind() override {
    if (lseek(fd_, 0, SEEK_SET) == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": cannot be rewound: ", std::strerror(errno)));
  }

 private:
  std::string path_;
  int fd_;
};

// What both unpackers share: packed bytes of `file`, a buffer at a time.
class PackedInput {
 public:
  explicit PackedInput(std::unique_ptr<ByteSource> file)
      : file_(std::move(file)), buffer_(kPackedBufferBytes) {}

  // Makes bytes available where there are none; false at the end of the file.
  absl::StatusOr<bool> Refill() {
    if (position_ < size_) return true;
    absl::StatusOr<size_t> count = file_->Read(buffer_.data(), buffer_.size());
    if (!count.ok()) return count.status();
    position_ = 0;
    size_ = *count;
    return size_ > 0;
  }

  const char* data() const { return buffer_.data() + position_; }
  size_t available() const { return size_ - position_; }
  void Consume(size_t count) { position_ += count; }

  absl::Status Rewind() {
    position_ = size_ = 0;
    return file_->Rewind();
  }

 private:
  std::unique_ptr<ByteSource> file_;
  std::vector<char> buffer_;
  size_t position_ = 0;
  size_t size_ = 0;
};

class GzipFile : public ByteSource {
 public:
  GzipFile(std::string path, std::unique_ptr<ByteSource> file)
      : path_(std::move(path)), input_(std::move(file)) {}
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  ~GzipFile() override {
    if (open_) inflateEnd(&stream_);
  }

  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    const uInt wanted = static_cast<uInt>(
        capacity < kPackedBufferBytes ? capacity : kPackedBufferBytes);
    while (true) {
      absl::StatusOr<bool> more = input_.Refill();
      if (!more.ok()) return more.status();
      if (!*more) {
        if (open_) return CutOff(path_);
        return size_t{0};
      }
      // A file may hold several members, one after the other.
      if (!open_) {
        stream_ = z_stream{};
        constexpr int kGzipOnly = 16;
        if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) {
          return absl::ResourceExhaustedError(
              absl::StrCat(path_, ": no memory to unpack the file"));
        }
        open_ = true;
      }
      stream_.next_in = reinterpret_cast<Bytef*>(
          const_cast<char*>(input_.data()));  // zlib does not write to it
      const uInt offered = static_cast<uInt>(input_.available());
      stream_.avail_in = offered;
      stream_.next_out = reinterpret_cast<Bytef*>(buffer);
      stream_.avail_out = wanted;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      input_.Consume(offered - stream_.avail_in);
      if (result == Z_STREAM_END) {
        inflateEnd(&stream_);
        open_ = false;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, ": damaged gzip data",
            stream_.msg == nullptr ? "" : absl::StrCat(": ", stream_.msg)));
      }
      if (stream_.avail_out < wanted) {
        return size_t{wanted} - stream_.avail_out;
      }
    }
  }

  absl::Status Rewind() override {
    if (open_) inflateEnd(&stream_);
    open_ = false;
    return input_.Rewind();
  }

 private:
  std::string path_;
  PackedInput input_;
  z_stream stream_ = {};
  bool open_ = false;  // inside a member
};

class ZstdFile : public ByteSource {
 public:
  ZstdFile(std::string path, std::unique_ptr<ByteSource> file)
      : path_(std::move(path)),
        input_(std::move(file)),
        context_(ZSTD_createDCtx()) {}
  ZstdFile(const ZstdFile&) = delete;
  ZstdFile& operator=(const ZstdFile&) = delete;
  ~ZstdFile() override { ZSTD_freeDCtx(context_); }

  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    if (context_ == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path_, ": no memory to unpack the file"));
    }
    ZSTD_outBuffer out{buffer, capacity, 0};
    while (true) {
      absl::StatusOr<bool> more = input_.Refill();
      if (!more.ok()) return more.status();
      // Without new input the rest of an earlier block may still come out.
      ZSTD_inBuffer in{input_.data(), input_.available(), 0};
      const size_t result = ZSTD_decompressStream(context_, &out, &in);
      input_.Consume(in.pos);
      if (ZSTD_isError(result) != 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, ": damaged Zstandard data: ", ZSTD_getErrorName(result)));
      }
      inside_frame_ = *more || out.pos > 0 ? result != 0 : inside_frame_;
      if (out.pos > 0) return out.pos;
      if (!*more) {
        if (inside_frame_) return CutOff(path_);
        return size_t{0};
      }
    }
  }

  absl::Status Rewind() override {
    if (context_ != nullptr) {
      ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
    }
    inside_frame_ = false;
    return input_.Rewind();
  }

 private:
  std::string path_;
  PackedInput input_;
  ZSTD_DCtx* context_;
  bool inside_frame_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(
    absl::string_view path) {
  std::string name(path);
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  std::unique_ptr<ByteSource> file = std::make_unique<PlainFile>(name, fd);
  struct stat about = {};
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": not a regular file; a trace is read more than once"));
  }
  char magic[4] = {};
  absl::StatusOr<size_t> count = file->Read(magic, sizeof(magic));
  if (!count.ok()) return count.status();
  if (absl::Status status = file->Rewind(); !status.ok()) return status;
  const absl::string_view start(magic, *count);
  if (absl::StartsWith(start, "\x1f\x8b")) {
    return std::make_unique<GzipFile>(std::move(name), std::move(file));
  }
  if (start == "\x28\xb5\x2f\xfd") {
    return std::make_unique<ZstdFile>(std::move(name), std::move(file));
  }
  return file;
}

namespace {

// What is read whole may unpack to this at least, ...
constexpr uint64_t kSmallBytes = uint64_t{64} << 20;
// ... or to so many times its size: a little file must not fill the memory.
constexpr uint64_t kMostExpansion = 200;

uint64_t FileBytes(absl::string_view path) {
  struct stat about = {};
  return stat(std::string(path).c_str(), &about) == 0
             ? static_cast<uint64_t>(about.st_size)
             : 0;
}

}  // namespace

absl::StatusOr<std::string> ReadAllBytes(absl::string_view path,
                                         uint64_t most_bytes) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenByteSource(path);
  if (!source.ok()) return source.status();
  const uint64_t most_unpacked_bytes =
      std::max(kSmallBytes, kMostExpansion * FileBytes(path));
  std::string bytes;
  std::vector<char> buffer(size_t{1} << 20);
  while (true) {
    absl::StatusOr<size_t> count =
        (*source)->Read(buffer.data(), buffer.size());
    if (!count.ok()) return count.status();
    if (*count == 0) return bytes;
    if (*count > most_bytes - bytes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": holds more than ", FormatByteCount(most_bytes),
                       ", the most that is read of such a file"));
    }
    bytes.append(buffer.data(), *count);
    if (bytes.size() > most_unpacked_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": unpacks to more than ", kMostExpansion,
                       " times its size, as no recorded trace does"));
    }
  }
}

}  // namespace firn::bench
