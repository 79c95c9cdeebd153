#include "apps/fovea/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "fovea/core/printable.h"

namespace fovea::app {
namespace {

// The first line of libtorch's message: below it stands a C++ stack that helps no user.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Failure failure_of_torch(const c10::Error& error) {
  const auto what = first_line(error.what_without_backtrace());
  const bool is_out_of_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                                what.find("not enough memory") != std::string::npos;
  if (!is_out_of_memory) return {what, ExitCode::kUsage};
  return {what + "; lower trainer.micro_batch_size", ExitCode::kOutOfMemory};
}

// oneDNN's own class of exceptions, whose header libtorch does not carry.
bool is_of_onednn(const std::exception& error) {
  const std::string what = error.what();
  return what.find("could not execute a primitive") != std::string::npos ||
         what.find("could not create a memory") != std::string::npos;
}

Failure kind_of_failure(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return {own->what(), own->exit_code()};
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) return failure_of_torch(*torch);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {"out of memory; lower trainer.micro_batch_size or data.prefetch",
            ExitCode::kOutOfMemory};
  }
  // The system's answer about a file or a folder, where nobody asked in vain before.
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) {
    return {printable(error.what()), ExitCode::kUsage};
  }
  if (is_of_onednn(error)) {
    return {fmt::format("{}: oneDNN says so where memory runs out; lower trainer.micro_batch_size",
                        error.what()),
            ExitCode::kOutOfMemory};
  }
  return {fmt::format("{} (a fault of this program: please report it)", error.what()),
          ExitCode::kUsage};
}

}  // namespace

// A message names files, classes and texts of others; no line of it steers a terminal.
Failure failure_of(const std::exception& error) {
  Failure failure = kind_of_failure(error);
  failure.message = printable_lines(failure.message);
  return failure;
}

}  // namespace fovea::app
