#include "fovea/recipe_import/gin.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "fovea/core/error.h"

namespace fovea {
namespace {

constexpr int kMaxGinIncludes = 16;  // files within files
constexpr int kMaxMacroDepth = 16;   // macros of macros

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/';
}

// Reads statements one after the other into a map.
class GinReader {
 public:
  GinReader(std::string_view text, const std::string& source, const GinIncludes& includes,
            ConfigNode& root, int depth)
      : text_(text),
        source_(std::make_shared<const std::string>(source)),
        includes_(includes),
        root_(root),
        depth_(depth) {}

  void read() {
    for (skip_blank(); at_ < text_.size(); skip_blank()) {
      is_indented_ = at_ > line_start_;
      read_statement();
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    fail<ConfigError>("{}: {}", ConfigOrigin{source_, line_}.text(), message);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char take() {
    const char c = text_[at_++];
    if (c == '\n') {
      line_ += 1;
      line_start_ = at_;
    }
    return c;
  }
  void skip_comment() {
    while (at_ < text_.size() && peek() != '\n') take();
  }
  // Spaces, and within brackets and between statements also ends of lines.
  void skip_blank(bool across_lines = true) {
    for (; at_ < text_.size(); take()) {
      if (peek() == '#') skip_comment();
      const char c = peek();
      const bool joins = c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
      if (joins) take();
      if (!joins && c != ' ' && c != '\t' && c != '\r' && !(across_lines && c == '\n')) return;
    }
  }
  std::string read_name() {
    const auto first = at_;
    while (is_name_char(peek())) take();
    return std::string(text_.substr(first, at_ - first));
  }

  void read_statement() {
    const auto name = read_name();
    if (name.empty()) {
      refuse(fmt::format("found '{}'; expected a name", printable_start(text_.substr(at_, 1))));
    }
    skip_blank(false);
    if ((name == "from" || name == "import") && peek() != '=') {
      while (at_ < text_.size() && peek() != '\n') take();
    } else if (name == "include" && (peek() == '\'' || peek() == '"')) {
      include(read_text());
    } else if (peek() == ':') {
      take();
      block_ = name;
    } else if (peek() == '=') {
      take();
      if (!is_indented_) block_.clear();
      bind(block_.empty() ? name : block_ + "." + name, read_value(0));
    } else {
      refuse(fmt::format("'{}' is followed by neither = nor :", printable_start(name)));
    }
    skip_blank(false);
    if (at_ < text_.size() && peek() != '\n')
      refuse("found more after a value; expected a new line");
  }

  void include(const std::string& name) {
    if (!includes_) refuse(fmt::format("includes {}, which is not at hand", printable_start(name)));
    if (depth_ >= kMaxGinIncludes) refuse("files include one another too deep");
    const auto text = includes_(name);
    GinReader(text, name, includes_, root_, depth_ + 1).read();
  }

  void bind(const std::string& name, ConfigNode value) {
    if (root_.children.size() >= kMaxConfigNodes) refuse("too many values");
    if (auto* known = root_.find(name)) {
      *known = std::move(value);
    } else {
      root_.add(name, std::move(value));
    }
  }

  ConfigNode make(ConfigNode::Kind kind) const {
    ConfigNode node;
    node.kind = kind;
    node.origin = {source_, line_};
    return node;
  }

  ConfigNode read_value(int depth) {
    if (depth > kMaxConfigDepth) refuse("brackets within brackets too deep");
    if (++num_values_ > kMaxConfigNodes) refuse("too many values");
    skip_blank(depth > 0);
    const char c = peek();
    if (c == '[' || c == '(') return read_list(c == '[' ? ']' : ')', depth);
    if (c == '{') return read_dict(depth);
    auto node = make(ConfigNode::Kind::kScalar);
    if (c == '\'' || c == '"') {
      node.scalar = read_text();
      node.quoted = true;
      return node;
    }
    node.scalar = read_word();
    if (node.scalar == "None") return make(ConfigNode::Kind::kNull);
    if (node.scalar == "True") node.scalar = "true";
    if (node.scalar == "False") node.scalar = "false";
    return node;
  }

  // A number, a name, %MACRO or @reference().
  std::string read_word() {
    const auto first = at_;
    if (peek() == '%' || peek() == '@' || peek() == '-' || peek() == '+') take();
    while (is_name_char(peek()) || peek() == '+' || peek() == '-') take();
    if (at_ == first) refuse("found no value after =");
    if (text_[first] == '@' && text_.substr(at_, 2) == "()") at_ += 2;
    return std::string(text_.substr(first, at_ - first));
  }

  std::string read_text() {
    const char quote = take();
    std::string text;
    while (peek() != quote) {
      if (at_ >= text_.size() || peek() == '\n') refuse("a text has no end");
      if (peek() == '\\' && at_ + 1 < text_.size()) take();
      text += take();
    }
    take();
    if (text.find('\0') != std::string::npos) refuse("found a NUL character in a text");
    return text;
  }

  ConfigNode read_list(char end, int depth) {
    auto node = make(ConfigNode::Kind::kList);
    take();
    for (skip_blank(); peek() != end; skip_blank()) {
      if (at_ >= text_.size()) refuse("a list has no end");
      node.children.push_back(read_value(depth + 1));
      next_or_end(end);
    }
    take();
    return node;
  }

  ConfigNode read_dict(int depth) {
    auto node = make(ConfigNode::Kind::kMap);
    take();
    for (skip_blank(); peek() != '}'; skip_blank()) {
      if (at_ >= text_.size()) refuse("a dict has no end");
      const auto key = read_value(depth + 1);
      skip_blank();
      if (key.kind != ConfigNode::Kind::kScalar || peek() != ':') refuse("expected `key: value`");
      take();
      if (node.find(key.scalar))
        refuse(fmt::format("'{}' comes twice", printable_start(key.scalar)));
      node.add(key.scalar, read_value(depth + 1));
      next_or_end('}');
    }
    take();
    return node;
  }

  void next_or_end(char end) {
    skip_blank();
    if (at_ >= text_.size()) refuse(fmt::format("a bracket has no end, which is {}", end));
    if (peek() == ',') {
      take();
    } else if (peek() != end) {
      refuse(fmt::format("expected , or {}", end));
    }
  }

  std::string_view text_;
  std::shared_ptr<const std::string> source_;
  const GinIncludes& includes_;
  ConfigNode& root_;
  int depth_;
  size_t at_ = 0, line_start_ = 0, num_values_ = 0;
  int line_ = 1;
  bool is_indented_ = false;
  std::string block_;
};

void resolve(ConfigNode& node, const ConfigNode& macros, int depth) {
  for (auto& child : node.children) resolve(child, macros, depth);
  const bool is_macro =
      node.kind == ConfigNode::Kind::kScalar && !node.quoted && node.scalar.starts_with('%');
  const auto* value = is_macro ? macros.find(node.scalar.substr(1)) : nullptr;
  if (value == nullptr || depth >= kMaxMacroDepth) return;
  const auto origin = node.origin;
  node = *value;
  node.origin = origin;
  // A list of macros may grow with each round: only plain values are followed.
  if (node.kind == ConfigNode::Kind::kScalar) resolve(node, macros, depth + 1);
}

}  // namespace

ConfigNode parse_gin(std::string_view text, const std::string& source,
                     const GinIncludes& includes) {
  if (text.size() > kMaxConfigBytes) {
    fail<ConfigError>("{}: {} bytes; expected at most {}", source, text.size(), kMaxConfigBytes);
  }
  ConfigNode root;
  root.kind = ConfigNode::Kind::kMap;
  GinReader(text, source, includes, root, 0).read();
  const auto macros = root;
  for (auto& child : root.children) resolve(child, macros, 0);
  return root;
}

}  // namespace fovea
