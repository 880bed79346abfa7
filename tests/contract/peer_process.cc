// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/peer_process.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/contract/child_process.h"
#include "tests/contract/contract_device.h"
#include "tests/contract/runner.h"

namespace firn::contract {
namespace {

constexpr auto kFdType = ShareableHandleType::kPosixFileDescriptor;

// The control data of a message that carries one descriptor.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr header;
};

bool SendDescriptor(int socket, int fd) {
  char letter = 'x';
  iovec data{&letter, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return sendmsg(socket, &message, 0) == 1;
}

int ReceiveDescriptor(int socket) {
  char letter = 0;
  iovec data{&letter, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  if (recvmsg(socket, &message, MSG_DONTWAIT) != 1) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

void PlayImporter(ContractDevice& device, int fd, CheckResult& result) {
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kFdType));
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_HOLDS(device.GranuleIs(address, kExportedByte));
  FIRN_WORKS(device.FillGranule(address, kAnsweredByte));
}

void PlayExporter(ContractDevice& device, int socket, CheckResult& result) {
  AllocationProp prop = device.Prop();
  prop.requested_handle_types = kFdType;
  PhysicalHandle handle = 0;
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  const DevicePtr address = device.MapAnywhere(handle);
  FIRN_WORKS(device.FillGranule(address, kExportedByte));
  int fd = -1;
  FIRN_WORKS(device.MemExportToShareableHandle(&fd, handle, kFdType, 0));
  FIRN_HOLDS(SendDescriptor(socket, fd));
}

}  // namespace

int PlayRole(absl::string_view role, Way way, int fd) {
  auto devices = testing::OpenDevices(way, SuiteDevices(CpuDefect::kNone));
  CheckResult result;
  if (!devices.ok()) {
    result.Fail(__FILE__, __LINE__, devices.status().ToString());
  } else {
    ContractDevice device(way, devices->get(), 0, &result);
    if (role == kImporterRole) {
      PlayImporter(device, fd, result);
    } else if (role == kExporterRole) {
      PlayExporter(device, fd, result);
    } else {
      result.Fail(__FILE__, __LINE__, "unknown role");
    }
    for (const std::string& refusal : device.CleanUp()) {
      result.Fail(__FILE__, __LINE__, refusal);
    }
  }
  for (const std::string& failure : result.failures()) {
    std::printf("in the other process: %s\n", failure.c_str());
  }
  return result.failures().empty() ? kExitPassed : kExitFailed;
}

int RunPeerProcess(absl::string_view role, Way way, int fd) {
  return WaitForChild(
      StartChild({absl::StrCat("--way=", testing::WayName(way)),
                  absl::StrCat("--role=", role), absl::StrCat("--fd=", fd)},
                 fd));
}

int RunExporterProcess(Way way) {
  int sockets[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return -1;
  }
  const int status = RunPeerProcess(kExporterRole, way, sockets[1]);
  const int fd = status == kExitPassed ? ReceiveDescriptor(sockets[0]) : -1;
  close(sockets[0]);
  close(sockets[1]);
  return fd;
}

}  // namespace firn::contract
