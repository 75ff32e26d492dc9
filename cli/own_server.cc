#include "cli/own_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/interrupt.h"

namespace kvern::cli {
namespace {

constexpr int kPollMs = 100;

Status SystemError(const std::string& what) {
  return Status::IoError("the server cannot be started: " + what + ": " + std::strerror(errno));
}

// In the child, between fork and exec: system calls alone.
[[noreturn]] void Become(const char* program, char* const* arguments, int its_stdout) {
  sigset_t nothing;
  sigemptyset(&nothing);
  sigprocmask(SIG_SETMASK, &nothing, nullptr);
  setpgid(0, 0);                     // Ctrl-C is for the parent, which then ends the server in order.
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // Nor does the server outlive a parent that is killed.
  dup2(its_stdout, STDOUT_FILENO);
  execv(program, arguments);
  _exit(127);
}

}  // namespace

std::string UrlInServingLine(const std::string& line) {
  constexpr std::string_view kBefore = " on http://";
  const size_t before = line.find(kBefore);
  if (!line.starts_with("kvern: serving ") || before == std::string::npos) return "";
  const size_t begin = before + std::string_view(" on ").size();
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

Result<std::unique_ptr<OwnServer>> OwnServer::Start(const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return Status::IoError("the server cannot be started: /proc/self/exe: " + error.message());
  std::vector<std::string> words = {"kvern", "serve", "--port", "0"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return SystemError("pipe");
  std::unique_ptr<OwnServer> server(new OwnServer);
  server->process_ = fork();
  if (server->process_ == 0) Become(program.c_str(), pointers.data(), pipe_ends[1]);
  close(pipe_ends[1]);
  const Status status = server->process_ < 0 ? SystemError("fork") : server->AwaitUrl(pipe_ends[0]);
  close(pipe_ends[0]);  // It prints nothing more.
  if (!status.ok()) return status;
  return server;
}

Status OwnServer::AwaitUrl(int its_stdout) {
  const OnInterrupt is_polled_for;
  std::string line;
  while (line.find('\n') == std::string::npos) {
    if (WasInterrupted()) return Status::Cancelled("interrupted while the server was loading its model");
    pollfd readable = {.fd = its_stdout, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kPollMs) <= 0) continue;
    char bytes[1024];
    const ssize_t n = read(its_stdout, bytes, sizeof(bytes));
    if (n <= 0) return Status::IoError("the server ended before it served; see its message above");
    line.append(bytes, static_cast<size_t>(n));
  }
  url_ = UrlInServingLine(line);
  if (url_.empty()) return Status::IoError("the server does not say where it listens, but: " + line);
  return Status::Ok();
}

bool OwnServer::HasEnded() {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) == process_) process_ = -1;
  return process_ < 0;
}

OwnServer::~OwnServer() {
  if (process_ <= 0) return;
  kill(process_, SIGTERM);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace kvern::cli
