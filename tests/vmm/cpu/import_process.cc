// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/vmm/cpu/import_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

constexpr const char* kSocketVariable = "FIRN_TEST_IMPORT_SOCKET";
constexpr const char* kKindVariable = "FIRN_TEST_IMPORT_KIND";
constexpr const char* kFilter = "--gtest_filter=ImportProcessTest.DoesAsTold";

// An answer, or a command, is two bytes; `file` is -1 or goes along.
struct Message {
  uint8_t ok = 1;
  uint8_t value = 0;
};

bool Send(int socket, Message message, int file) {
  iovec part{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (file >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof(file));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) == sizeof(message);
}

bool Receive(int socket, Message* message, int* file) {
  iovec part{message, sizeof(*message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != sizeof(*message)) {
    return false;
  }
  *file = -1;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    std::memcpy(file, CMSG_DATA(rights), sizeof(*file));
  }
  return true;
}

// What the other process is.
class Importer {
 public:
  explicit Importer(bool real) : memory_(real), base_(memory_.Reserve(1)) {}

  // Returns what to answer; `*file` is what came along, then what goes back.
  uint8_t Do(ImportCommand command, int* file) {
    const int received = *file;
    *file = -1;
    switch (command) {
      case ImportCommand::kImport:
        file_ = received;
        handle_ = memory_.Import(file_);
        break;
      case ImportCommand::kMap:
        memory_.Map(base_, handle_);
        memory_.SetAccess(base_);
        break;
      case ImportCommand::kUnmap:
        memory_.Unmap(base_);
        break;
      case ImportCommand::kRelease:
        memory_.Release(handle_);
        break;
      case ImportCommand::kClose:
        EXPECT_EQ(close(file_), 0);
        break;
      case ImportCommand::kExport:
        *file = memory_.Export(handle_);
        break;
      case ImportCommand::kRead:
        return ByteAt(base_);
      case ImportCommand::kWrite:
        ByteAt(base_) = static_cast<uint8_t>(ByteAt(base_) + 1);
        break;
      case ImportCommand::kDevice: {
        AllocationProp prop;
        TestMemory::ExpectOk(memory_->GetProperties(&prop, handle_));
        return static_cast<uint8_t>(prop.location.id);
      }
      case ImportCommand::kFree:
        return static_cast<uint8_t>(memory_.FreeGranules());
    }
    return 0;
  }

 private:
  TestMemory memory_;
  const DevicePtr base_;
  int file_ = -1;
  PhysicalHandle handle_ = 0;
};

// The other process's main function, and the test of it.
TEST(ImportProcessTest, DoesAsTold) {
  const char* const socket_text = std::getenv(kSocketVariable);
  if (socket_text == nullptr) {
    ImportProcess process(/*real=*/false);
    EXPECT_EQ(process.Tell(ImportCommand::kFree),
              static_cast<int>(kMemoryGranules));
    return;
  }
  const int socket = std::atoi(socket_text);
  const char* const kind = std::getenv(kKindVariable);
  ASSERT_NE(kind, nullptr);
  Importer importer(std::strcmp(kind, "real") == 0);
  Message message;
  int file = -1;
  while (Receive(socket, &message, &file)) {
    message.value =
        importer.Do(static_cast<ImportCommand>(message.value), &file);
    message.ok = HasFailure() ? 0 : 1;
    ASSERT_TRUE(Send(socket, message, file));
    if (file >= 0) close(file);
  }
}

}  // namespace

ImportProcess::ImportProcess(bool real) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  socket_ = ends[0];
  // All that allocates is done before the fork: other threads may hold locks.
  const std::string socket_text =
      std::string(kSocketVariable) + "=" + std::to_string(ends[1]);
  const std::string kind =
      std::string(kKindVariable) + "=" + (real ? "real" : "ghost");
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    // What tells the test program to write a report, among others.
    if (std::strncmp(*variable, "GTEST_", 6) != 0) {
      environment.push_back(*variable);
    }
  }
  environment.push_back(const_cast<char*>(socket_text.c_str()));
  environment.push_back(const_cast<char*>(kind.c_str()));
  environment.push_back(nullptr);
  char* const arguments[] = {const_cast<char*>("import_process"),
                             const_cast<char*>(kFilter),
                             const_cast<char*>("--gtest_brief=1"), nullptr};
  process_ = fork();
  if (process_ == 0) {
    fcntl(ends[1], F_SETFD, 0);
    execve("/proc/self/exe", arguments, environment.data());
    _exit(127);
  }
  close(ends[1]);
}

ImportProcess::~ImportProcess() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  if (socket_ >= 0) close(socket_);
}

int ImportProcess::Tell(ImportCommand command, int file, int* received) {
  Message message;
  message.value = static_cast<uint8_t>(command);
  int came = -1;
  if (!Send(socket_, message, file) || !Receive(socket_, &message, &came)) {
    return kFailed;
  }
  if (received != nullptr) {
    *received = came;
  } else if (came >= 0) {
    close(came);
  }
  return message.ok != 0 ? message.value : kFailed;
}

}  // namespace firn::cpu_testing
