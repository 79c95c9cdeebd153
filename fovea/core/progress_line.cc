#include "fovea/core/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "fovea/core/printable.h"

namespace fovea {
namespace {

constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(15);

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

}  // namespace

ProgressLine::ProgressLine(Mode mode) : mode_(mode) {
  if (mode_ == Mode::kAuto) mode_ = isatty(STDERR_FILENO) ? Mode::kTerminal : Mode::kPlain;
}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  const auto interval = mode_ == Mode::kTerminal ? std::chrono::milliseconds(kTerminalInterval)
                                                 : std::chrono::milliseconds(kPlainInterval);
  if (mode_ == Mode::kSilent || now - last_ < interval) return;
  last_ = now;
  const auto shown = printable(text);  // names of metrics may be those of foreign classes
  if (mode_ == Mode::kPlain) {
    fmt::print(stderr, "{}\n", shown);
    return;
  }
  fmt::print(stderr, "\r\033[K{}", shown.substr(0, terminal_width() - 1));
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void ProgressLine::print(const std::string& text) {
  if (mode_ == Mode::kSilent) return;
  clear();
  fmt::print(stderr, "{}\n", printable_lines(text));
}

}  // namespace fovea
