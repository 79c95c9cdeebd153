// fovea: train, evaluate and use vision transformers. Sub-commands stand in commands/, one file
// each.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

#include "apps/fovea/command.h"
#include "apps/fovea/failure.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/stop_signals.h"
#include "fovea/kernels/cpu_allocator.h"
#include "fovea/parallel/launch_env.h"

namespace fovea::app {
namespace {

void add_commands(Command app) {
  add_train(app);
  add_eval(app);
  add_predict(app);
  add_explain(app);
  add_convert(app);
  add_export(app);
  add_summary(app);
  add_config(app);
  add_list(app);
  add_bench(app);
  add_plan(app);
  add_report(app);
  add_doctor(app);
  add_data(app);
}

// Whether other ranks of the same run are on this machine. A launcher that says it wrongly is told
// so where the ranks are needed.
bool has_ranks_beside_it() {
  try {
    return parallel::launch_from(parallel::process_environment()).local_size > 1;
  } catch (const std::exception&) {
    return false;
  }
}

// What computes for so long that a second start of the process, 0.2 s, is nothing to it.
bool is_long_command(const std::string& name) {
  return name == "train" || name == "eval" || name == "bench";
}

// The OpenMP library under libtorch lets idle threads spin for milliseconds at every barrier. Where
// cores are shared, with ranks of the same run or with other programs, they spin away the time that
// the others need, and a step takes ten times as long; with this limit, which an idle machine does
// not notice, it does not (benchmarks/busy_machine). It is read when the library is loaded, before
// main, so the program starts itself anew with it set. Whoever sets either variable has the choice.
void limit_spinning(int argc, char** argv) {
  const bool is_rank = has_ranks_beside_it();
  if (!is_rank && (argc < 2 || !is_long_command(argv[1]))) return;
  // Read at the same time: libtorch would tell of a rank that is not there yet with a C++ stack.
  if (is_rank) setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/0);
  std::error_code error;  // by its own name, which ps and pkill then show
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) execv(program.c_str(), argv);  // returns only where it fails; all works as before
}

int run(int argc, char** argv) {
  CLI::App app("Train and use vision transformers, 2-D and 3-D.", "fovea");
  app.set_version_flag("--version", "fovea " FOVEA_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  add_commands(Command(app));
  try {
    app.parse(argc, argv);
    return static_cast<int>(ExitCode::kDone);
  } catch (const CLI::ParseError& error) {  // also --help and --version
    std::ostringstream output, message;
    const int code = app.exit(error, output, message);
    tell("{}", message.str());
    std::fputs(output.str().c_str(), stdout);
    return code == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  } catch (const ExitRequest& request) {
    return request.code;
  } catch (const std::exception& error) {
    const auto failure = failure_of(error);
    tell("error: {}\n", failure.message);
    return static_cast<int>(failure.code);
  }
}

}  // namespace

// Called by the loader before the initialisers of the libraries, which take most of the start: a
// signal meanwhile waits for main.
__attribute__((section(".preinit_array"), used)) void (*const before_all)() = block_stop_signals;
// As early, for memory may run out in those initialisers too.
__attribute__((section(".preinit_array"), used)) void (*const catching)() = catch_last_failures;

}  // namespace fovea::app

int main(int argc, char** argv) {
  fovea::app::hold_standard_streams();
  fovea::app::limit_spinning(argc, argv);
  fovea::hold_stop_signals();
  fovea::kernels::use_caching_cpu_allocator();
  return fovea::app::exit_code_after_output(fovea::app::run(argc, argv));
}
