#include "fovea/train/run/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "fovea/core/printable.h"

namespace fovea::train {
namespace {

constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(15);

std::string with_commas(double value) {
  const auto digits = fmt::format("{:.0f}", std::max(0.0, value));
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 120;
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

std::string format_progress(const ProgressStatus& status) {
  auto line = fmt::format("epoch {}/{}  step {}/{}  loss {:.4f}", status.epoch, status.num_epochs,
                          status.step, status.num_steps, status.loss);
  if (status.accuracy >= 0) line += fmt::format("  acc {:.1f} %", status.accuracy);
  line += fmt::format("  {} img/s  data {:.0f} %  {} MiB  {} left",
                      with_commas(status.images_per_second), 100 * status.data_wait,
                      status.memory_bytes >> 20, format_duration(status.seconds_left));
  if (!status.remark.empty()) line += "  " + status.remark;
  return line;
}

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

}  // namespace fovea::train
