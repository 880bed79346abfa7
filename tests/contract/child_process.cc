// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace firn::contract {

pid_t StartChild(const std::vector<std::string>& arguments, int inherited_fd) {
  std::vector<char*> argv;
  std::string program = "/proc/self/exe";
  argv.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // What is buffered must not be printed twice.
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  // Only calls that are safe in the child of a process with threads.
  if (inherited_fd != -1) {
    const int flags = fcntl(inherited_fd, F_GETFD);
    fcntl(inherited_fd, F_SETFD, flags & ~FD_CLOEXEC);
  }
  execv(program.c_str(), argv.data());
  _exit(127);
}

int WaitForChild(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) == -1) {
    if (errno != EINTR) return -1;
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace firn::contract
