// From YAML text to ConfigNode, over yaml-cpp's event interface: its node tree and its emitter are
// not used, so that depth, size and positions stay in our hands.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "fovea/core/config_node.h"
#include "fovea/core/error.h"
#include "fovea/core/utf8.h"

namespace fovea {
namespace {

class TreeBuilder : public YAML::EventHandler {
 public:
  // first_line: 1 for a file, 0 where lines mean nothing (an override).
  TreeBuilder(std::string source, int first_line)
      : source_(std::make_shared<const std::string>(std::move(source))), first_line_(first_line) {}

  ConfigNode take_root() { return std::move(root_); }
  ConfigOrigin origin(const YAML::Mark& mark) const {
    return {source_, first_line_ > 0 ? mark.line + first_line_ : 0};
  }
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& message) const {
    fail<ConfigError>("{}: {}", origin(mark).text(), message);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "found an alias (*name); expected plain values: write the value out");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    refuse(mark, fmt::format("found the anchor &{}; expected plain values: write the value out",
                             printable_start(name)));
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    ConfigNode node = make(mark, ConfigNode::Kind::kNull);
    if (expects_key()) refuse(mark, "found null as a key; expected a name");
    place(std::move(node));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    check_tag(mark, tag);
    if (value.find('\0') != std::string::npos) refuse(mark, "found a NUL character in a string");
    if (expects_key()) {
      if (!open_.back().seen.insert(value).second) {
        refuse(mark, fmt::format("the key '{}' comes twice in one map; keep one of them",
                                 printable_start(value)));
      }
      open_.back().pending_key = value;
      open_.back().pending_origin = origin(mark);
      open_.back().has_key = true;
      return;
    }
    ConfigNode node = make(mark, ConfigNode::Kind::kScalar);
    node.scalar = value;
    node.quoted = tag == "!";
    place(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigNode::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigNode::Kind::kMap);
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
  ConfigNode make(const YAML::Mark& mark, ConfigNode::Kind kind) {
    if (++num_nodes_ > kMaxConfigNodes) {
      refuse(mark, fmt::format("more than {} values; a recipe has a few hundred", kMaxConfigNodes));
    }
    ConfigNode node;
    node.kind = kind;
    node.origin = origin(mark);
    return node;
  }
  void open(const YAML::Mark& mark, const std::string& tag, ConfigNode::Kind kind) {
    check_tag(mark, tag);
    if (open_.size() >= kMaxConfigDepth) {
      refuse(mark, fmt::format("nested deeper than {} levels; a recipe needs fewer than 10",
                               kMaxConfigDepth));
    }
    if (expects_key()) {
      refuse(mark, "found a list or map as a key, or a bracket that is not closed");
    }
    open_.push_back(
        {.node = make(mark, kind), .seen = {}, .pending_key = {}, .pending_origin = {}});
  }
  void close() {
    ConfigNode node = std::move(open_.back().node);
    open_.pop_back();
    place(std::move(node));
  }
  void place(ConfigNode node) {
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

ConfigNode parse(std::string_view yaml, const std::string& source, bool is_file) {
  check_text(yaml, source, is_file);
  TreeBuilder builder(source, is_file ? 1 : 0);
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

}  // namespace

ConfigNode parse_config_yaml(std::string_view yaml, const std::string& source) {
  ConfigNode root = parse(yaml, source, /*is_file=*/true);
  if (root.kind == ConfigNode::Kind::kNull) root.kind = ConfigNode::Kind::kMap;
  if (root.kind != ConfigNode::Kind::kMap) {
    fail<ConfigError>("{}: found {}, expected a map of keys such as `optim: {{lr: 1e-3}}`",
                      root.origin.text(), describe_node(root));
  }
  root.origin.line = 0;
  return root;
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
