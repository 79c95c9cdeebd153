// Patterns of parameter names, which one list of rules uses in both directions.
#pragma once

#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>

namespace fovea::weights {

// "<vit.|deit.|>encoder.layer.{i}.norm1.{p}": <a|b|> is one of several spellings, the first is the
// one that is written; {p} is weight or bias, {*} any text, every other letter in braces a number.
class Pattern {
 public:
  using Captures = std::map<char, std::string>;

  explicit Pattern(std::string_view text);

  // What the braces stand for in `name`; empty: another name.
  std::optional<Captures> match(const std::string& name) const;
  // Empty where a brace has no value.
  std::optional<std::string> expand(const Captures& captures) const;

 private:
  std::string text_;
  std::string keys_;  // of the groups, in order
  std::regex regex_;
};

}  // namespace fovea::weights
