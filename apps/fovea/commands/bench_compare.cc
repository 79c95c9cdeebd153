// fovea bench model --compare timm: hands over to benchmarks/vs_timm.py.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/fovea/commands/bench.h"
#include "fovea/core/error.h"

extern char** environ;

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

std::string comparison_python() {
  const char* chosen = std::getenv("FOVEA_PYTHON");
  return chosen && *chosen ? chosen : "python3";
}

// Beside the build folder, or where an installation has it.
std::string comparison_script(const fs::path& program) {
  std::error_code error;
  auto folder = program.parent_path();
  for (int level = 0; level < 5 && !folder.empty(); ++level, folder = folder.parent_path()) {
    for (const char* place : {"benchmarks", "share/fovea/benchmarks"}) {
      const auto script = folder / place / "vs_timm.py";
      if (fs::is_regular_file(script, error)) return script.string();
    }
  }
  fail<ConfigError>(
      "--compare timm: benchmarks/vs_timm.py is not found near {}; expected the source tree around "
      "the program, or benchmarks/ in share/fovea",
      program.string());
}

// -> the exit code; -1 where it did not start or a signal ended it.
int run_program(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  int status = 0;
  if (posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return -1;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

void compare_with_timm(const std::vector<std::string>& options) {
  const auto program = fs::read_symlink("/proc/self/exe");
  const auto script = comparison_script(program);
  const auto python = comparison_python();
  const int ready = run_program(
      {python, "-c",
       "import importlib.util as u, sys\n"
       "sys.exit(0 if all(u.find_spec(n) for n in ('torch', 'timm', 'safetensors')) else 9)"});
  if (ready != 0) {
    fail<ConfigError>(
        "--compare timm: {} {}; expected a Python with torch, timm and safetensors: "
        "tools/setup/python_env .venv && export FOVEA_PYTHON=$PWD/.venv/bin/python",
        python, ready == 9 ? "lacks torch, timm or safetensors" : "does not start");
  }
  std::vector<std::string> arguments = {python, script, "--fovea", program.string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const int code = run_program(arguments);
  FOVEA_CHECK(code == 0, "--compare timm: {} ended with code {}; what it printed says why", script,
              code);
}

}  // namespace fovea::app
