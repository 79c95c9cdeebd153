#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/config/node.h"
#include "fovea/core/text.h"

namespace fovea {
namespace {

bool is_word(char c) { return is_letter_or_digit(c) || c == '_' || c == '/'; }

// True where no YAML reader, of version 1.1 or 1.2, takes the bare text for anything but this
// string.
bool is_plain_string(std::string_view text) {
  if (text.empty() || !is_word(text[0]) || number_form(text) != NumberForm::kNone) return false;
  const auto allowed = [](char c) {
    return is_word(c) || c == '.' || c == '-' || c == '+' || c == '@';
  };
  if (!std::all_of(text.begin(), text.end(), allowed)) return false;
  if (text[0] >= '0' && text[0] <= '9') {  // 0x1f, 1_000 and dates are numbers to some readers
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return c >= 'g' && c <= 'z' && c != 'x'; });
  }
  constexpr std::array<std::string_view, 9> kReserved = {"null", "true", "false", "yes", "no",
                                                         "on",   "off",  "y",     "n"};
  return std::find(kReserved.begin(), kReserved.end(), lowered(text)) == kReserved.end();
}

std::string string_text(std::string_view text) {
  if (is_plain_string(text)) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool fits_one_line(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
    case ConfigNode::Kind::kScalar:
      return true;
    case ConfigNode::Kind::kMap:
      return node.keys.empty();
    case ConfigNode::Kind::kList:
      break;
  }
  return std::all_of(node.children.begin(), node.children.end(), fits_one_line);
}

void emit_flow(const ConfigNode& node, std::string& out) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      out += node.scalar.empty() ? "null" : node.scalar;
      return;
    case ConfigNode::Kind::kScalar:
      out += node.quoted ? string_text(node.scalar) : node.scalar;
      return;
    case ConfigNode::Kind::kList:
    case ConfigNode::Kind::kMap:
      break;
  }
  const bool is_map = node.kind == ConfigNode::Kind::kMap;
  out += is_map ? '{' : '[';
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0) out += ", ";
    if (is_map) out += string_text(node.keys[i]) + ": ";
    emit_flow(node.children[i], out);
  }
  out += is_map ? '}' : ']';
}

// Emits the entries of a map or list, one a line; the first line of a list element goes on where "-
// " ended.
void emit_block(const ConfigNode& node, int indent, bool first_line_open, std::string& out) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  for (size_t i = 0; i < node.children.size(); ++i) {
    const ConfigNode& child = node.children[i];
    const bool is_map = node.kind == ConfigNode::Kind::kMap;
    if (!(first_line_open && i == 0)) out += margin;
    out += is_map ? string_text(node.keys[i]) + ":" : "-";
    if (fits_one_line(child)) {
      out += ' ';
      emit_flow(child, out);
      out += '\n';
    } else if (is_map) {
      out += '\n';
      emit_block(child, indent + 2, false, out);
    } else {
      out += ' ';
      emit_block(child, indent + 2, true, out);
    }
  }
}

}  // namespace

std::string emit_yaml(const ConfigNode& node) {
  if (fits_one_line(node)) return emit_yaml_flow(node) + '\n';
  std::string out;
  emit_block(node, 0, false, out);
  return out;
}

std::string emit_yaml_flow(const ConfigNode& node) {
  std::string out;
  emit_flow(node, out);
  return out;
}

}  // namespace fovea
