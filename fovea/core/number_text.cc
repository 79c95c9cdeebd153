#include "fovea/core/number_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace fovea {
namespace {

constexpr std::string_view kNoNumber = "\xE2\x80\x93";  // en dash

}  // namespace

std::string format_fixed(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : std::string(kNoNumber);
}

std::string format_percent(double percent) {
  return std::isfinite(percent) ? fmt::format("{:.2f} %", percent) : std::string(kNoNumber);
}

std::string format_count(double value) {
  if (!std::isfinite(value)) return std::string(kNoNumber);
  auto digits = fmt::format("{:.0f}", std::fabs(value));
  for (auto place = static_cast<int64_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<size_t>(place), 1, ',');
  }
  return value < 0 && digits != "0" ? "-" + digits : digits;
}

std::string format_bytes(double bytes) {
  if (!std::isfinite(bytes)) return std::string(kNoNumber);
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit >= 3 && bytes < 100 ? 1 : 0, kUnits[unit]);
}

std::string format_significant(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : std::string(kNoNumber);
}

}  // namespace fovea
