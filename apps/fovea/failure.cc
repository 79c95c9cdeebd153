#include "apps/fovea/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "fovea/kernels/out_of_memory.h"

namespace fovea::app {
namespace {

constexpr std::string_view kTakeLess =
    "lower trainer.micro_batch_size or data.prefetch, for an evaluation data.global_batch_size, "
    "for fovea serve --max-batch-size, or raise the limit of this shell (ulimit -v)";

// The first line of libtorch's message: below it stands a C++ stack that helps no user.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Files and recipes are checked before libtorch computes with what they say: but for memory and
// devices, a refusal of its own is one that nobody foresaw.
Failure failure_of_torch(const c10::Error& error) {
  const auto what = first_line(error.what_without_backtrace());
  if (kernels::is_out_of_memory(error)) {
    return {fmt::format("{}; {}", what, kTakeLess), ExitCode::kOutOfMemory};
  }
  if (dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr) {
    return {fmt::format("the device failed: {}; look at nvidia-smi or rocm-smi and the system's "
                        "log, and start again: a training goes on from its newest checkpoint",
                        what),
            ExitCode::kUsage};
  }
  return {fmt::format("libtorch cannot compute this: {} (a fault of this program: please report it "
                      "with the command and what it read)",
                      what),
          ExitCode::kUsage};
}

// Of a library below, which names no file: what a user can look at is said.
std::optional<Failure> failure_of_library(const std::exception& error) {
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    const auto& paths = {files->path1(), files->path2()};
    std::string names;
    for (const auto& path : paths) {
      if (!path.empty()) names += (names.empty() ? "" : ", ") + path.string();
    }
    return Failure{fmt::format("{}: {}; check the path and its permissions",
                               names.empty() ? "a file" : names, files->code().message()),
                   ExitCode::kData};
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    if (system->code() == std::errc::resource_unavailable_try_again) {
      return Failure{
          "no more threads can be started; lower device.threads and data.threads, or raise the "
          "limits of this shell (ulimit -u, ulimit -v)",
          ExitCode::kOutOfMemory};
    }
    return Failure{fmt::format("{}; a system call failed", system->what()), ExitCode::kUsage};
  }
  if (dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return Failure{fmt::format("a size that no memory holds ({}); check the sizes in the recipe "
                               "and in the files that were read",
                               error.what()),
                   ExitCode::kOutOfMemory};
  }
  if (dynamic_cast<const nlohmann::json::exception*>(&error) != nullptr) {
    return Failure{fmt::format("JSON that is not as expected: {}; check the files that were read",
                               error.what()),
                   ExitCode::kData};
  }
  return {};
}

// For the end below: without memory, and in whatever thread.
[[noreturn]] void end_now(std::string_view message, std::string_view what, ExitCode code) {
  for (const auto part : {std::string_view("error: "), message, what, std::string_view("\n")}) {
    if (write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  }
  _exit(static_cast<int>(code));
}

// An exception that nobody catches: in a thread of a library, in a destructor, or while another
// one is told.
[[noreturn]] void end_uncaught() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    end_now("out of memory; ", kTakeLess, ExitCode::kOutOfMemory);
  } catch (const std::exception& error) {
    end_now("not caught (a fault of this program: please report it): ", error.what(),
            ExitCode::kUsage);
  } catch (...) {
  }
  end_now("ended without a reason (a fault of this program: please report it)", "",
          ExitCode::kUsage);
}

// No code of this program is 1: it is the OpenMP library's, which ends the process where it cannot
// start its threads.
void end_of_openmp(int code, void*) {
  if (code != 1) return;
  end_now(
      "the OpenMP library ended the process; lower device.threads, or raise the limits of this "
      "shell (ulimit -u, ulimit -v)",
      "", ExitCode::kOutOfMemory);
}

}  // namespace

void catch_last_failures() {
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) == nullptr && errno == ENOENT) {
    end_now("the working directory is gone; change into one that is there", "", ExitCode::kUsage);
  }
  std::set_terminate(end_uncaught);
  on_exit(end_of_openmp, nullptr);
}

Failure failure_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return {own->what(), own->exit_code()};
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) return failure_of_torch(*torch);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {fmt::format("out of memory; {}", kTakeLess), ExitCode::kOutOfMemory};
  }
  if (kernels::is_of_onednn(error)) {
    return {fmt::format("{}: oneDNN says so where memory runs out; {}", error.what(), kTakeLess),
            ExitCode::kOutOfMemory};
  }
  if (auto failure = failure_of_library(error)) return *std::move(failure);
  return {fmt::format("{} (a fault of this program: please report it)", error.what()),
          ExitCode::kUsage};
}

}  // namespace fovea::app
