// What OmegaConf puts in place of ${...}.
#include <algorithm>
#include <optional>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/recipe_import/hydra.h"

namespace fovea::recipe_import {
namespace {

constexpr int kMaxReferences = 32;

using Path = std::vector<std::string>;

const ConfigNode* node_at(const ConfigNode& root, const std::string& dotted) {
  const ConfigNode* node = &root;
  for (size_t first = 0; node != nullptr && first <= dotted.size();) {
    const auto dot = std::min(dotted.find('.', first), dotted.size());
    node = node->kind == ConfigNode::Kind::kMap ? node->find(dotted.substr(first, dot - first))
                                                : nullptr;
    first = dot + 1;
  }
  return node;
}

std::string joined_path(const Path& path, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i > 0 ? "." : "") + path[i];
  return text;
}

// The key that `${...}` names, seen from the value at `path`: one dot is the map it stands in.
std::string absolute_key(const std::string& name, const Path& path) {
  size_t dots = 0;
  while (dots < name.size() && name[dots] == '.') ++dots;
  if (dots == 0) return name;
  const auto up = path.size() >= dots ? path.size() - dots : 0;
  const auto prefix = joined_path(path, up);
  return prefix + (prefix.empty() ? "" : ".") + name.substr(dots);
}

size_t end_of(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return std::string::npos;
}

class Interpolation {
 public:
  explicit Interpolation(const ConfigNode& root) : root_(root) {}

  // The value with all that is known put in.
  ConfigNode resolved(const ConfigNode& node, Path& path, int depth = 0) const {
    if (depth > kMaxReferences) {
      fail<ConfigError>("{}: values that refer to each other in a circle", node.origin.text());
    }
    ConfigNode copy = node;
    for (size_t i = 0; i < copy.children.size(); ++i) {
      path.push_back(copy.keys.empty() ? std::to_string(i) : copy.keys[i]);
      copy.children[i] = resolved(node.children[i], path, depth);
      path.pop_back();
    }
    if (copy.kind != ConfigNode::Kind::kScalar || copy.scalar.find("${") == std::string::npos) {
      return copy;
    }
    const auto& text = node.scalar;
    if (text.starts_with("${") && end_of(text, 1) == text.size() - 1) {
      const auto value = value_of(text.substr(2, text.size() - 3), path, depth);
      return value ? *value : copy;
    }
    std::string put_in;
    for (size_t at = 0; at < text.size();) {
      const auto open = text.find("${", at);
      const auto close = open == std::string::npos ? open : end_of(text, open + 1);
      if (close == std::string::npos) {
        put_in += text.substr(at);
        break;
      }
      const auto value = value_of(text.substr(open + 2, close - open - 2), path, depth);
      put_in += text.substr(at, open - at);
      put_in += value && value->kind == ConfigNode::Kind::kScalar
                    ? value->scalar
                    : text.substr(open, close - open + 1);
      at = close + 1;
    }
    copy.scalar = put_in;
    return copy;
  }

 private:
  std::optional<ConfigNode> value_of(const std::string& inner, const Path& path, int depth) const {
    const std::string env = "oc.env:";
    if (inner.starts_with(env)) {  // of the run's environment: what the file says for want of it
      const auto comma = inner.find(',');
      if (comma == std::string::npos) return {};
      return parse_override_value(inner.substr(comma + 1), "oc.env");
    }
    const auto key = absolute_key(inner, path);
    const auto* node = node_at(root_, key);
    if (node == nullptr) return {};
    Path own;  // dots within it count from where it stands
    std::istringstream parts(key);
    for (std::string part; std::getline(parts, part, '.');) own.push_back(part);
    return resolved(*node, own, depth + 1);
  }

  const ConfigNode& root_;
};

}  // namespace

void interpolate(ConfigNode& root) {
  const ConfigNode before = root;
  Path path;
  root = Interpolation(before).resolved(before, path);
}

}  // namespace fovea::recipe_import
