// One error type for the project, with the three children that users can tell apart.
//
// A message has three parts: what was found, what was expected, what to do. Libraries throw; only
// apps/ turn an error into an exit code.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace fovea {

// The exit codes of `fovea`; scripts rely on the numbers.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,
  kConfig = 3,
  kData = 4,
  kOutOfMemory = 5,
  kDiverged = 6,
  kHang = 7,
  kStopped = 75,  // stopped at a step boundary, resumable with the same command
};

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual ExitCode exit_code() const { return ExitCode::kUsage; }
};

// A recipe, an override or a combination of settings that cannot work.
class ConfigError : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kConfig; }
};

// Foreign bytes or files that are not what they should be.
class DataError : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kData; }
};

// Weights and checkpoints that are damaged, of another model, or cannot be written.
class CheckpointError : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kData; }
};

// The loss or a gradient is not finite.
class DivergedError : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kDiverged; }
};

// Throws `E` with a formatted message: fail<DataError>("{}: found ..., expected ...", path).
template <class E = Error, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);
}  // namespace detail

}  // namespace fovea

// For what a caller of the library got wrong: FOVEA_CHECK(rate < 1, "rate={}; expected [0, 1)",
// rate).
#define FOVEA_CHECK(condition, ...)                                                              \
  do {                                                                                           \
    if (!(condition)) [[unlikely]]                                                               \
      ::fovea::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
