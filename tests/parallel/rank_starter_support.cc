#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "fovea/core/end_process.h"
#include "fovea/core/error.h"
#include "tests/parallel/rank_starter.h"

extern char** environ;

namespace fovea::parallel::testing {
namespace {

constexpr size_t kMaxRequest = 1 << 17;

int copy_socket = -1;  // to the copy

// Texts, each ended by a zero; the number of arguments in front.
std::string request_of(const StartedWith& with) {
  std::string text = std::to_string(with.arguments.size()) + '\0';
  for (const auto* list : {&with.arguments, &with.environment}) {
    for (const auto& item : *list) text += item + '\0';
  }
  return text;
}

StartedWith started_with(std::string_view request) {
  std::vector<std::string> texts;
  while (!request.empty()) {
    const auto end = request.find('\0');
    texts.emplace_back(request.substr(0, end));
    request.remove_prefix(end + 1);
  }
  const auto arguments = texts.begin() + 1 + std::stoll(texts.front());
  return {{texts.begin() + 1, arguments}, {arguments, texts.end()}};
}

void take_environment(const std::vector<std::string>& variables) {
  clearenv();
  for (const auto& variable : variables) {
    const auto at = variable.find('=');
    setenv(variable.substr(0, at).c_str(), variable.substr(at + 1).c_str(), 1);
  }
}

// In the copy: a process for each request. Its parent ends at once, so that it falls to the test
// program, which waits for it as for one that it started itself. Returns in the new processes.
StartedWith serve(int socket) {
  std::string request(kMaxRequest, '\0');
  auto* started = static_cast<pid_t*>(
      mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (;;) {
    const auto size = recv(socket, request.data(), request.size(), 0);
    if (size <= 0) _exit(0);  // the test program has ended
    *started = -1;
    const pid_t between = fork();
    if (between == 0) {
      const pid_t parent = getpid();
      const pid_t rank = fork();
      if (rank != 0) {
        *started = rank;
        _exit(0);
      }
      while (getppid() == parent) usleep(100);
      close(socket);
      auto with = started_with({request.data(), static_cast<size_t>(size)});
      take_environment(with.environment);
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      return with;
    }
    waitpid(between, nullptr, 0);
    if (send(socket, started, sizeof(pid_t), MSG_NOSIGNAL) < 0) _exit(0);
  }
}

}  // namespace

StartedWith keep_a_copy(int argc, char** argv) {
  StartedWith own{{argv, argv + argc}, {}};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    own.environment.emplace_back(*variable);
  }
  std::array<int, 2> ends{};
  FOVEA_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0,
              "no pair of sockets: {}", std::strerror(errno));
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (fork() == 0) {
    close(ends[0]);
    return serve(ends[1]);
  }
  close(ends[1]);
  copy_socket = ends[0];
  return own;
}

pid_t start_from_copy(const StartedWith& with) {
  const auto request = request_of(with);
  pid_t started = -1;
  FOVEA_CHECK(send(copy_socket, request.data(), request.size(), MSG_NOSIGNAL) ==
                      static_cast<ssize_t>(request.size()) &&
                  recv(copy_socket, &started, sizeof(started), 0) == sizeof(started) && started > 0,
              "the copy of this program that ranks are started from does not answer: {}",
              std::strerror(errno));
  return started;
}

}  // namespace fovea::parallel::testing

int main(int argc, char** argv) {
  const auto with = fovea::parallel::testing::keep_a_copy(argc, argv);
  std::vector<char*> arguments;
  for (const auto& word : with.arguments) arguments.push_back(const_cast<char*>(word.c_str()));
  auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  testing::InitGoogleMock(&count, arguments.data());
  fovea::end_process(RUN_ALL_TESTS());
}
