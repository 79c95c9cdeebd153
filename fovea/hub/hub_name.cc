#include "fovea/hub/hub_name.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"

namespace fovea::hub {
namespace {

constexpr std::string_view kPrefixes[] = {"hf-hub:", "hf_hub:"};
constexpr size_t kMostNameBytes = 96, kMostRevisionBytes = 200;

bool has_only(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter_or_digit(c) || others.find(c) != others.npos;
  });
}

// "--" would be read as the slash between the two parts, in the names of folders.
bool is_repository_part(std::string_view part) {
  return !part.empty() && part.size() <= kMostNameBytes && has_only(part, "-_.") &&
         part.find("--") == part.npos && part.find("..") == part.npos && part.front() != '.' &&
         part.front() != '-' && part.back() != '.' && part.back() != '-';
}

bool is_repository(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == text.npos) return is_repository_part(text);
  return is_repository_part(text.substr(0, slash)) && is_repository_part(text.substr(slash + 1));
}

// It names a file below refs/, too.
bool is_revision(std::string_view text) {
  return !text.empty() && text.size() <= kMostRevisionBytes && has_only(text, "-_./+") &&
         text.find("..") == text.npos && text.find("//") == text.npos &&
         text.find("/.") == text.npos && text.front() != '/' && text.front() != '.' &&
         text.front() != '-' && text.back() != '/';
}

}  // namespace

std::string HubName::text() const {
  return "hf-hub:" + repository + (revision == "main" ? "" : "@" + revision);
}

bool is_commit(std::string_view text) {
  return text.size() >= 40 && text.size() <= 64 && is_hexadecimal(text);
}

bool is_hub_name(std::string_view text) {
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

HubName parse_hub_name(std::string_view text) {
  const auto rest = text.substr(std::min(text.find(':'), text.size() - 1) + 1);
  const auto at = rest.find('@');
  HubName name{.repository = std::string(rest.substr(0, at))};
  if (at != rest.npos) name.revision = rest.substr(at + 1);
  if (!is_hub_name(text) || !is_repository(name.repository) || !is_revision(name.revision)) {
    fail<ConfigError>(
        "'{}' names no repository; expected hf-hub:ORG/NAME, such as "
        "hf-hub:timm/vit_small_patch16_224.augreg_in21k, or hf-hub:ORG/NAME@REVISION for a "
        "branch, a tag or a commit",
        printable_start(text, 200));
  }
  return name;
}

}  // namespace fovea::hub
