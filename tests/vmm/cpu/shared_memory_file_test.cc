// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/shared_memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "firn/vmm/cpu/host_memory.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

using cpu::FileIdentity;
using cpu::IsExportAlive;
using cpu::OpenForExport;
using cpu::SharedMemoryInfo;

class SharedMemoryFileTest : public ::testing::Test {
 protected:
  SharedMemoryFileTest() {
    info_.granularity_bytes = kMemoryGranule;
    info_.bytes = 3 * kMemoryGranule;
    info_.prop = ShareablePropAt(Device(5));
    info_.prop.alloc_flags.gpu_direct_rdma_capable = 1;
    file_ = cpu::CreateSharedMemoryFile(info_);
  }
  ~SharedMemoryFileTest() override { close(file_); }

  SharedMemoryInfo info_;
  int file_ = -1;
};

TEST_F(SharedMemoryFileTest, SaysWhatItHolds) {
  for (const bool has_contents : {true, false}) {
    info_.has_contents = has_contents;
    const int file = cpu::CreateSharedMemoryFile(info_);
    SharedMemoryInfo read;
    FileIdentity identity;
    ASSERT_EQ(cpu::ReadSharedMemoryFile(file, &read, &identity), nullptr);
    EXPECT_EQ(read.has_contents, has_contents);
    EXPECT_EQ(read.granularity_bytes, kMemoryGranule);
    EXPECT_EQ(read.bytes, 3 * kMemoryGranule);
    EXPECT_EQ(read.prop.type, AllocationType::kPinned);
    EXPECT_EQ(read.prop.requested_handle_types,
              ShareableHandleType::kPosixFileDescriptor);
    EXPECT_EQ(read.prop.location.type, LocationType::kDevice);
    EXPECT_EQ(read.prop.location.id, 5);
    EXPECT_EQ(read.prop.alloc_flags.gpu_direct_rdma_capable, 1);
    EXPECT_EQ(lseek(file, 0, SEEK_END),
              static_cast<off_t>((has_contents ? read.bytes : 0) +
                                 cpu::HostPageBytes()));
    close(file);
  }
}

TEST_F(SharedMemoryFileTest, AFileIsKnownByItsIdentity) {
  const int exported = OpenForExport(file_);
  const int other = cpu::CreateSharedMemoryFile(info_);
  EXPECT_TRUE(cpu::IdentityOf(exported) == cpu::IdentityOf(file_));
  EXPECT_FALSE(cpu::IdentityOf(other) == cpu::IdentityOf(file_));
  close(exported);
  close(other);
}

TEST_F(SharedMemoryFileTest, AnExportIsAliveWhileADescriptorIs) {
  EXPECT_FALSE(IsExportAlive(file_));
  const int first = OpenForExport(file_);
  const int second = OpenForExport(file_);
  const int duplicate = dup(first);
  // To ask changes nothing.
  EXPECT_TRUE(IsExportAlive(file_));
  close(first);
  EXPECT_TRUE(IsExportAlive(file_));
  close(second);
  EXPECT_TRUE(IsExportAlive(file_));
  close(duplicate);
  EXPECT_FALSE(IsExportAlive(file_));
  // Descriptors that were not handed out do not count.
  const int own = dup(file_);
  EXPECT_FALSE(IsExportAlive(file_));
  close(own);
}

TEST_F(SharedMemoryFileTest, AnExportIsAliveWhileAMappingIs) {
  const int exported = OpenForExport(file_);
  void* const mapping = mmap(nullptr, kMemoryGranule, PROT_READ | PROT_WRITE,
                             MAP_SHARED, exported, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  close(exported);
  EXPECT_TRUE(IsExportAlive(file_));
  munmap(mapping, kMemoryGranule);
  EXPECT_FALSE(IsExportAlive(file_));
}

TEST_F(SharedMemoryFileTest, AnExportIsAliveWhileAForkedProcessIs) {
  const int exported = OpenForExport(file_);
  int wake[2];
  ASSERT_EQ(pipe(wake), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(wake[1]);
    _exit(read(wake[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(exported);
  EXPECT_TRUE(IsExportAlive(file_));
  close(wake[0]);
  close(wake[1]);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsExportAlive(file_));
}

TEST_F(SharedMemoryFileTest, TheSizeIsSealed) {
  EXPECT_NE(ftruncate(file_, 0), 0);
  EXPECT_NE(ftruncate(file_, 1 << 30), 0);
  EXPECT_NE(fcntl(file_, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

}  // namespace
}  // namespace firn::cpu_testing
