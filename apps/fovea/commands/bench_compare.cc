// fovea bench model --compare timm: hands over to benchmarks/vs_timm.py.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/fovea/commands/bench.h"
#include "fovea/core/error.h"
#include "fovea/core/program_files.h"

extern char** environ;

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

// Beside the build folder, or where an installation has it.
std::string comparison_script(const fs::path& program) {
  const auto script =
      find_near_program({"benchmarks/vs_timm.py", "share/fovea/benchmarks/vs_timm.py"});
  if (script) return script->string();
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
  const auto program = program_path();
  const auto script = comparison_script(program);
  const auto python = python_program();
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
