#include "fovea/config/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "fovea/config/describe.h"
#include "fovea/core/error.h"

namespace fovea::detail {
namespace {

constexpr size_t kMaxFaults = 100;

// The key without its last part; "": it has one part.
std::string parent_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

// Whether the key, something in it or something around it is among `keys`.
bool touches(const std::set<std::string>& keys, const std::string& key) {
  for (std::string around = key; !around.empty(); around = parent_of(around)) {
    if (keys.contains(around)) return true;
  }
  const auto inside = keys.lower_bound(key + ".");
  return inside != keys.end() && inside->starts_with(key + ".");
}

}  // namespace

ConfigFaults::ConfigFaults(std::string source)
    : source_{std::make_shared<const std::string>(std::move(source)), 0} {}

ConfigOrigin ConfigFaults::origin_of(const std::string& key) const {
  for (std::string around = key; !around.empty(); around = parent_of(around)) {
    const auto found = origins_.find(around);
    if (found != origins_.end()) return found->second;
  }
  return source_;
}

bool ConfigFaults::is_of_file(const ConfigOrigin& origin) const {
  return !origin.source || *origin.source == *source_.source;
}

bool ConfigFaults::is_full() const { return count_ >= kMaxFaults; }

void ConfigFaults::add(const ConfigOrigin& origin, const std::string& key,
                       const std::string& message) {
  if (++count_ > kMaxFaults) return;
  faults_.push_back({origin, fmt::format("{}: {}{}{}", origin.text(), printable_start(key, 200),
                                         key.empty() ? "" : ": ", message)});
}

void ConfigFaults::add_issues(const std::string& key, const ConfigIssues& issues) {
  for (const auto& issue : issues.all()) {
    const auto is_known = [&](const std::string& name) {
      return !touches(unread_, join_key(key, name));
    };
    const auto& beside = issue.beside;
    if (!is_known(issue.key) || !std::all_of(beside.begin(), beside.end(), is_known)) continue;
    const std::string full = join_key(key, issue.key);
    add(origin_of(full), full, issue.message);
  }
}

void ConfigFaults::throw_all() {
  if (faults_.empty()) return;
  std::stable_sort(faults_.begin(), faults_.end(), [&](const Fault& a, const Fault& b) {
    const auto rank = [&](const Fault& fault) {
      const bool in_file = is_of_file(fault.origin);
      return std::pair(in_file ? 0 : 1, in_file ? fault.origin.line : 0);
    };
    return rank(a) < rank(b);
  });
  std::string message;
  for (const auto& fault : faults_) message += (message.empty() ? "" : "\n") + fault.text;
  if (count_ > kMaxFaults) message += fmt::format("\nand {} more faults", count_ - kMaxFaults);
  throw ConfigError(message);
}

}  // namespace fovea::detail
