#include "fovea/core/base64.h"

#include <algorithm>
#include <cstdint>

#include "fovea/core/error.h"

namespace fovea {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int value_of_digit(char c) {
  const auto place = kDigits.find(c);
  return place == std::string_view::npos ? -1 : static_cast<int>(place);
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

std::string base64_decode(std::string_view text) {
  const size_t num_chars = text.size();
  while (!text.empty() && text.back() == '=' && num_chars - text.size() < 2) text.remove_suffix(1);
  if (num_chars % 4 != 0)
    fail<DataError>("{} characters of base64; expected a multiple of 4", num_chars);
  std::string out;
  out.reserve(num_chars / 4 * 3);
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    const int value = value_of_digit(c);
    if (value < 0)
      fail<DataError>("a byte {:#x} in base64; expected A-Z a-z 0-9 + /",
                      static_cast<unsigned char>(c));
    word = (word << 6 | static_cast<uint32_t>(value)) & 0xFFFFFF;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>(word >> bits & 0xFF);
    }
  }
  return out;
}

}  // namespace fovea
