// What stands before an answer's body: any lines are read as headers, or passed over.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fovea/net/header_lines.h"

namespace {

bool is_of_one_line(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == text.npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  fovea::net::HeaderLines reader;
  while (!text.empty()) {  // as libcurl has them: with their line ends
    const auto end = text.find('\n');
    const auto line = text.substr(0, end == text.npos ? text.size() : end + 1);
    text.remove_prefix(line.size());
    if (!reader.take(line)) break;
  }
  for (const auto& [name, value] : reader.headers()) {
    if (name.empty() || !is_of_one_line(name) || !is_of_one_line(value)) std::abort();
    if (name.find_first_of(" :ABCXYZ") != name.npos) std::abort();
  }
  return 0;
}
