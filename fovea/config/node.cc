#include "fovea/config/node.h"

#include <fmt/format.h>

#include <utility>

namespace fovea {

std::string ConfigOrigin::text() const {
  const std::string name = source ? *source : std::string("config");
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

const ConfigNode* ConfigNode::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &children[i];
  }
  return nullptr;
}

ConfigNode* ConfigNode::find(std::string_view key) {
  return const_cast<ConfigNode*>(std::as_const(*this).find(key));
}

ConfigNode& ConfigNode::add(std::string key, ConfigNode child) {
  keys.push_back(std::move(key));
  children.push_back(std::move(child));
  return children.back();
}

NumberForm number_form(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t start = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - start;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  if (text.substr(i) == ".inf") return NumberForm::kReal;
  NumberForm form = NumberForm::kInteger;
  size_t mantissa = digits();
  if (i < text.size() && text[i] == '.') {
    form = NumberForm::kReal;
    ++i;
    mantissa += digits();
  }
  if (mantissa == 0) return NumberForm::kNone;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    form = NumberForm::kReal;
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return NumberForm::kNone;
  }
  return i == text.size() ? form : NumberForm::kNone;
}

std::string describe_node(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return "null";
    case ConfigNode::Kind::kList:
      return fmt::format("a list of {}", node.children.size());
    case ConfigNode::Kind::kMap:
      return node.keys.empty()
                 ? "an empty map"
                 : fmt::format("a map with the key '{}'", printable_start(node.keys[0]));
    case ConfigNode::Kind::kScalar:
      break;
  }
  if (node.quoted) return fmt::format("\"{}\" (quoted string)", printable_start(node.scalar));
  if (node.scalar == "true" || node.scalar == "false") return node.scalar + " (boolean)";
  switch (number_form(node.scalar)) {
    case NumberForm::kInteger:
      return printable_start(node.scalar) + " (integer)";
    case NumberForm::kReal:
      return printable_start(node.scalar) + " (number)";
    case NumberForm::kNone:
      break;
  }
  return fmt::format("'{}' (string)", printable_start(node.scalar));
}

}  // namespace fovea
