#include "fovea/files/archive_name.h"

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea {
namespace {

constexpr size_t kMaxMemberNameBytes = 4096;

std::string_view fault_of(std::string_view name) {
  if (name.empty()) return "an empty name";
  if (name.size() > kMaxMemberNameBytes) return "a name of more than 4096 bytes";
  if (name.front() == '/') return "an absolute path";
  for (const char c : name) {
    if (c == '\\') return "a backslash in its name";
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return "a control character in its name";
  }
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    if (name.substr(start, end - start) == "..") return "\"..\" in its path";
    start = end + 1;
  }
  return {};
}

}  // namespace

void check_archive_name(const std::string& archive, std::string_view name) {
  const auto fault = fault_of(name);
  if (fault.empty()) return;
  fail<DataError>("{}: {}, which is refused; expected names below the archive's own folder",
                  archive_member(archive, name), fault);
}

std::string archive_member(const std::string& archive, std::string_view name) {
  std::string text = archive + ":";
  for (const char c : name.substr(0, 256)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace fovea
