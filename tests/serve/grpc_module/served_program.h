// `fovea serve` of a tiny model in a process of its own, with gRPC.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

extern char** environ;

namespace fovea::serve::testing {

class ServedProgram {
 public:
  // options: of the command; variables: "NAME=value" for its environment.
  explicit ServedProgram(const std::vector<std::string>& options = {},
                         const std::vector<std::string>& variables = {}) {
    const auto recipe = folder_.write(
        "tiny.yaml", std::string("model: {name: vit, img_size: [32], patch_size: [8], embed_dim: "
                                 "32, depth: 2, num_heads: 2, num_classes: 4}\n"));
    std::vector<std::string> words = {FOVEA_BINARY,  "serve", recipe + "=tiny", "--port",    "0",
                                      "--grpc-port", "0",     "--json",         "--threads", "1"};
    words.insert(words.end(), options.begin(), options.end());
    start(words, variables);
    const auto first = nlohmann::json::parse(first_line());
    http_port = first.at("port");
    grpc_port = first.at("grpc_port");
  }
  ~ServedProgram() {
    if (process_ > 0) stop(SIGKILL);
  }
  ServedProgram(const ServedProgram&) = delete;
  ServedProgram& operator=(const ServedProgram&) = delete;

  void tell(int signal) const { kill(process_, signal); }
  // Its exit code, or 128 + the signal that ended it.
  int stop(int signal = SIGTERM) {
    tell(signal);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    close(output_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t process() const { return process_; }

  int64_t http_port = 0, grpc_port = 0;

 private:
  void start(const std::vector<std::string>& words, const std::vector<std::string>& variables) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::vector<char*> arguments, environment;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
    for (const auto& one : variables) environment.push_back(const_cast<char*>(one.c_str()));
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int error = posix_spawn(&process_, arguments[0], &actions, nullptr, arguments.data(),
                                  environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    if (error != 0) throw std::runtime_error(std::string("cannot start ") + arguments[0]);
  }

  std::string first_line() const {
    std::string line;
    for (char c; read(output_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

  support::TempDir folder_;
  pid_t process_ = 0;
  int output_ = -1;
};

}  // namespace fovea::serve::testing
