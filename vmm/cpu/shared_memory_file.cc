// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/shared_memory_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "firn/vmm/cpu/host_memory.h"
#include "firn/vmm/cpu/memory_file.h"

namespace firn::cpu {
namespace {

constexpr uint64_t kMagic = 0x314D454D4E524946;  // "FIRNMEM1"
constexpr uint32_t kVersion = 1;
// Its size never changes, so that a mapping of it can always be touched; and
// nobody can add a seal, so that it can always be mapped.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kWriteSeals = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
constexpr const char* kForeignRule =
    "the file descriptor must be one that this kind of driver exported";
constexpr const char* kDescriptorRule =
    "the shareable handle must be an open file descriptor";

// How often an exported descriptor is locked in vain, and the pause between.
constexpr int kLockTries = 4;
constexpr long kLockPauseNanoseconds = 1000000;

// What the last page of the file begins with.
struct Trailer {
  uint64_t magic;
  uint32_t version;
  uint32_t has_contents;
  uint64_t granularity_bytes;
  uint64_t bytes;
  int32_t allocation_type;
  int32_t handle_types;
  int32_t location_type;
  int32_t location_id;
  uint32_t rdma_capable;
  uint32_t unused;
  // No two files have the same.
  uint64_t id[2];
  // Of all that stands before.
  uint64_t checksum;
};
static_assert(std::is_trivially_copyable_v<Trailer> && sizeof(Trailer) == 80,
              "part of the file's format");

// FNV-1a.
uint64_t Checksum(const Trailer& trailer) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&trailer);
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < offsetof(Trailer, checksum); ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001B3;
  }
  return hash;
}

uint64_t ContentBytes(const SharedMemoryInfo& info) {
  return info.has_contents ? info.bytes : 0;
}

Trailer TrailerOf(const SharedMemoryInfo& info) {
  Trailer trailer = {};
  trailer.magic = kMagic;
  trailer.version = kVersion;
  trailer.has_contents = info.has_contents ? 1 : 0;
  trailer.granularity_bytes = info.granularity_bytes;
  trailer.bytes = info.bytes;
  trailer.allocation_type = static_cast<int32_t>(info.prop.type);
  trailer.handle_types = static_cast<int32_t>(info.prop.requested_handle_types);
  trailer.location_type = static_cast<int32_t>(info.prop.location.type);
  trailer.location_id = info.prop.location.id;
  trailer.rdma_capable = info.prop.alloc_flags.gpu_direct_rdma_capable;
  // An id of zeros, where there is nothing random, is no less right: files are
  // told apart by their identity.
  if (getrandom(trailer.id, sizeof(trailer.id), GRND_NONBLOCK) < 0) {
    trailer.id[0] = trailer.id[1] = 0;
  }
  trailer.checksum = Checksum(trailer);
  return trailer;
}

SharedMemoryInfo InfoOf(const Trailer& trailer) {
  SharedMemoryInfo info;
  info.has_contents = trailer.has_contents != 0;
  info.granularity_bytes = trailer.granularity_bytes;
  info.bytes = trailer.bytes;
  info.prop.type = static_cast<AllocationType>(trailer.allocation_type);
  info.prop.requested_handle_types =
      static_cast<ShareableHandleType>(trailer.handle_types);
  info.prop.location.type = static_cast<LocationType>(trailer.location_type);
  info.prop.location.id = trailer.location_id;
  info.prop.alloc_flags.gpu_direct_rdma_capable =
      static_cast<unsigned char>(trailer.rdma_capable);
  return info;
}

bool WriteTrailer(int fd, uint64_t offset_bytes, const Trailer& trailer) {
  return pwrite(fd, &trailer, sizeof(trailer),
                static_cast<off_t>(offset_bytes)) == sizeof(trailer);
}

// Whether an open failed for want of something, not for its path.
bool IsExhaustion(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

// Never waits; false with errno set.
bool Lock(int fd, int operation) {
  int result;
  do {
    result = flock(fd, operation | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

// Marks an exported descriptor as alive. For a moment an IsExportAlive, asked
// in another process, may be in the way; for long, only somebody who locks what
// was exported, and for him nobody waits.
Verdict LockForExport(int exported) {
  for (int tries = 1; !Lock(exported, LOCK_SH); ++tries) {
    if (errno != EWOULDBLOCK) {
      return Refuse(DriverResult::kOutOfMemory,
                    "the host must have a file lock to spare");
    }
    if (tries == kLockTries) {
      return Refuse(DriverResult::kNotPermitted,
                    "nobody may hold an exclusive lock (flock) on a file "
                    "descriptor of the memory");
    }
    const struct timespec pause = {0, kLockPauseNanoseconds};
    nanosleep(&pause, nullptr);
  }
  return Allow();
}

FileIdentity IdentityOf(const struct stat& status) {
  return FileIdentity{static_cast<uint64_t>(status.st_dev),
                      static_cast<uint64_t>(status.st_ino)};
}

}  // namespace

Verdict CreateSharedMemoryFile(const SharedMemoryInfo& info,
                               PrivateFile* file) {
  PrivateFile made;
  const Verdict created =
      CreateMemoryFile("firn_shared_memory", /*sealable=*/true, &made);
  if (!created.ok()) return created;
  const uint64_t content_bytes = ContentBytes(info);
  const Verdict resized =
      ResizeMemoryFile(made.fd(), content_bytes + HostPageBytes());
  if (!resized.ok()) return resized;
  if (!WriteTrailer(made.fd(), content_bytes, TrailerOf(info)) ||
      fcntl(made.fd(), F_ADD_SEALS, kSeals) != 0) {
    return Refuse(DriverResult::kOutOfMemory, kHostMemoryRule);
  }
  *file = std::move(made);
  return Allow();
}

Verdict ReceiveSharedMemoryFile(int fd, PrivateFile* file) {
  PrivateFile own =
      PrivateFile::Open([fd] { return fcntl(fd, F_DUPFD_CLOEXEC, 0); });
  if (!own.ok()) {
    return errno == EBADF ? RefuseValue(kDescriptorRule) : RefuseFile(errno);
  }
  *file = std::move(own);
  return Allow();
}

const char* ReadSharedMemoryFile(int fd, SharedMemoryInfo* info,
                                 FileIdentity* identity) {
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) return kDescriptorRule;
  const int seals = fcntl(fd, F_GET_SEALS);
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  if (seals < 0 || (seals & kSeals) != kSeals || file_bytes < HostPageBytes()) {
    return kForeignRule;
  }
  if ((seals & kWriteSeals) != 0) {
    return "the memory file must not be sealed against writing";
  }
  if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return "the file descriptor must be open for reading and writing";
  }
  const uint64_t content_bytes = file_bytes - HostPageBytes();
  Trailer trailer = {};
  if (pread(fd, &trailer, sizeof(trailer), static_cast<off_t>(content_bytes)) !=
          sizeof(trailer) ||
      trailer.magic != kMagic) {
    return kForeignRule;
  }
  if (trailer.version != kVersion) {
    return "the memory must be of a driver of this version";
  }
  const SharedMemoryInfo read = InfoOf(trailer);
  if (trailer.checksum != Checksum(trailer) ||
      ContentBytes(read) != content_bytes || read.bytes == 0) {
    return "what the file descriptor says about its memory must be undamaged";
  }
  *info = read;
  *identity = IdentityOf(status);
  return nullptr;
}

FileIdentity IdentityOf(int fd) {
  struct stat status = {};
  fstat(fd, &status);
  return IdentityOf(status);
}

Verdict OpenForExport(int fd, int* exported) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const int opened = open(path, O_RDWR | O_CLOEXEC);
  if (opened >= 0) {
    const Verdict locked = LockForExport(opened);
    if (!locked.ok()) {
      close(opened);
      return locked;
    }
    *exported = opened;
    return Allow();
  }
  if (IsExhaustion(errno)) return RefuseFile(errno);
  const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return RefuseFile(errno);
  *exported = duplicate;
  return Allow();
}

bool IsExportAlive(int fd) {
  if (!Lock(fd, LOCK_EX)) return true;
  Lock(fd, LOCK_UN);
  return false;
}

}  // namespace firn::cpu
