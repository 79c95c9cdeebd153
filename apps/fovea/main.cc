// fovea: train, evaluate and use vision transformers. Sub-commands stand in commands/, one file
// each.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/early_start.h"
#include "apps/fovea/failure.h"
#include "apps/fovea/output.h"
#include "apps/fovea/spin_limit.h"
#include "apps/fovea/usage.h"
#include "apps/fovea/version.h"
#include "fovea/core/end_process.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/kernels/cpu_allocator.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/parallel/launch_env.h"

namespace fovea::app {
namespace {

// Ranks of a run read the same command line and recipe: what is said of them is said once, by the
// first, or by the process that has started them all. See run_in_world.
void mute_other_ranks() {
  const auto environment = parallel::process_environment();
  const bool is_started_by_fovea = environment(parallel::kStoreVariable).has_value();
  try {
    if (is_started_by_fovea || parallel::launch_from(environment).rank > 0) mute_log();
  } catch (const std::exception&) {  // said where the ranks are needed
  }
}

// `fovea help train` is `fovea train --help`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

int parse_and_run(CLI::App& app, const std::vector<std::string>& words) {
  try {
    check_words(app, words);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // the last word first
    return static_cast<int>(ExitCode::kDone);
  } catch (const CLI::CallForVersion&) {
    say("{}", version_text());
    return static_cast<int>(ExitCode::kDone);
  } catch (const CLI::ParseError& error) {  // also --help
    std::ostringstream output, message;
    if (app.exit(error, output, message) == 0) {
      say("{}", output.str());
      return static_cast<int>(ExitCode::kDone);
    }
    tell("{}", usage_message(app, error, words));
    return static_cast<int>(ExitCode::kUsage);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Train and use vision transformers, 2-D and 3-D.", "fovea");
  app.set_version_flag("--version", "", "Print version, commit, libtorch and back ends");
  app.require_subcommand(1);
  Command program(app);
  add_commands(program);
  program.examples({"fovea list recipes", "fovea train recipes/fashion_mnist/quickstart.yaml",
                    "fovea predict vit_small_patch16_224 --weights model.safetensors cat.jpg"});
  try {
    kernels::start_kernel_paths();
    return parse_and_run(app, words_of(argc, argv));
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
// As early: see there.
__attribute__((section(".preinit_array"), used)) void (*const limiting)(int, char**,
                                                                        char**) = limit_spinning;
// As early, and after the one above, which may start the program anew.
__attribute__((section(".preinit_array"), used)) void (*const starting)(int, char**,
                                                                        char**) = start_early;
// As early, for memory may run out in those initialisers too.
__attribute__((section(".preinit_array"), used)) void (*const catching)() = catch_last_failures;

}  // namespace fovea::app

int main(int argc, char** argv) {
  fovea::app::restore_environment();
  fovea::app::hold_standard_streams();
  fovea::app::mute_other_ranks();
  fovea::hold_stop_signals();
  fovea::kernels::use_caching_cpu_allocator();
  fovea::end_process(fovea::app::exit_code_after_output(fovea::app::run(argc, argv)));
}
