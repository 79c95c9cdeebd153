// fovea bench model --compare timm: hands over to benchmarks/vs_timm.py.
#include <filesystem>
#include <string>
#include <vector>

#include "apps/fovea/commands/bench.h"
#include "apps/fovea/run_program.h"
#include "fovea/core/error.h"
#include "fovea/core/program_files.h"

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
