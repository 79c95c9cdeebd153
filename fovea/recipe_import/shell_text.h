// A shell's script as statements of words, none of which is expanded yet.
#pragma once

#include <string>
#include <vector>

namespace fovea::recipe_import {

// A part of a word: text as it stands, or what the shell would put something in place of.
struct ShellPiece {
  std::string text;   // of an expansion what is within: "LR", "LR:-1e-3", "(seq 1 3)"
  std::string shown;  // an expansion as it was written, "$LR"; of text empty
  bool quoted = false;

  bool expands() const { return !shown.empty(); }
};

struct ShellText {
  std::vector<ShellPiece> pieces;
  std::vector<ShellText> array = {};  // NAME=(...): what stands in the parentheses
  bool is_array = false;
};

using ShellStatement = std::vector<ShellText>;

// Quotes, backslashes, comments, redirections (left out) and what divides statements, as bash has
// them. Never fails: a quote that is not closed ends with the text.
std::vector<ShellStatement> shell_statements(const std::string& text);

// The word where nothing of it is quoted or expanded; "" else.
std::string plain_text(const ShellText& word);

}  // namespace fovea::recipe_import
