#include "fovea/train/run/wandb.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "fovea/core/environment.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/core/log.h"
#include "fovea/core/program_files.h"
#include "fovea/core/text.h"

namespace fovea::train {
namespace {

// Exit status by which the helper says that the package is missing.
constexpr int kNoPackage = 3;

// Starts the helper with its standard input on `input` and its output in a file, in a session of
// its own: Ctrl-C is for the trainer. With signals as any program has them, not as this one does.
// Returns an error number; 0: started.
int spawn(const std::vector<std::string>& arguments, int input, const std::string& log_path,
          pid_t& pid) {
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const sigset_t none{};
  sigset_t ignored{};
  sigaddset(&ignored, SIGPIPE);
  sigaddset(&ignored, SIGXFSZ);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &ignored);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

bool has_wandb_key() {
  if (!environment_variable("WANDB_API_KEY").empty()) return true;
  std::string_view host = "api.wandb.ai";
  const auto url = environment_variable("WANDB_BASE_URL");
  if (const auto at = url.find("://"); at != url.npos) {
    host = std::string_view(url).substr(at + 3);
    host = host.substr(0, host.find_first_of(":/"));
  }
  const auto path = environment_variable("NETRC", environment_variable("HOME") + "/.netrc");
  try {
    const auto text = is_there(path) ? read_file(path, 1 << 20) : "";
    for (std::string_view left = text; !left.empty();) {
      auto line = take_line(left);
      while (!line.empty()) {
        if (take_word(line) == "machine" && take_word(line) == host) return true;
      }
    }
  } catch (const DataError&) {  // the client cannot read it either
  }
  return false;
}

WandbFollower::WandbFollower(const std::string& run_dir, WandbOptions options)
    : options_(std::move(options)), log_path_(run_dir + "/wandb.log") {
  if (!options_.warn) {
    options_.warn = [](const std::string& message) { log_warning(message); };
  }
  if (options_.mode == "disabled") return;
  if (options_.mode == "auto") {
    options_.mode = has_wandb_key() ? "online" : "offline";
    if (options_.mode == "offline") {
      options_.warn(fmt::format(
          "log.wandb: there is no key (wandb login, or WANDB_API_KEY), so the run stays "
          "offline, in {}/wandb; `wandb sync` sends it later",
          run_dir));
    }
  }
  auto script = options_.script;
  if (script.empty()) {
    script = find_near_program({"share/fovea/wandb_follow.py", "tools/wandb_follow.py"})
                 .value_or("")
                 .string();
  }
  const auto python = options_.python.empty() ? python_program() : options_.python;
  if (script.empty()) {
    options_.warn(
        "log.wandb: tools/wandb_follow.py is not found near the program; no metrics are sent");
    return;
  }
  try {
    check_output_file(log_path_);
  } catch (const Error& error) {
    options_.warn(fmt::format("log.wandb: {}; no metrics are sent", error.what()));
    return;
  }
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    options_.warn(fmt::format("log.wandb: no pipe: {}; no metrics are sent", std::strerror(errno)));
    return;
  }
  const int error = spawn({python, script, run_dir, "--project", options_.project, "--entity",
                           options_.entity, "--name", options_.name, "--mode", options_.mode},
                          ends[0], log_path_, pid_);
  close(ends[0]);
  pipe_ = ends[1];
  started_ = error == 0;
  if (!started_) {
    pid_ = -1;
    options_.warn(
        fmt::format("log.wandb: {} cannot be started: {}; no metrics are sent. Install "
                    "Python and wandb, or set FOVEA_PYTHON",
                    python, std::strerror(error)));
  }
}

WandbFollower::~WandbFollower() { stop(); }

bool WandbFollower::has_ended() {
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == 0) return false;
  pid_ = -1;
  if (ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoPackage) {
    options_.warn(
        "log.wandb: this Python has no package wandb; no metrics were sent. Install it (pip "
        "install wandb), or set FOVEA_PYTHON to a Python that has it");
  } else {
    options_.warn("log.wandb: the helper failed; " + log_path_ + " says why");
  }
  return true;
}

void WandbFollower::stop(double seconds) {
  if (pipe_ >= 0) close(pipe_);
  pipe_ = -1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (pid_ > 0 && !has_ended()) {
    if (std::chrono::steady_clock::now() > end) {
      options_.warn("log.wandb: the helper still sends; it goes on by itself (" + log_path_ + ")");
      pid_ = -1;
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace fovea::train
