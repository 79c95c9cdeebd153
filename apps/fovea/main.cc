// fovea: train, evaluate and use vision transformers. Sub-commands stand in commands/, one file
// each.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "apps/fovea/command.h"
#include "fovea/core/error.h"
#include "fovea/kernels/cpu_allocator.h"

namespace fovea::app {
namespace {

int report(const std::string& message, ExitCode code) {
  fmt::print(stderr, "error: {}\n", message);
  return static_cast<int>(code);
}

// The first line of libtorch's message: below it stands a C++ stack that helps no user.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void add_commands(CLI::App& app) {
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
  add_report(app);
  add_doctor(app);
  add_data(app);
}

// The OpenMP library under libtorch lets idle threads spin for milliseconds at every barrier. Where
// cores are shared, with the loader's threads or another process, they spin away the time that the
// others need: a step takes ten times as long. The limit is read when the library is loaded, before
// main, so the program starts itself anew with it set. Whoever sets either variable has the choice.
void limit_spinning(char** argv) {
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
  add_commands(app);
  try {
    app.parse(argc, argv);
    return static_cast<int>(ExitCode::kDone);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  } catch (const ExitRequest& request) {
    return request.code;
  } catch (const Error& error) {
    return report(error.what(), error.exit_code());
  } catch (const c10::OutOfMemoryError& error) {
    return report(first_line(error.what_without_backtrace()) + "; lower trainer.micro_batch_size",
                  ExitCode::kOutOfMemory);
  } catch (const c10::Error& error) {
    const std::string what = first_line(error.what_without_backtrace());
    const bool out_of_memory = what.find("not enough memory") != std::string::npos;
    return report(what + (out_of_memory ? "; lower trainer.micro_batch_size" : ""),
                  out_of_memory ? ExitCode::kOutOfMemory : ExitCode::kUsage);
  } catch (const std::bad_alloc&) {
    return report("out of memory; lower trainer.micro_batch_size or data.prefetch",
                  ExitCode::kOutOfMemory);
  } catch (const std::exception& error) {
    return report(fmt::format("{} (a fault of this program: please report it)", error.what()),
                  ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace fovea::app

int main(int argc, char** argv) {
  fovea::app::limit_spinning(argv);
  fovea::kernels::use_caching_cpu_allocator();
  return fovea::app::run(argc, argv);
}
