#include "fovea/parallel/local_launch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/stop_signals.h"
#include "fovea/parallel/greeting.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/parallel/store_server.h"
#include "fovea/parallel/watch.h"

extern char** environ;

namespace fovea::parallel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLocalhost = "127.0.0.1";
constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::seconds kPatience{30};

// A list of C strings that ends with a null.
class CStrings {
 public:
  explicit CStrings(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (auto& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char** get() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

std::vector<std::string> environment_of(int64_t rank, int64_t processes, int64_t port,
                                        const std::string& secret) {
  const std::vector<std::pair<std::string, std::string>> own = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(processes)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(processes)},
      {"MASTER_ADDR", kLocalhost},
      {"MASTER_PORT", std::to_string(port)},
      {"TORCHELASTIC_RUN_ID", "local"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {kStoreVariable, "launcher"},
      {kSecretVariable, secret},
      {kSecretFileVariable, ""}};
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const auto name = text.substr(0, text.find('='));
    const auto is_same = [&](const auto& item) { return item.first == name; };
    if (std::none_of(own.begin(), own.end(), is_same)) variables.push_back(text);
  }
  for (const auto& [name, value] : own) variables.push_back(name + "=" + value);
  return variables;
}

// A process group of its own: Ctrl-C on a terminal reaches the parent alone, which forwards it
// once. Between fork and exec only what is safe there is called. The child has the signals that are
// blocked here, so that this program is not told to stop before it listens.
pid_t start_process(const std::vector<std::string>& command, std::vector<std::string> environment) {
  CStrings arguments(command), variables(std::move(environment));
  const pid_t parent = getpid();
  const sigset_t stops = stop_signal_set();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &stops, &before);  // the child's handlers would note them in vain
  const pid_t child = fork();
  if (child != 0) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (child < 0) fail("a process cannot be started: {}", std::strerror(errno));
    return child;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  for (const int signal : kStopSignals) {
    if (sigismember(&stops, signal) == 1) std::signal(signal, SIG_DFL);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  execve(arguments.get()[0], arguments.get(), variables.get());
  _exit(127);
}

class LocalRanks {
 public:
  LocalRanks(const std::vector<std::string>& command, const LocalLaunchOptions& options)
      : options_(options),
        secret_(draw_secret()),
        store_(listen_at(kLocalhost, 0, /*is_for_others=*/false, Clock::now() + kPatience),
               secret_) {
    for (int64_t rank = 0; rank < options.processes; ++rank) {
      const auto environment = environment_of(rank, options.processes, store_.port(), secret_);
      processes_.push_back(options.start ? options.start(environment)
                                         : start_process(command, environment));
    }
    if (options.on_started) options.on_started(processes_);
  }

  ~LocalRanks() {
    for (size_t rank = 0; rank < processes_.size(); ++rank) {
      if (!is_running(rank)) continue;
      kill(processes_[rank], SIGKILL);
      waitpid(processes_[rank], nullptr, 0);
    }
  }
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  LocalRun wait() {
    while (num_ended_ < processes_.size()) {
      std::this_thread::sleep_for(kPoll);
      for (size_t i = 0; i < kStopSignals.size(); ++i) {
        for (; num_forwarded_[i] < StopSignals::count(kStopSignals[i]); ++num_forwarded_[i]) {
          forward(kStopSignals[i]);
        }
      }
      for (size_t rank = 0; rank < processes_.size(); ++rank) reap(rank);
      if (has_failed_ && Clock::now() > kill_at_) forward(SIGKILL);
    }
    return result_;
  }

 private:
  bool is_running(size_t rank) const { return processes_[rank] > 0; }

  void forward(int signal) const {
    for (size_t rank = 0; rank < processes_.size(); ++rank) {
      if (is_running(rank)) kill(processes_[rank], signal);
    }
  }

  void reap(size_t rank) {
    int status = 0;
    if (!is_running(rank) || waitpid(processes_[rank], &status, WNOHANG) != processes_[rank]) {
      return;
    }
    processes_[rank] = 0;
    num_ended_ += 1;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0 || has_failed_) return;
    if (code == static_cast<int>(ExitCode::kStopped)) {
      result_.exit_code = code;
      return;
    }
    has_failed_ = true;
    kill_at_ =
        Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(options_.grace * 1000));
    result_.exit_code = code > 0 ? code : static_cast<int>(ExitCode::kHang);
    if (code < 0) result_.message = killed_text(rank, WTERMSIG(status));
    if (code == 127) result_.message = "this program cannot be started a second time";
  }

  std::string killed_text(size_t rank, int signal) const {
    return fmt::format(
        "rank {} was killed by signal {} ({}) {}{}; the other ranks are stopped. The last good "
        "checkpoint stands: the same command goes on from it",
        rank, signal, strsignal(signal), where(rank),
        signal == SIGKILL ? "; SIGKILL is what a machine out of memory sends" : "");
  }

  // From the rank's last heartbeat, see Note [Heartbeats].
  std::string where(size_t rank) const {
    const auto text = store_.find("fovea/local/0/" + beat_key(static_cast<int64_t>(rank)));
    return beat_from(text.value_or("")).value_or(RankBeat()).place();
  }

  LocalLaunchOptions options_;
  StopSignals signals_;
  std::array<int64_t, kStopSignals.size()> num_forwarded_{};
  std::string secret_;  // of this run: what lets ranks in where they meet
  StoreServer store_;
  std::vector<pid_t> processes_;  // by rank; 0: it has ended
  size_t num_ended_ = 0;
  bool has_failed_ = false;
  Clock::time_point kill_at_;
  LocalRun result_;
};

}  // namespace

pid_t start_local_process(const std::vector<std::string>& command) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return start_process(command, std::move(variables));
}

LocalRun run_local_ranks(const std::vector<std::string>& command,
                         const LocalLaunchOptions& options) {
  FOVEA_CHECK(!command.empty() && options.processes >= 1, "{} processes of a command of {} words",
              options.processes, command.size());
  return LocalRanks(command, options).wait();
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  FOVEA_CHECK(!words.empty(), "/proc/self/cmdline is empty");
  words[0] = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

}  // namespace fovea::parallel
