#include "fovea/data/archive/tar_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/data/archive/tar.h"

namespace fovea::data {
namespace {

constexpr uint64_t kMaxOctalSize = (uint64_t{1} << 33) - 1;  // eleven digits

void put(std::string& block, size_t offset, std::string_view text) {
  std::copy(text.begin(), text.end(), block.begin() + static_cast<ptrdiff_t>(offset));
}

std::string plain_header(std::string_view name, uint64_t size, char type) {
  std::string block(kTarBlock, '\0');
  put(block, 0, name.substr(0, 100));
  put(block, 100, "0000444");
  put(block, 108, "0000000");
  put(block, 116, "0000000");
  put(block, 124, fmt::format("{:011o}", std::min(size, kMaxOctalSize)));
  put(block, 136, "00000000000");
  put(block, 148, "        ");
  block[156] = type;
  put(block, 257,
      std::string_view("ustar\0"
                       "00",
                       8));
  uint64_t sum = 0;
  for (const char c : block) sum += static_cast<uint8_t>(c);
  put(block, 148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

// "LENGTH KEY=VALUE\n", where LENGTH counts its own digits too.
std::string pax_record(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (fmt::formatted_size("{}", length) + rest != length) {
    length = fmt::formatted_size("{}", length) + rest;
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

std::string tar_header(std::string_view name, uint64_t size) {
  std::string records;
  if (name.size() > 100) records += pax_record("path", name);
  if (size > kMaxOctalSize) records += pax_record("size", fmt::format("{}", size));
  const std::string header = plain_header(name, size, '0');
  if (records.empty()) return header;
  return plain_header("pax", records.size(), 'x') + records + tar_padding(records.size()) + header;
}

std::string tar_padding(uint64_t size) {
  return std::string((kTarBlock - size % kTarBlock) % kTarBlock, '\0');
}

std::string tar_end() { return std::string(2 * kTarBlock, '\0'); }

}  // namespace fovea::data
