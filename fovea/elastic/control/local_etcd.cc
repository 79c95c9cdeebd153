#include "fovea/elastic/control/local_etcd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>

#include "fovea/core/files.h"
#include "fovea/core/printable.h"
#include "fovea/core/stop_signals.h"
#include "fovea/core/write_error.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPoll{20};
constexpr std::chrono::seconds kStartTime{15}, kStopTime{5};
constexpr int kStartTries = 5;
constexpr uint64_t kMaxLogBytes = uint64_t{64} << 20;

std::filesystem::path etcd_program() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const auto program = std::filesystem::path(folder) / "etcd";
    if (!folder.empty() && access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

// Takes a port of 127.0.0.1 for a moment, 0: any. Returns which; 0: it is in use.
int64_t bind_local_port(int64_t port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const bytes = reinterpret_cast<sockaddr*>(&address);
  const int on = 1;  // as etcd does: connections of one that has just ended are in nobody's way
  const bool is_bound = file >= 0 &&
                        setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                        bind(file, bytes, size) == 0 && getsockname(file, bytes, &size) == 0;
  if (file >= 0) close(file);
  return is_bound ? ntohs(address.sin_port) : 0;
}

// The last lines of its log, which say why it did not start.
std::string end_of_log(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_file(file.string(), kMaxLogBytes);
  } catch (const Error&) {
    return "no log";
  }
  while (text.ends_with('\n')) text.pop_back();
  return printable_start(text.substr(text.find_last_of('\n') + 1), 300);
}

// Between fork and exec only what is safe there is called.
[[noreturn]] void become(char* const* arguments, int log, pid_t parent) {
  setpgid(0, 0);  // Ctrl-C on a terminal is for the parent, which ends it when it is done
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : kStopSignals) std::signal(signal, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(arguments[0], arguments);
  _exit(127);
}

}  // namespace

bool has_etcd_program() { return !etcd_program().empty(); }

int64_t free_local_port() {
  const auto port = bind_local_port(0);
  if (port == 0) fail("no free port on 127.0.0.1: {}", std::strerror(errno));
  return port;
}

LocalEtcd::LocalEtcd(LocalEtcdOptions options)
    : options_(std::move(options)), is_port_given_(options_.port != 0) {
  std::error_code fault;
  std::filesystem::create_directories(options_.folder, fault);
  if (fault) {
    fail<WriteError>("{}: {}; etcd cannot keep its data there", options_.folder.string(),
                     fault.message());
  }
  std::filesystem::permissions(options_.folder, std::filesystem::perms::owner_all, fault);
  start();
}

LocalEtcd::~LocalEtcd() { stop(); }

void LocalEtcd::start() {
  FOVEA_CHECK(process_ == 0, "etcd runs already");
  // Else who listens there would be taken for it.
  if (options_.port != 0 && bind_local_port(options_.port) == 0) {
    fail("port {} of 127.0.0.1 is in use; another etcd, or another program, listens there",
         options_.port);
  }
  for (int tried = 0; tried < kStartTries; ++tried) {
    if (options_.port == 0) options_.port = free_local_port();
    url_ = fmt::format("http://127.0.0.1:{}", options_.port);
    launch();
    if (wait_until_healthy()) return;
    kill();
    const bool is_port_taken =
        end_of_log(log_file()).find("address already in use") != std::string::npos;
    if (is_port_given_ || !is_port_taken) break;
    options_.port = 0;
  }
  fail_to_start();
}

void LocalEtcd::fail_to_start() const {
  fail(
      "etcd did not start; the last that it said: '{}' ({}); or start one yourself and give its "
      "address: --etcd URL",
      end_of_log(log_file()), log_file().string());
}

void LocalEtcd::launch() {
  const auto program = etcd_program();
  if (program.empty()) {
    fail<ConfigError>(
        "there is no etcd on this machine to start; install it (Debian: etcd-server), or give the "
        "address of one: --etcd URL,...");
  }
  // A cluster of this one alone: nobody else may be its peer, so that it listens for none that
  // could find it. Old revisions go away by themselves.
  constexpr const char* kNoPeer = "http://127.0.0.1:1";
  std::vector<std::string> words = {program.string(),
                                    "--name=fovea",
                                    "--data-dir=" + (options_.folder / "data").string(),
                                    "--listen-client-urls=" + url_,
                                    "--advertise-client-urls=" + url_,
                                    "--listen-peer-urls=http://127.0.0.1:0",
                                    std::string("--initial-advertise-peer-urls=") + kNoPeer,
                                    std::string("--initial-cluster=fovea=") + kNoPeer,
                                    "--auto-compaction-mode=revision",
                                    "--auto-compaction-retention=10000"};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int log =
      open(log_file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (log < 0) fail<WriteError>("{}: {}", log_file().string(), std::strerror(errno));
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) become(arguments.data(), log, parent);
  const int fault = errno;
  close(log);
  if (process_ > 0) return;
  process_ = 0;
  fail("etcd cannot be started: {}", std::strerror(fault));
}

bool LocalEtcd::is_running() {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) != 0) process_ = 0;
  return process_ > 0;
}

bool LocalEtcd::wait_until_healthy() {
  EtcdClient client(place(), std::chrono::seconds(1));
  for (const auto end = Clock::now() + kStartTime; Clock::now() < end && is_running();) {
    try {
      client.get("/fovea/");
      return is_running();
    } catch (const EtcdError& error) {
      // Users and passwords of one that is started again are for who asks then.
      if (error.kind() == EtcdError::Kind::kDenied) return is_running();
    }
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

void LocalEtcd::kill() {
  if (!is_running()) return;
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = 0;
}

void LocalEtcd::stop() {
  if (!is_running()) return;
  ::kill(process_, SIGTERM);
  for (const auto end = Clock::now() + kStopTime; Clock::now() < end && is_running();) {
    std::this_thread::sleep_for(kPoll);
  }
  kill();
}

}  // namespace fovea::elastic
