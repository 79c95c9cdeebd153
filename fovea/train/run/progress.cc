#include "fovea/train/run/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fovea::train {
namespace {

std::string with_commas(double value) {
  const auto digits = fmt::format("{:.0f}", std::max(0.0, value));
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
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

}  // namespace fovea::train
