// YAML as a small tree of our own, with the place each entry came from. Everything that a recipe
// has no need of (anchors, tags, several documents, deep nesting, large files) is refused, with
// file and line.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/core/printable.h"

namespace fovea {

inline constexpr size_t kMaxConfigBytes = size_t{1} << 20;
inline constexpr int kMaxConfigDepth = 64;
inline constexpr size_t kMaxConfigNodes = 100'000;

// Where an entry was written: a line of a file, or an override on the command line.
struct ConfigOrigin {
  std::shared_ptr<const std::string> source;
  int line = 0;  // 0: the source as a whole

  std::string text() const;  // "recipe.yaml:12", "command line: optim.lr=1"
};

struct ConfigNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string
      scalar;  // text of a scalar; of a map made from one by an override (`- flip` -> {p: 1})
  bool quoted = false;  // a scalar that was quoted, so a string in any case
  bool patch =
      false;  // a map made by an override: changes the value that is there, does not replace it
  std::vector<std::string> keys;  // of a map, one for each child
  std::vector<ConfigNode> children;
  ConfigOrigin origin;

  const ConfigNode* find(std::string_view key) const;
  ConfigNode* find(std::string_view key);
  ConfigNode& add(std::string key, ConfigNode child);
};

// Throws ConfigError ("recipe.yaml:3: ...") for what is not YAML or is refused. An empty text is an
// empty map.
ConfigNode parse_config_yaml(std::string_view yaml, const std::string& source);

// A value as written after `=`: a list, a map or a quoted string as YAML; all else is a plain
// scalar from its first to its last character, so that no path is cut at what YAML takes for a
// comment.
ConfigNode parse_override_value(std::string_view text, const std::string& source);

// Puts `a.b.0.c=value` into the tree. Throws ConfigError where the form is wrong.
void apply_override(ConfigNode& root, const std::string& override_text);

// A field of a config whose keys are not its own: a map that is read, kept and written as it
// stands, for whoever knows what its keys mean (changed_config in config.h).
struct ConfigTree {
  ConfigNode root;

  bool empty() const { return root.children.empty(); }
};

// YAML that parses back to the same tree: block maps, lists of scalars in one line.
std::string emit_yaml(const ConfigNode& node);
// The node in one line: "[0.9, 0.999]".
std::string emit_yaml_flow(const ConfigNode& node);

// "'fast' (string)", "a list": how messages name what was found.
std::string describe_node(const ConfigNode& node);

// Plain scalars as YAML's core schema reads them. No value: not of that form, or out of range.
enum class NumberForm { kNone, kInteger, kReal };
NumberForm number_form(std::string_view text);

}  // namespace fovea
