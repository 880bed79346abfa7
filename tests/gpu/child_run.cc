// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/child_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/gpu/deadline.h"

namespace firn::gpu_check {
namespace {

// How long one that was told to die may take.
constexpr absl::Duration kDiesWithin = absl::Seconds(10);

// The reading end of a pipe, cut into lines.
class LinePipe {
 public:
  LinePipe() {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    read_fd_ = ends[0];
    write_fd_ = ends[1];
    fcntl(read_fd_, F_SETFL, O_NONBLOCK);
  }
  ~LinePipe() {
    CloseWriteEnd();
    if (read_fd_ != -1) close(read_fd_);
  }
  LinePipe(const LinePipe&) = delete;
  LinePipe& operator=(const LinePipe&) = delete;

  bool ok() const { return read_fd_ != -1; }
  int read_fd() const { return read_fd_; }
  int write_fd() const { return write_fd_; }
  void CloseWriteEnd() {
    if (write_fd_ != -1) close(write_fd_);
    write_fd_ = -1;
  }
  bool ended() const { return ended_; }

  // Passes on what is there by now. Returns whether there was a line.
  bool ReadLines(absl::FunctionRef<void(const std::string&)> line) {
    char chunk[4096];
    bool any = false;
    while (!ended_) {
      const ssize_t count = read(read_fd_, chunk, sizeof(chunk));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) break;
      if (count == 0) ended_ = true;
      pending_.append(chunk, static_cast<size_t>(count));
      size_t start = 0;
      for (size_t end = pending_.find('\n'); end != std::string::npos;
           end = pending_.find('\n', start)) {
        line(pending_.substr(start, end - start));
        any = true;
        start = end + 1;
      }
      pending_.erase(0, start);
    }
    return any;
  }

 private:
  int read_fd_ = -1;
  int write_fd_ = -1;
  bool ended_ = false;
  std::string pending_;
};

// The child's arguments and environment, made before the fork.
class ExecData {
 public:
  ExecData(const ChildRun& run, int report_fd) : words_(run.arguments) {
    words_.insert(words_.begin(), "/proc/self/exe");
    words_.push_back(absl::StrCat("--report_fd=", report_fd));
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      const bool replaced = std::any_of(
          run.environment.begin(), run.environment.end(),
          [&text](const auto& own) {
            return text.compare(0, own.first.size() + 1, own.first + "=") == 0;
          });
      if (!replaced) variables_.push_back(text);
    }
    for (const auto& [name, value] : run.environment) {
      variables_.push_back(absl::StrCat(name, "=", value));
    }
    for (std::string& word : words_) argv_.push_back(word.data());
    argv_.push_back(nullptr);
    for (std::string& variable : variables_) envp_.push_back(variable.data());
    envp_.push_back(nullptr);
  }
  void Exec() { execve(argv_[0], argv_.data(), envp_.data()); }

 private:
  std::vector<std::string> words_;
  std::vector<std::string> variables_;
  std::vector<char*> argv_;
  std::vector<char*> envp_;
};

pid_t Start(const ChildRun& run, const LinePipe& report,
            const LinePipe& output) {
  ExecData data(run, report.write_fd());
  const pid_t parent = getpid();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  // Nobody would stop it any more.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  fcntl(report.write_fd(), F_SETFD, 0);
  dup2(output.write_fd(), STDOUT_FILENO);
  dup2(output.write_fd(), STDERR_FILENO);
  data.Exec();
  _exit(127);
}

// Whether `child` has ended; if so, fills `end`.
bool HasEnded(pid_t child, ChildEnd* end) {
  int status = 0;
  const pid_t result = waitpid(child, &status, WNOHANG);
  if (result == 0 || (result < 0 && errno == EINTR)) return false;
  if (result > 0 && WIFSIGNALED(status)) {
    *end = {ChildEnd::Kind::kSignalled, WTERMSIG(status)};
  } else {
    *end = {ChildEnd::Kind::kExited, result > 0 ? WEXITSTATUS(status) : -1};
  }
  return true;
}

void Stop(pid_t child) {
  kill(-child, SIGKILL);
  kill(child, SIGKILL);  // it may not have its own group yet
  ChildEnd ignored;
  const Deadline deadline(kDiesWithin);
  while (!HasEnded(child, &ignored) && !deadline.Passed()) {
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace

std::string DescribeEnd(const ChildEnd& end) {
  switch (end.kind) {
    case ChildEnd::Kind::kExited:
      return absl::StrCat("it ended with status ", end.code);
    case ChildEnd::Kind::kSignalled:
      return absl::StrCat("it died: ", strsignal(end.code));
    case ChildEnd::Kind::kTimeUp:
      return "it was stopped: its time was up";
    case ChildEnd::Kind::kSilent:
      return "it was stopped: it hung";
    case ChildEnd::Kind::kNotStarted:
      return absl::StrCat("it could not be started: ", strerror(end.code));
  }
  return "it ended";
}

ChildEnd RunChild(const ChildRun& run,
                  absl::FunctionRef<void(const std::string&)> report_line,
                  absl::FunctionRef<void(const std::string&)> output_line) {
  LinePipe report;
  LinePipe output;
  if (!report.ok() || !output.ok()) {
    return {ChildEnd::Kind::kNotStarted, errno};
  }
  const pid_t child = Start(run, report, output);
  if (child < 0) return {ChildEnd::Kind::kNotStarted, errno};
  report.CloseWriteEnd();
  output.CloseWriteEnd();

  const Deadline limit(run.limit);
  Deadline silence(run.silence_limit);
  ChildEnd end;
  while (!HasEnded(child, &end)) {
    pollfd fds[2] = {{report.ended() ? -1 : report.read_fd(), POLLIN, 0},
                     {output.ended() ? -1 : output.read_fd(), POLLIN, 0}};
    poll(fds, 2, /*timeout_ms=*/20);
    if (report.ReadLines(report_line)) silence = Deadline(run.silence_limit);
    output.ReadLines(output_line);
    if (limit.Passed() || silence.Passed()) {
      end.kind =
          limit.Passed() ? ChildEnd::Kind::kTimeUp : ChildEnd::Kind::kSilent;
      Stop(child);
      break;
    }
  }
  // What it started and left behind.
  kill(-child, SIGKILL);
  report.ReadLines(report_line);
  output.ReadLines(output_line);
  return end;
}

}  // namespace firn::gpu_check
