#include <fmt/format.h>

#include "fovea/config/merge.h"
#include "fovea/config/node.h"
#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"

namespace fovea {
namespace {

std::vector<std::string> split_key(std::string_view key) {
  std::vector<std::string> parts;
  while (true) {
    const size_t dot = key.find('.');
    parts.emplace_back(key.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    key.remove_prefix(dot + 1);
  }
}

// The child of a list that `part` names; throws where it is no index of it.
ConfigNode& list_element(ConfigNode& list, const std::string& part, const std::string& source) {
  const auto index = parse_number<size_t>(part);
  if (!index || *index >= list.children.size()) {
    fail<ConfigError>("{}: found '{}' as the index into a list of {}, expected 0 to {}", source,
                      printable_start(part), list.children.size(),
                      static_cast<int64_t>(list.children.size()) - 1);
  }
  return list.children[*index];
}

}  // namespace

void detail::put_at(ConfigNode& root, std::string_view key, ConfigNode value,
                    const std::string& source) {
  const auto parts = split_key(key);
  if (parts.size() > kMaxConfigDepth) {
    fail<ConfigError>("{}: more than {} levels in the key", source, kMaxConfigDepth);
  }
  const ConfigOrigin origin = value.origin;
  ConfigNode* node = &root;
  for (const std::string& part : parts) {
    if (part.empty() || part.find_first_of(" \t") != std::string::npos) {
      fail<ConfigError>("{}: found '{}' in the key, expected names joined by dots", source,
                        printable_start(part));
    }
    if (node->kind == ConfigNode::Kind::kList) {
      node = &list_element(*node, part, source);
      continue;
    }
    if (node->kind != ConfigNode::Kind::kMap) {  // absent, null, or the short form of a OneOf
      node->kind = ConfigNode::Kind::kMap;
      node->patch = true;
      node->origin = origin;
    }
    ConfigNode* child = node->find(part);
    node = child ? child : &node->add(part, ConfigNode{});
    if (!child) node->origin = origin;
  }
  *node = std::move(value);
}

void apply_override(ConfigNode& root, const std::string& override_text) {
  const std::string source = "command line: " + printable_start(override_text, 200);
  const size_t equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail<ConfigError>("{}: expected key=value, such as optim.lr=1e-3", source);
  }
  const std::string_view text = override_text;
  detail::put_at(root, text.substr(0, equals),
                 parse_override_value(text.substr(equals + 1), source), source);
}

}  // namespace fovea
