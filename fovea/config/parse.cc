// From YAML text to ConfigNode, over yaml-cpp's event interface: its node tree and its emitter are
// not used, so that depth, size and positions stay in our hands.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "fovea/config/foreign_yaml.h"
#include "fovea/config/node.h"
#include "fovea/config/yaml_root.h"
#include "fovea/core/error.h"
#include "fovea/core/utf8.h"

namespace fovea {
namespace {

// Of the names that a file gives to values (&name, *name, <<): a recipe says each value where it
// stands, and files of other programs may use them.
enum class Aliases { kRefused, kTaken };

class TreeBuilder : public YAML::EventHandler {
 public:
  // first_line: 1 for a file, 0 where lines mean nothing (an override).
  TreeBuilder(std::string source, int first_line, Aliases aliases = Aliases::kRefused)
      : source_(std::make_shared<const std::string>(std::move(source))),
        first_line_(first_line),
        takes_aliases_(aliases == Aliases::kTaken) {}

  ConfigNode take_root() { return std::move(root_); }
  ConfigOrigin origin(const YAML::Mark& mark) const {
    return {source_, first_line_ > 0 ? mark.line + first_line_ : 0};
  }
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& message) const {
    fail<ConfigError>("{}: {}", origin(mark).text(), message);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!takes_aliases_) {
      refuse(mark, "found an alias (*name); expected plain values: write the value out");
    }
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "found an alias of a value that holds it");
    if (expects_key() && found->second.kind != ConfigNode::Kind::kScalar) {
      refuse(mark, "found an alias of a list or map as a key");
    }
    if (expects_key()) return take_key(mark, found->second.scalar);
    count(mark, num_nodes_of(found->second, open_.size()));
    place(found->second, 0);
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    if (takes_aliases_) return;
    refuse(mark, fmt::format("found the anchor &{}; expected plain values: write the value out",
                             printable_start(name)));
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    ConfigNode node = make(mark, ConfigNode::Kind::kNull);
    if (expects_key()) refuse(mark, "found null as a key; expected a name");
    place(std::move(node), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    if (value.find('\0') != std::string::npos) refuse(mark, "found a NUL character in a string");
    ConfigNode node = make(mark, ConfigNode::Kind::kScalar);
    node.scalar = value;
    node.quoted = tag == "!";
    if (!expects_key()) return place(std::move(node), anchor);
    if (anchor != 0) anchors_[anchor] = std::move(node);
    take_key(mark, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigNode::Kind::kList, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigNode::Kind::kMap, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    ConfigNode node;
    std::unordered_set<std::string> seen;
    std::string pending_key;
    ConfigOrigin pending_origin;
    bool has_key = false;
    YAML::anchor_t anchor = 0;
  };

  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == ConfigNode::Kind::kMap &&
           !open_.back().has_key;
  }
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, fmt::format("found the tag {}; expected plain values, without tags",
                             printable_start(tag)));
  }
  void take_key(const YAML::Mark& mark, const std::string& key) {
    if (!open_.back().seen.insert(key).second) {
      refuse(mark, fmt::format("the key '{}' comes twice in one map; keep one of them",
                               printable_start(key)));
    }
    open_.back().pending_key = key;
    open_.back().pending_origin = origin(mark);
    open_.back().has_key = true;
  }
  void count(const YAML::Mark& mark, size_t num_nodes) {
    num_nodes_ += num_nodes;
    if (num_nodes_ > kMaxConfigNodes) {
      refuse(mark, fmt::format("more than {} values; a recipe has a few hundred", kMaxConfigNodes));
    }
  }
  // Of a value that is put in once more, `depth` levels deep.
  size_t num_nodes_of(const ConfigNode& node, size_t depth) const {
    if (depth > kMaxConfigDepth) {
      fail<ConfigError>("{}: nested deeper than {} levels; a recipe needs fewer than 10",
                        node.origin.text(), kMaxConfigDepth);
    }
    size_t sum = 1;
    for (const auto& child : node.children) sum += num_nodes_of(child, depth + 1);
    return sum;
  }
  ConfigNode make(const YAML::Mark& mark, ConfigNode::Kind kind) {
    count(mark, 1);
    ConfigNode node;
    node.kind = kind;
    node.origin = origin(mark);
    return node;
  }
  void open(const YAML::Mark& mark, const std::string& tag, ConfigNode::Kind kind,
            YAML::anchor_t anchor) {
    check_tag(mark, tag);
    if (open_.size() >= kMaxConfigDepth) {
      refuse(mark, fmt::format("nested deeper than {} levels; a recipe needs fewer than 10",
                               kMaxConfigDepth));
    }
    if (expects_key()) {
      refuse(mark, "found a list or map as a key, or a bracket that is not closed");
    }
    open_.push_back({.node = make(mark, kind),
                     .seen = {},
                     .pending_key = {},
                     .pending_origin = {},
                     .anchor = anchor});
  }
  void close() {
    ConfigNode node = std::move(open_.back().node);
    const auto anchor = open_.back().anchor;
    open_.pop_back();
    if (takes_aliases_) merge_keys(node);
    place(std::move(node), anchor);
  }
  // `<<: *base`: what the map does not say itself; of several maps the first one that has it.
  static void merge_keys(ConfigNode& node) {
    const auto* found = node.kind == ConfigNode::Kind::kMap ? node.find("<<") : nullptr;
    if (found == nullptr) return;
    const ConfigNode merged = *found;
    const auto at = std::find(node.keys.begin(), node.keys.end(), "<<") - node.keys.begin();
    node.keys.erase(node.keys.begin() + at);
    node.children.erase(node.children.begin() + at);
    const auto add = [&](const ConfigNode& map) {
      if (map.kind != ConfigNode::Kind::kMap) {
        fail<ConfigError>("{}: found {} behind <<, expected maps", merged.origin.text(),
                          describe_node(map));
      }
      for (size_t i = 0; i < map.keys.size(); ++i) {
        if (node.find(map.keys[i]) == nullptr) node.add(map.keys[i], map.children[i]);
      }
    };
    if (merged.kind != ConfigNode::Kind::kList) return add(merged);
    for (const auto& map : merged.children) add(map);
  }
  void place(ConfigNode node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == ConfigNode::Kind::kList) {
      parent.node.children.push_back(std::move(node));
      return;
    }
    node.origin = parent.pending_origin;
    parent.node.add(std::move(parent.pending_key), std::move(node));
    parent.has_key = false;
  }

  std::shared_ptr<const std::string> source_;
  int first_line_;
  bool takes_aliases_;
  std::map<YAML::anchor_t, ConfigNode> anchors_;  // values that are whole
  std::vector<Open> open_;
  ConfigNode root_;
  size_t num_nodes_ = 0;
};

// What yaml-cpp would take in silence: bytes that are no text, and tabs as indentation.
void check_text(std::string_view text, const std::string& source, bool is_file) {
  int line = 1;
  bool indentation = true;
  const auto refuse = [&](const std::string& message) {
    fail<ConfigError>("{}: {}", is_file ? fmt::format("{}:{}", source, line) : source, message);
  };
  if (text.size() > kMaxConfigBytes) {
    fail<ConfigError>("{}: {} bytes; expected a recipe of at most {} bytes", source, text.size(),
                      kMaxConfigBytes);
  }
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text.substr(i));
    if (length == 0) refuse("found bytes that are not UTF-8; save the file as UTF-8 text");
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\t' && indentation) refuse("found a tab in the indentation; YAML wants spaces");
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
      refuse(fmt::format("found the control character 0x{:02x}; expected text", byte));
    }
    if (byte == '\n') {
      ++line;
      indentation = true;
    } else if (byte != ' ') {
      indentation = false;
    }
    i += length;
  }
}

ConfigNode parse(std::string_view yaml, const std::string& source, bool is_file,
                 Aliases aliases = Aliases::kRefused) {
  check_text(yaml, source, is_file);
  TreeBuilder builder(source, is_file ? 1 : 0, aliases);
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    ConfigNode root = builder.take_root();
    if (!root.origin.source) root.origin = {std::make_shared<const std::string>(source), 0};
    TreeBuilder rest(source, 0);
    if (parser.HandleNextDocument(rest)) {
      fail<ConfigError>("{}: found a second document (---); expected one", source);
    }
    return root;
  } catch (const YAML::Exception& error) {
    builder.refuse(error.mark, fmt::format("not valid YAML: {}", printable_start(error.msg, 200)));
  }
}

// As a recipe's plain scalars, but to the end: a comment, a colon or a line break that YAML would
// see in it is the value's own.
ConfigNode parse_plain_value(std::string_view text, const std::string& source) {
  constexpr std::array<std::string_view, 4> kNulls = {"null", "Null", "NULL", "~"};
  check_text(text, source, /*is_file=*/false);
  ConfigNode node;
  const bool is_null = std::find(kNulls.begin(), kNulls.end(), text) != kNulls.end();
  node.kind = is_null ? ConfigNode::Kind::kNull : ConfigNode::Kind::kScalar;
  if (!is_null) node.scalar = text;
  node.origin = {std::make_shared<const std::string>(source), 0};
  return node;
}

ConfigNode as_map(ConfigNode root) {
  if (root.kind == ConfigNode::Kind::kNull) root.kind = ConfigNode::Kind::kMap;
  if (root.kind != ConfigNode::Kind::kMap) {
    fail<ConfigError>("{}: found {}, expected a map of keys such as `optim: {{lr: 1e-3}}`",
                      root.origin.text(), describe_node(root));
  }
  root.origin.line = 0;
  return root;
}

}  // namespace

ConfigNode parse_config_yaml(std::string_view yaml, const std::string& source) {
  return as_map(parse(yaml, source, /*is_file=*/true));
}

ConfigNode parse_yaml_root(std::string_view yaml, const std::string& source) {
  return parse(yaml, source, /*is_file=*/true);
}

ConfigNode parse_foreign_yaml(std::string_view yaml, const std::string& source) {
  return as_map(parse(yaml, source, /*is_file=*/true, Aliases::kTaken));
}

ConfigNode parse_override_value(std::string_view text, const std::string& source) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return parse_plain_value("", source);
  text = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  if (std::string_view("[{\"'").find(text[0]) == std::string_view::npos)
    return parse_plain_value(text, source);
  if (text.find_first_of("\r\n") != std::string_view::npos) {
    fail<ConfigError>("{}: found a line break in the value; expected it in one line", source);
  }
  auto node = parse(text, source, /*is_file=*/false);
  // Behind a comment nothing is read, so that a bracket too many does no harm.
  try {
    parse(std::string(text) + " ]", source, /*is_file=*/false);
  } catch (const ConfigError&) {
    return node;
  }
  fail<ConfigError>("{}: found a comment (#) behind the value; leave it out, or quote the value",
                    source);
}

}  // namespace fovea
