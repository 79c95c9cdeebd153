#include "apps/fovea/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/fovea/command.h"
#include "fovea/core/error.h"
#include "fovea/core/printable.h"

namespace fovea::app {
namespace {

// errno of the first write to standard output that failed.
int lost_by = 0;

void keep_fault() {
  if (lost_by == 0) lost_by = errno == 0 ? EIO : errno;
}

}  // namespace

std::string detail::without_steering(std::string_view text) { return printable_lines(text); }

void write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return;
  keep_fault();
  throw ExitRequest{static_cast<int>(ExitCode::kData)};
}

void write_message(std::string_view text) {
  const auto shown = printable_lines(text);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // Standard output for reading alone: what is written there is lost, and that is found.
    const int flags = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    const int opened = open("/dev/null", flags);
    if (opened != stream && opened >= 0) close(opened);
  }
}

int exit_code_after_output(int code) {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) keep_fault();
  if (lost_by == 0) return code;
  if (lost_by != EPIPE) {
    tell("error: standard output cannot be written: {}; what was printed is not complete\n",
         std::strerror(lost_by));
  }
  return code == static_cast<int>(ExitCode::kDone) ? static_cast<int>(ExitCode::kData) : code;
}

}  // namespace fovea::app
